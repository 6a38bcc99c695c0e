package follow

import (
	"errors"
	"fmt"
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
)

type (
	// Look reads which documents of the mirror have changed after Looked. It answers Seen.
	Look struct {
		Held
		Looked  string
		Without []string // documents whose changes cannot be read; they are taken for changed
	}
	// Prepare notes that the states of documents of the mirror are known up to Looked, and reads which are to be
	// written back: of those that Changed, or a page of All, behind After in the order of ids. It answers Prepared.
	Prepare struct {
		Held
		Changed []string
		Looked  string
		All     bool
		After   string
		Without []string // documents that could not be read; they stay due
	}
	// Sent notes states that the followed database has. They stay due until the feed has brought them. It answers Done.
	Sent struct {
		Held
		Docs    []Written
		Without []string // documents that could not be read; nothing is noted of them
	}
)

type (
	// Seen are ids of documents that changed, up to Looked. Unless there is More, the mirror is as it was At.
	Seen struct {
		Changed []string
		Looked  string
		More    bool
		At      docs.Seq
	}
	// Prepared are states to be written back, and the id up to where there are no others. Rest reports that some of the
	// documents that Changed are due now, and were not read.
	Prepared struct {
		States     []State
		After      string
		More, Rest bool
	}
)

// State is the state of a replication for its document.
type State struct {
	ID      string
	Rev     string   // of the document, as it was applied last
	Body    string   // digest of its body
	Was     []string // digests of the states that were sent before, and may have arrived
	Members []ejson.Member
	Digest  string   // of Members
	Over    []string // as in row
	Owner   string   // that the mirror names; empty for none
}

// Written says that a document has a state: its revision Rev was written over Over. Base was applied last then.
type Written struct{ ID, Base, Over, Rev, Digest string }

func (Seen) result()     {}
func (Prepared) result() {}

func (q Look) String() string { return fmt.Sprintf("look at %s after %s", q.Held, q.Looked) }
func (q Prepare) String() string {
	return fmt.Sprintf("prepare %s, %d changed, looked %s, after %q", q.Held, len(q.Changed), q.Looked, q.After)
}
func (q Sent) String() string { return fmt.Sprintf("sent %d states of %s", len(q.Docs), q.Held) }

// perform reads the mirror's feed in a transaction of its own, which conflicts with no writer.
func (q Look) perform(tx kv.Tx, s *Store, _ instant.Time) (Result, error) {
	if _, _, err := q.read(tx, s); err != nil {
		return nil, err
	}
	db, err := s.mirror(tx, q.ID)
	if err != nil {
		return nil, err
	}
	since, err := docs.ParseSeq(q.Looked)
	if err != nil {
		return nil, err
	}
	page, err := db.Changes(docs.Query{Since: since, Limit: s.Pages.Look, Without: q.Without})
	if odd, is := errors.AsType[*docs.UnreadableChangeError](err); is && odd.ID != "" {
		return nil, ofDoc(odd.ID, err)
	} else if err != nil {
		return nil, err
	}
	info, err := db.Info()
	if err != nil {
		return nil, err
	}
	seen := Seen{Changed: slices.Clone(q.Without), Looked: page.Last.String(), More: page.More, At: info.UpdateSeq}
	for _, row := range page.Rows {
		if !row.Deleted && !slices.Contains(q.Without, row.ID) {
			seen.Changed = append(seen.Changed, row.ID)
		}
	}
	return seen, nil
}

// Arm sets a watch for an Await. It returns nil if the mirror has changed already. The mirror is read in the
// transaction that sets the watch, so that no change between the two goes unnoticed.
func Arm(tx kv.Tx, s *Store, a Await) (kv.Watch, error) {
	db, err := s.mirror(tx, a.Job)
	if err != nil {
		return nil, err
	}
	info, err := db.Info()
	if err != nil || info.UpdateSeq != a.At {
		return nil, err
	}
	return db.Watch(), nil
}

func (q Prepare) perform(tx kv.Tx, s *Store, _ instant.Time) (Result, error) {
	_, data, err := q.read(tx, s)
	if err != nil {
		return nil, err
	}
	if data.Looked != q.Looked {
		data.Looked = q.Looked
		if err := s.Queue.Update(tx, q.ID, q.Lock, data.encode()); err != nil {
			return nil, err
		}
	}
	got, ids := Prepared{After: q.After}, q.Changed
	if q.All {
		if ids, err = s.due(tx, q); err != nil {
			return nil, err
		}
		if got.More = len(ids) == s.Pages.Send; len(ids) > 0 {
			got.After = ids[len(ids)-1]
		}
	}
	n := 0
	if got.States, n, err = s.states(tx, q, ids); err != nil || n == len(ids) {
		return got, err
	}
	if q.All {
		got.After, got.More = ids[n-1], true
		return got, nil
	}
	for _, id := range ids[n:] {
		tx.Set(s.Keys.due(q.ID, id), nil)
	}
	got.Rest = true
	return got, nil
}

// due reads a page of the documents whose states are to be written back.
func (s *Store) due(tx kv.Tx, q Prepare) ([]string, error) {
	all := s.Keys.Rows.Sub(q.ID, "due")
	at := all.Range()
	if q.After != "" {
		at.Begin = kv.KeyAfter(all.Pack(q.After))
	}
	rows, err := tx.GetRange(at, kv.RangeOptions{Limit: s.Pages.Send})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		if err := all.Scan(row.Key, &ids[i]); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// foresee prefetches rows and documents.
func (s *Store) foresee(tx kv.Tx, db *docs.Database, job string, ids []string) {
	var keys [][]byte
	var bodies []kv.Range
	for _, id := range ids {
		record, body := s.Relay.Docs.Reads(db.Instance, id)
		keys, bodies = append(append(keys, record...), s.Keys.doc(job, id)), append(bodies, body)
	}
	tx.Prefetch(keys, bodies)
}

// states reads which of the documents have another state in the mirror, and notes that it is about to be sent. With
// all, what was written, but has not come by the feed, is looked at again: it may have gone with a backup or a crash.
// It returns how many documents it has read: no more than one transaction should.
func (s *Store) states(tx kv.Tx, q Prepare, ids []string) (list []State, n int, err error) {
	job := q.ID
	db, err := s.mirror(tx, job)
	if err != nil {
		return nil, 0, err
	}
	s.foresee(tx, db, job, ids)
	read := 0
	for n, id := range ids {
		if read >= readBudget {
			return list, n, nil
		}
		if slices.Contains(q.Without, id) {
			tx.Set(s.Keys.due(job, id), nil)
			continue
		}
		body, digest, size, err := stateIn(db, id)
		if err != nil {
			return nil, 0, ofDoc(id, err)
		}
		r, err := s.Keys.row(tx, job, id)
		if err != nil {
			return nil, 0, ofDoc(id, err)
		}
		read += size
		written := r != nil && r.State == digest
		if r == nil || digest == "" || written && r.Over == "" {
			tx.Clear(s.Keys.due(job, id))
			continue
		}
		if written && !q.All {
			continue // it stays due until the feed has brought it
		}
		tx.Set(s.Keys.due(job, id), nil)
		if r.Rev == "" {
			continue // it was left out
		}
		list = append(list, State{
			ID: id, Rev: r.Rev, Over: r.over(), Body: r.Digest, Was: r.sent(),
			Members: stateMembers(body), Digest: digest, Owner: ownerOf(body),
		})
		if r.Sent != digest && (!written || r.Sent != "") {
			r.send(digest)
			s.Keys.put(tx, job, id, *r)
		}
	}
	return list, len(ids), nil
}

func (q Sent) perform(tx kv.Tx, s *Store, _ instant.Time) (Result, error) {
	if _, _, err := q.read(tx, s); err != nil {
		return nil, err
	}
	for _, d := range q.Docs {
		if slices.Contains(q.Without, d.ID) {
			continue
		}
		r, err := s.Keys.row(tx, q.ID, d.ID)
		if err != nil {
			return nil, ofDoc(d.ID, err)
		}
		if r == nil || r.Rev != d.Base {
			continue // the feed was faster
		}
		was := r.mayArrive(d.Digest)
		if d.Rev != d.Base {
			r.replace(d.Over, d.Rev)
			was = "" // they were sent over a revision that is replaced
		}
		r.State, r.Sent, r.Was = d.Digest, "", was
		s.Keys.put(tx, q.ID, d.ID, *r)
	}
	return Done{}, nil
}
