package jobstore

import (
	"encoding/binary"
	"fmt"
	"slices"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/kv/mix"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

const (
	// MaxRefused is how many refused revisions are listed for a job, unless Config says otherwise; more are only
	// counted.
	MaxRefused = replication.MaxListed
	// maxRefusedName bounds document id and revision together, in bytes. They are a part of a key, in which
	// they may take twice as many.
	maxRefusedName = replication.MaxListedName
)

// RefusedDocs counts the revisions of a job that the target refused.
type RefusedDocs struct {
	// Listed is the number of rows in the list.
	Listed int64 `json:"listed"`
	// Beyond counts the refusals that the list had no place for. A revision that was refused several times
	// counts several times.
	Beyond int64 `json:"beyond,omitempty"`
	// By names the last change of the list. A change whose outcome was unknown is repeated under its name, and
	// happens once.
	By string `json:"by,omitempty"`
	// Changes is how often the list has changed, counted from when the job was made: no list is taken for a later state
	// of one that a job of this name had before, or has in a backup. Checkpoints tell that, too.
	Changes int64 `json:"changes,omitempty"`
	// Left is what Changes was when something left the list last, or, before, when the list began: one that the job had
	// earlier is gone, with all that it had. See Record.ListSaved.
	Left int64 `json:"left,omitempty"`
	// Of is the base id of the replication whose checkpoints cover the revisions.
	Of string `json:"of,omitempty"`
}

// RefusedTotal is the number of revisions of the job that the target refused and has not got since, as far as
// is known.
func (r *Record) RefusedTotal() int64 {
	if r.Refused == nil {
		return 0
	}
	return r.Refused.Listed + r.Refused.Beyond
}

// Listed is how many refused documents can be tried again.
func (r *Record) Listed() int64 {
	if r.Refused == nil {
		return 0
	}
	return r.Refused.Listed
}

// List is by what checkpoints know the job's list of refused documents.
func (w *Work) List() checkpoint.List {
	list := checkpoint.List{Job: fmt.Sprintf("%016x", mix.String(w.JobID)), Changes: int64(w.Record.Created)}
	if w.Record.Refused != nil {
		list.Changes = w.Record.Refused.Changes
	}
	return list
}

// ListSaved returns, by peer.Side, the state of the list that the newest checkpoint in each database tells, at least:
// the one that the job's runs have told of. If something has left the list since, both checkpoints are to tell that,
// though the run may have been killed before it wrote them, or told of them. Without that a backup which has the last
// checkpoint would pass for the present database: a target that lacks the document, or a source that has the revision
// again which a newer one has replaced in the list.
func (r *Record) ListSaved() [2]int64 {
	saved := r.Stats.ListSaved
	if r.Refused != nil && r.Refused.Left > saved[peer.Target] {
		saved = [2]int64{r.Refused.Left, r.Refused.Left}
	}
	return saved
}

// Replicated is the id of the replication that the numbers and the list of the job are of; its base id of one with a
// filter function that was edited, whose id is not known before it runs. Empty if there are none.
func (r *Record) Replicated() string {
	if r.RepID == "" && r.Refused != nil {
		return r.Refused.Of
	}
	return r.RepID
}

// Refusal is a row of the list of refused documents. Status is that of the target's answer, 0 if it was part of
// a bulk answer. Times are of the wall clocks of the nodes that ran the job.
type Refusal struct {
	DocID    string       `json:"-"` // in the key, as is Rev
	Rev      string       `json:"-"`
	Status   int          `json:"status,omitempty"`
	Error    string       `json:"error"`
	Reason   string       `json:"reason,omitempty"`
	First    instant.Time `json:"first"`
	Last     instant.Time `json:"last"`
	Attempts int          `json:"attempts"`         // how often the target refused it, at least 1
	Demand   instant.Time `json:"demand,omitempty"` // as in replication.Finding, of the last attempt
	Failed   bool         `json:"failed,omitempty"` // it could not be copied; see replication.Finding
	Refused  bool         `json:"refused,omitempty"`
}

// Refusals reads the list of a job, ordered by document: up to limit rows that come after a revision of a
// document, or from the beginning.
func (k Keys) Refusals(r kv.Reader, jobID, afterDoc, afterRev string, limit int) ([]Refusal, error) {
	of := k.Refused.Sub(jobID)
	rows := of.Range()
	if afterDoc != "" || afterRev != "" {
		rows.Begin = kv.KeyAfter(of.Pack(afterDoc, afterRev))
	}
	found, err := r.GetRange(rows, kv.RangeOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	list := make([]Refusal, len(found))
	for i, row := range found {
		if err := of.Scan(row.Key, &list[i].DocID, &list[i].Rev); err != nil {
			return nil, err
		}
		if err := json.DecodeRecord(row.Value, &list[i]); err != nil {
			return nil, unreadableRefusal(jobID, list[i].DocID, list[i].Rev, err)
		}
	}
	return list, nil
}

func unreadableRefusal(jobID, id, rev string, err error) error {
	return fmt.Errorf("refused document %q, revision %q, of job %q: %w", id, rev, jobID, err)
}

// StoreRefused changes the list of the job's refused documents. by is the name of the change, which no other
// change of the list has.
func (h Owned) StoreRefused(by string, findings []replication.Finding) error {
	return h.change(func(rec *Record) error {
		if rec.Refused != nil && rec.Refused.By == by {
			// Reached: a change of the list had happened unheard
			return h.held()
		}
		if err := h.list(rec, by, findings); err != nil {
			return err
		}
		rec.LastUpdated = h.now
		return h.s.Jobs.Update(h.tx, h.jobID, h.lock, rec.encode())
	})
}

// byEnd is the name of each change of a list with which a job fails. No StoreRefused has it. It need not tell such
// changes apart: a repeated attempt finds the job over, and changes nothing.
const byEnd = "end"

// list puts findings into the list, and takes out those that are over; the caller stores the record.
func (h Owned) list(rec *Record, by string, findings []replication.Finding) error {
	if rec.Refused == nil {
		rec.Refused = &RefusedDocs{Changes: int64(rec.Created)}
	}
	begins := rec.Refused.By == ""
	rec.Refused.Of, rec.Refused.By = rec.BaseID, by
	rec.Refused.Changes++
	if begins || slices.ContainsFunc(findings, func(f replication.Finding) bool { return f.Over }) {
		rec.Refused.Left = rec.Refused.Changes
	}
	keys := append(make([][]byte, 0, len(findings)+1), h.s.Keys.Retry.Pack(h.jobID))
	for _, f := range findings {
		if key := h.refusalKey(f); key != nil {
			keys = append(keys, key)
		}
	}
	h.tx.Prefetch(keys, nil)
	asked, err := h.s.Keys.retryAsked(h.tx, h.jobID)
	if err != nil {
		return err
	}
	for _, f := range findings {
		key := h.refusalKey(f)
		if key == nil {
			if !f.Over {
				rec.Refused.Beyond++
			}
			continue
		}
		old, err := h.tx.Get(key)
		if err != nil {
			return err
		}
		switch {
		case f.Over && old != nil:
			h.tx.Clear(key)
			rec.Refused.Listed--
		case f.Over:
		case old == nil && rec.Refused.Listed >= h.s.Config.MaxRefused:
			rec.Refused.Beyond++
		default:
			row := Refusal{First: h.now}
			if old == nil {
				rec.Refused.Listed++
			} else if err := json.DecodeRecord(old, &row); err != nil {
				return unreadableRefusal(h.jobID, f.ID, f.Rev, err)
			}
			row.Status, row.Error, row.Reason, row.Failed = f.Status, f.Error, f.Reason, f.Failed
			row.Last, row.Attempts = h.now, row.Attempts+1
			if old == nil || row.Demand != asked { // else it was tried since that, if not by this attempt
				row.Demand = f.Demand
			}
			row.Refused = f.Refused
			h.tx.Set(key, row.encode())
		}
	}
	if rec.Refused.Listed == 0 { // a demand is of what was listed then; a run that begins with no list knows of none
		h.tx.Clear(h.s.Keys.Retry.Pack(h.jobID))
	}
	return nil
}

// refusalKey is the key of the row that a finding is about; nil if the list can have no such row.
func (h Owned) refusalKey(f replication.Finding) []byte {
	if len(f.ID)+len(f.Rev) > maxRefusedName {
		return nil
	}
	key := h.s.Keys.Refused.Pack(h.jobID, f.ID, f.Rev)
	if len(key) > kv.MaxKeySize { // the job's id may be long, too
		return nil
	}
	return key
}

func (r *Refusal) encode() []byte {
	b, err := json.Encode(r)
	if err != nil {
		panic("jobstore: " + err.Error()) // plain numbers and strings
	}
	return b
}

// Refused reads a page of the list for the run of the job. A row tells its age by the clocks of the nodes that
// wrote it and that reads it: if these differ, the next attempt comes earlier or later. Whether a document was tried
// since an operator's last demand does not depend on clocks: its row names the last demand that the run knew of before
// the attempt. A row that an earlier release wrote may name none, and its document is tried once more then.
func (h Owned) Refused(afterDoc, afterRev string, limit int) (page replication.RefusedPage, err error) {
	if err := h.held(); err != nil {
		return page, err
	}
	asked, err := h.s.Keys.retryAsked(h.tx, h.jobID)
	if err != nil {
		return page, err
	}
	list, err := h.s.Keys.Refusals(h.tx, h.jobID, afterDoc, afterRev, limit)
	if err != nil {
		return page, err
	}
	for _, r := range list {
		page.Docs = append(page.Docs, replication.Listed{
			ID: r.DocID, Rev: r.Rev, Attempts: r.Attempts, Age: h.now.Sub(r.Last),
			Asked: asked != 0 && r.Demand != asked, Failed: r.Failed, Refused: r.Refused,
		})
	}
	page.More, page.Demand = len(list) == limit, asked
	return page, nil
}

// held fails unless the worker holds the job.
func (h Owned) held() error {
	_, err := h.s.Jobs.GetHeld(h.tx, h.jobID, h.lock)
	return err
}

// retryRefused has all listed documents of a job tried again at once, or as soon as the job runs. It reports whether
// there are any, and this is a new demand.
func (o Operator) retryRefused(jobID string, rec *Record) (bool, error) {
	if rec.Listed() == 0 {
		return false, nil
	}
	k := o.Store.Keys
	if asked, err := k.retryAsked(o.Tx, jobID); err != nil || asked == o.Now {
		return false, err
	}
	o.Tx.Set(k.Retry.Pack(jobID), binary.LittleEndian.AppendUint64(nil, uint64(o.Now)))
	return true, k.Jobs.CallWorkerOf(o.Tx, jobID)
}

// retryAsked returns the last demand of an operator to try all listed documents of a job; 0 if there was none. The
// value is the time of the demand by the clock of the node that took it. It only tells demands apart.
func (k Keys) retryAsked(r kv.Reader, jobID string) (instant.Time, error) {
	b, err := r.Get(k.Retry.Pack(jobID))
	if err != nil || b == nil {
		return 0, err
	}
	return demandedAt(jobID, b)
}

func demandedAt(jobID string, b []byte) (instant.Time, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: demand to retry documents of job %q", jobs.ErrCorrupt, jobID)
	}
	return instant.Time(binary.LittleEndian.Uint64(b)), nil
}

// RetryAsked is when somebody asked last to try the refused documents of a job.
type RetryAsked struct {
	JobID string
	At    instant.Time
}

// RetriesAsked returns the demands to try the refused documents of the jobs but those in without. It fails with a
// jobs.UnreadableError if one cannot be read.
func (k Keys) RetriesAsked(r kv.Reader, held []jobs.Held, without ...string) (list []RetryAsked, err error) {
	held = slices.DeleteFunc(slices.Clone(held), func(h jobs.Held) bool { return slices.Contains(without, h.ID) })
	keys := make([][]byte, len(held))
	for i, h := range held {
		keys[i] = k.Retry.Pack(h.ID)
	}
	values, err := r.GetAll(keys)
	if err != nil {
		return nil, err
	}
	for i, b := range values {
		if b == nil {
			continue
		}
		at, err := demandedAt(held[i].ID, b)
		if err != nil {
			return nil, jobs.OfJob(held[i].ID, err)
		}
		list = append(list, RetryAsked{held[i].ID, at})
	}
	return list, nil
}

// inherit gives the list of refused documents of an earlier job to the one that takes its place, if checkpoints of the
// earlier one count for it too, and what is known of these. The id of a replication with a filter function is not known
// before it runs; Owned.Claim looks then.
func (k Keys) inherit(tx kv.Tx, jobID string, old, rec *Record) {
	switch {
	case old == nil || old.Refused == nil:
	case rec.BaseID == "" || rec.BaseID == old.Refused.Of:
		rec.Refused, rec.Stats = old.Refused, old.Stats.ofCheckpoints()
	default:
		k.clearRefused(tx, jobID)
		rec.Refused = old.Refused.forgotten()
	}
}

// forgotten is an empty list in the place of one. Its changes are counted on: a job may become again what it was, and
// the list that it then had may be in a backup.
func (r *RefusedDocs) forgotten() *RefusedDocs { return &RefusedDocs{Changes: r.Changes} }

// clearRefused forgets the refused documents of a job.
func (k Keys) clearRefused(tx kv.Tx, jobID string) {
	tx.ClearRange(k.Refused.Sub(jobID).Range())
	tx.Clear(k.Retry.Pack(jobID))
}
