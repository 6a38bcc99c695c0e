package jobstore

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/check"
	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

// reading is a transaction that notes the keys of the rows that it reads.
type reading struct {
	kv.Tx
	noting
}

func (r reading) Get(key []byte) ([]byte, error)            { return r.noting.Get(key) }
func (r reading) GetAll(keys [][]byte) ([][]byte, error)    { return r.noting.GetAll(keys) }
func (r reading) Snapshot() kv.Reader                       { return noting{r.Tx.Snapshot(), r.rows} }
func (r reading) Prefetch(keys [][]byte, ranges []kv.Range) { r.Tx.Prefetch(keys, ranges) }
func (r reading) GetRange(of kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return r.noting.GetRange(of, o)
}

type noting struct {
	kv.Reader
	rows map[string]bool
}

func (n noting) Get(key []byte) ([]byte, error) {
	n.rows[string(key)] = true
	return n.Reader.Get(key)
}

func (n noting) GetAll(keys [][]byte) ([][]byte, error) {
	for _, key := range keys {
		n.rows[string(key)] = true
	}
	return n.Reader.GetAll(keys)
}

func (n noting) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	pairs, err := n.Reader.GetRange(r, o)
	for _, p := range pairs {
		n.rows[string(p.Key)] = true
	}
	return pairs, err
}

// TestDamagedRowsAreTold: whichever row that an operation reads has a value that nothing can be made of, or stands
// behind one whose key cannot be read, the operation fails. It does not go on without the row, nor as if it were not
// there. Rows that mean something whatever bytes they have are left out: counters, ids, and what documents say.
func TestDamagedRowsAreTold(t *testing.T) {
	b := newFullBench(t)
	free := map[string][]string{ // by operation
		"":        {"claim/", "count/", "weights/", "tally/", "jobs/replication/count/"},
		"cancel":  {"docs/1/"},
		"edit":    {"docs/1/"},
		"refused": {"jobs/replication/job/"}, // whose lock is all that counts
		"dropped": {"jobs/replication/ready/"},
	}
	unread := []string{"hold/"} // whose keys say nothing that is not in the value
	for name, op := range b.operations() {
		rows := map[string]bool{}
		try := func() error {
			tx := b.db.Begin(t.Context(), kv.Options{})
			defer tx.Cancel()
			return op(reading{tx, noting{tx, rows}})
		}
		if err := try(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, row := range b.db.Pairs() {
			key := check.Readable(testRoot, row.Key)
			is := func(list []string) bool {
				return slices.ContainsFunc(list, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
			}
			if !rows[string(row.Key)] || is(free[name]) {
				continue
			}
			if len(row.Value) > 0 && !is(free[""]) {
				b.do1(func(tx kv.Tx) error { tx.Set(row.Key, []byte{0xff}); return nil })
				if try() == nil {
					t.Errorf("%s goes on past a damaged %s", name, key)
				}
				b.do1(func(tx kv.Tx) error { tx.Set(row.Key, row.Value); return nil })
			}
			behind := append(bytes.Clone(row.Key), 0xfd) // begins no element
			b.do1(func(tx kv.Tx) error { tx.Set(behind, row.Value); return nil })
			if try() == nil && rows[string(behind)] && !is(unread) {
				t.Errorf("%s goes on past a row behind %s", name, key)
			}
			b.do1(func(tx kv.Tx) error { tx.Clear(behind); return nil })
		}
	}
}

// operations are transactions on the jobs of a full bench, all of which succeed.
func (b *bench) operations() map[string]func(kv.Tx) error {
	later := b.now.Add(48 * time.Hour)
	lists := func(tx kv.Tx) Lists { return Lists{b.s, tx.Snapshot()} }
	all := map[string]func(kv.Tx) error{
		"edit":   func(tx kv.Tx) error { return b.edit(tx, "ready", `{"source":"http://h/a","target":"http://h/z"}`) },
		"delete": func(tx kv.Tx) error { return b.edit(tx, "run", `{"_deleted":true}`) },
		"accept": func(tx kv.Tx) error {
			_, err := b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: 99, Max: 5}, b.now)
			return err
		},
		"promote": func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, later, 50); return err },
		"sweep":   func(tx kv.Tx) error { _, err := b.s.Sweep(tx, later, 9, 9); return err },
		"dropped": func(tx kv.Tx) error {
			b.s.Drop(tx, tuple.UUID{1})
			_, err := b.s.SweepDropped(tx, 9)
			return err
		},
		"share":   func(tx kv.Tx) error { return b.s.Share(tx, Sharing{Policy: schedule.FIFO}, b.now) },
		"find":    func(tx kv.Tx) error { _, _, err := b.s.Find(tx, jobID("run")); return err },
		"holds":   func(tx kv.Tx) error { _, err := b.s.Keys.Holds(tx); return err },
		"demands": func(tx kv.Tx) error { _, _, err := Demands(tx, b.s, 9); return err },
		"ready":   func(tx kv.Tx) error { _, err := b.ready(tx, 9); return err },
		"uses":    func(tx kv.Tx) error { _, _, err := Uses(tx, b.s, b.now, "", 9); return err },
		"total":   func(tx kv.Tx) error { _, _, err := lists(tx).Total(Filter{}); return err },
		"servers": func(tx kv.Tx) error { _, _, err := lists(tx).Servers("", 9); return err },
		"errors":  func(tx kv.Tx) error { _, _, err := lists(tx).Errors("", 9); return err },
	}
	for name, f := range map[string]Filter{"": {}, " of a user": {User: "ann"}, " of a worker": {Workers: []string{"w"}}} {
		all["list"+name] = func(tx kv.Tx) error { _, err := lists(tx).Page(Listing{Filter: f, Limit: 100}); return err }
	}
	for name, give := range map[string]func(Operator) (bool, error){
		"retry":           func(o Operator) (bool, error) { return o.Retry(jobID("crash"), "") },
		"retry of failed": func(o Operator) (bool, error) { return o.Retry(jobID("bad"), "") },
		"pause":           func(o Operator) (bool, error) { return o.Pause(jobID("ready"), "") },
		"pause of a run":  func(o Operator) (bool, error) { return o.Pause(jobID("run"), "") },
		"resume":          func(o Operator) (bool, error) { return o.Resume(jobID("paused"), "") },
		"reset":           func(o Operator) (bool, error) { return o.Reset(jobID("run"), "") },
		"cancel":          func(o Operator) (bool, error) { return o.Cancel(jobID("ready")) },
	} {
		all[name] = func(tx kv.Tx) error { _, err := give(b.by(tx)); return err }
	}
	run := get(b, func(tx kv.Tx) (*jobs.Job, error) { return b.s.Jobs.Get(tx, jobID("run")) })
	for name, do := range ofRun {
		all[name] = func(tx kv.Tx) error { return do(b.s.Owned(tx, run.ID, run.Lock, b.now)) }
	}
	all["retries"] = func(tx kv.Tx) error {
		_, err := b.s.Keys.RetriesAsked(tx, []jobs.Held{{ID: run.ID}})
		return err
	}
	return all
}

// ofRun is what the worker of a job does with it.
var ofRun = map[string]func(Owned) error{
	"work":     func(h Owned) error { _, err := h.Work(); return err },
	"claim":    func(h Owned) error { return h.Claim("new", "new") },
	"progress": func(h Owned) error { return h.Progress(Stats{}) },
	"refused":  func(h Owned) error { _, err := h.Refused("", "", 9); return err },
	"store refused": func(h Owned) error {
		return h.StoreRefused("by", []replication.Finding{refusalOf("a", false)})
	},
	"crash":    func(h Owned) error { return h.Crash(crash.Trouble, nil, Turn{Owed: time.Minute}, 1) },
	"requeue":  func(h Owned) error { return h.Requeue(nil, Turn{Owed: time.Minute}) },
	"complete": func(h Owned) error { return h.Complete(replication.End{}, Turn{}) },
	"fail":     func(h Owned) error { return h.Fail(crash.Trouble, Turn{}) },
	"stand by": func(h Owned) error { return h.StandBy("new", "new", Turn{}) },
}

// edit writes a document anew, whatever its revision.
func (b *bench) edit(tx kv.Tx, id, body string) error {
	db, err := b.s.Docs.Open(tx, "_replicator")
	if err != nil {
		return err
	}
	doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
	if err != nil {
		return err
	}
	old, err := db.Read(id, docs.Want{})
	if err != nil {
		return err
	}
	doc.ID, doc.Rev = id, old.Rev
	written, err := b.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Token: 1}}, admin, b.now)
	if err == nil && written[0].Err != nil {
		return written[0].Err
	}
	return err
}
