package jobstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// claimOf is the row of the replication of a document's job.
func (b *bench) claimOf(doc string) []byte {
	return b.s.Keys.Claim.Pack(b.record(jobID(doc)).RepID)
}

// TestAcceptClaims: an accepted job has the right to its replication if no other job has it, and knows.
func TestAcceptClaims(t *testing.T) {
	for name, c := range map[string]struct {
		owner string // of the row before the accept
		want  map[string]bool
	}{
		"reserved":             {"one", map[string]bool{"one": true}},
		"reserved for both":    {"two", map[string]bool{"two": true}},
		"free":                 {"", map[string]bool{"one": true}},
		"another job's":        {"three", map[string]bool{}},
		"a job that is gone's": {"gone", map[string]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put("one", simple, admin)
			b.put("two", simple, admin)
			row := b.claimOf("one")
			b.do1(func(tx kv.Tx) error {
				tx.Clear(row)
				if c.owner != "" {
					tx.Set(row, []byte(jobID(c.owner)))
				}
				return nil
			})
			accept := func(tx kv.Tx) ([]Work, error) {
				taken, err := b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: 1, Max: 5}, b.now)
				work := taken.Work
				return work, err
			}
			for range 2 { // the second accept is a repetition
				for _, w := range get(b, accept) {
					if want := c.want[w.Record.DocID]; w.Claimed != want {
						t.Errorf("%s: claimed %v, want %v", w.Record.DocID, w.Claimed, want)
					}
					held := get(b, func(tx kv.Tx) (*Work, error) {
						return b.s.Owned(tx, w.JobID, w.Lock, b.now).Work()
					})
					if held.Claimed != w.Claimed {
						t.Errorf("%s: claimed %v when it is read again", w.Record.DocID, held.Claimed)
					}
				}
			}
			owner := c.owner
			if owner == "" {
				owner = "one"
			}
			if got := get(b, func(tx kv.Tx) ([]byte, error) { return tx.Get(row) }); string(got) != jobID(owner) {
				t.Errorf("the row is %s's", got)
			}
		})
	}
}

// TestDuplicateText: users are told which job has the replication, and which one may not run, in CouchDB's words.
func TestDuplicateText(t *testing.T) {
	document, request := &Record{Database: "db", DocID: "first"}, &Record{}
	for _, c := range []struct {
		doc   string
		other *Record
		want  string
	}{
		{"", request, "Replication `r` already running as a transient replication, " +
			"started via `_replicate` API endpoint"},
		{"", document, "Replication `r` already started, triggered by document `first` from db `db`"},
		{"second", request, "Replication `r` specified by document `second` already running as a transient " +
			"replication, started via `_replicate` API endpoint"},
		{"second", document, "Replication `r` specified by document `second` already started, " +
			"triggered by document `first` from db `db`"},
	} {
		if got := (&Duplicate{RepID: "r", DocID: c.doc, Other: c.other}).Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestWhoWaits: a document's job waits for another one's end, and the job of a request does not. What each had before
// it asked for the replication of the other one, it keeps.
func TestWhoWaits(t *testing.T) {
	b := newWaitingBench(t)
	b.put("one", simple, admin)
	one := b.accept()
	b.put("two", strings.Replace(simple, "h/b", "h/two", 1), admin)
	two := b.accept()
	b.replicate("joe")
	request := b.accept()
	before := b.db.Pairs()
	for _, w := range []Work{two, request} {
		dup, is := errors.AsType[*Duplicate](b.claim(w, one.Record.RepID))
		if !is || dup.Waits != (w.JobID == two.JobID) {
			t.Errorf("%s: %+v", w.JobID, dup)
		}
	}
	same(t, before, b.db.Pairs(), nil)
}

// TestClaimOfAnotherReplication: a row that gives a replication to a job which is another one keeps nobody from it.
func TestClaimOfAnotherReplication(t *testing.T) {
	b := newBench(t)
	b.put("one", simple, admin)
	b.put("two", strings.Replace(simple, "h/b", "h/two", 1), admin)
	b.do1(func(tx kv.Tx) error { tx.Set(b.s.Keys.Claim.Pack("x"), []byte(jobID("one"))); return nil })
	other := get(b, func(tx kv.Tx) (*Record, error) { return b.s.claimedBy(tx, jobID("two"), "x") })
	if other != nil {
		t.Errorf("it is the replication of %+v", other)
	}
}

// TestAcceptsClaimOnce: of two accepts at the same time, of jobs with one replication, one conflicts.
func TestAcceptsClaimOnce(t *testing.T) {
	b := newBench(t)
	b.put("one", simple, admin)
	b.put("two", simple, admin)
	row := b.claimOf("one")
	b.do1(func(tx kv.Tx) error { tx.Clear(row); return b.s.Jobs.Register(tx, "w2", nil) })
	begin := func(worker, doc string) kv.Transaction {
		d := jobs.Demand{Batch: 1, Max: 1, Window: 2, Part: 1}
		for !d.Part.Has(jobID(doc)) {
			d.Part <<= 1
		}
		tx := b.db.Begin(context.Background(), kv.Options{})
		taken, err := b.s.Accept(tx, worker, "n", d, b.now)
		work := taken.Work
		if err != nil || len(work) != 1 || !work[0].Claimed || work[0].JobID != jobID(doc) {
			t.Fatal(work, err)
		}
		return tx
	}
	first, second := begin("w", "one"), begin("w2", "two")
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := second.Commit(); kv.CodeOf(err) != kv.NotCommitted {
		t.Errorf("both jobs have one replication: %v", err)
	}
}

// TestUnreadableOwner: where the job that has a replication cannot be read, a write of another document for that and a
// claim of another job fail with its id, and not with that of the job that asks.
func TestUnreadableOwner(t *testing.T) {
	b := newBench(t)
	b.put("asks", `{"source":"http://h/a","target":"http://h/other"}`, admin)
	w := b.accept()
	b.put("odd", simple, admin)
	repID := b.record(jobID("odd")).RepID
	b.do1(func(tx kv.Tx) error {
		tx.Set(b.s.Keys.Jobs.Job.Pack(jobID("odd"), 0), []byte(fakefdb.Unreadable))
		return nil
	})
	claim := func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Claim(repID, repID) }
	for name, err := range map[string]error{
		"write": b.writeTo("_replicator", "new", simple, admin), "claim": kv.Do(t.Context(), b.db, claim),
	} {
		e, is := errors.AsType[*jobs.UnreadableError](jobs.OfJob(w.JobID, err))
		if !is || e.Job != jobID("odd") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
