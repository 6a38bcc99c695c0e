package jobstore

import (
	"encoding/hex"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

// foreseen is what a transaction is going to read.
type foreseen struct {
	s      *Store
	keys   [][]byte
	ranges []kv.Range
}

// job adds the record of a job, and its replication if there is likely to be one.
func (f *foreseen) job(jobID string, replication bool) {
	if f.ranges = append(f.ranges, f.s.Keys.Jobs.Job.Sub(jobID).Range()); replication {
		f.ranges = append(f.ranges, f.s.Keys.Spec.Sub(jobID).Range())
	}
}

// claim adds the row that says which job has a replication.
func (f *foreseen) claim(repID string) {
	if repID != "" {
		f.keys = append(f.keys, f.s.Keys.Claim.Pack(repID))
	}
}

// order adds what the place of a job of the account depends on.
func (f *foreseen) order(account string) {
	k := f.s.Keys
	f.keys = append(f.keys, k.Order, k.Virtual, k.Floor, k.Reindex, k.Shares.Pack(account),
		k.Count.Pack(account), k.Weights.Pack(account), k.Tail.Pack(account))
	f.ranges = append(f.ranges, k.Usage.Sub(account).Range())
}

// turn adds what the end of a turn reads of all accounts.
func (f *foreseen) turn() {
	k := f.s.Keys
	f.keys = append(f.keys, k.Order, k.Reindex, k.Virtual, k.Floor)
}

// document adds the document that a job belongs to, if it belongs to one.
func (f *foreseen) document(jobID string) {
	prefix, docID, found := strings.Cut(jobID, "|")
	instance, _ := hex.DecodeString(prefix)
	if !found || len(instance) != len(tuple.UUID{}) {
		return
	}
	keys, bodies := f.s.Docs.Reads(tuple.UUID(instance), docID)
	f.keys, f.ranges = append(f.keys, keys...), append(f.ranges, bodies, f.s.Docs.Designs(tuple.UUID(instance)))
}

// writing is one call of WriteDocs.
type writing struct {
	s       *Store
	tx      kv.Tx
	db      *docs.Database
	by      Writer
	checked map[checkedBody]*outcome
	*validators
}

// checkedBody is a body that was checked in this call, as the edit has it.
type checkedBody struct {
	text                string
	deleted, replicated bool
}

// outcome is what became of a check.
type outcome struct {
	content *content
	err     error
}

// check validates a document, whose body may have been checked before.
func (w *writing) check(next *docs.Document, replicated bool) (*content, error) {
	body := checkedBody{string(next.Body), next.Deleted, replicated}
	c := w.checked[body]
	if c == nil {
		c = &outcome{}
		c.content, c.err = w.s.validate(next, replicated, w.by)
		w.checked[body] = c
	}
	if c.err != nil {
		return nil, c.err
	}
	next.Body = c.content.text
	return c.content, nil
}

// foresee prefetches all that the writing of edits and the following of their jobs will read. The record of a
// job that exists names a claim that may be given up.
func (w *writing) foresee(edits []docs.Edit) error {
	all, claims := foreseen{s: w.s}, foreseen{s: w.s}
	var old []string // jobs that are likely to exist
	for i := range edits {
		next := edits[i].Document
		if exempt(next.ID) || docs.ValidID(next.ID) != nil {
			continue
		}
		jobID := documentJobID(w.db.Instance, next.ID)
		exists := !next.Rev.IsZero()
		if all.job(jobID, exists); exists {
			old = append(old, jobID)
		}
		c, err := w.check(&next, edits[i].Replicated)
		if err == nil && c.rep != nil && c.rep.Filter.Kind != spec.FunctionFilter {
			all.claim(repid.New(w.s.Config.Server, c.rep, "").String())
		}
	}
	if len(all.ranges) > 0 {
		all.order(w.db.Name)
		all.ranges = append(all.ranges, w.s.Docs.Designs(w.db.Instance))
	}
	w.db.Prefetch(edits, all.keys, all.ranges)
	for _, jobID := range old {
		rec, err := w.s.Record(w.tx.Snapshot(), jobID)
		if err != nil {
			return err
		}
		if rec != nil {
			claims.claim(rec.RepID)
		}
	}
	if len(claims.keys) > 0 {
		w.tx.Prefetch(claims.keys, nil)
	}
	return nil
}
