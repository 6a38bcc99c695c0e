package jobstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/replication"
	"couchrelay/core/spec"

	"pgregory.net/rapid"
)

// pages reads a listing to its end, page by page.
func (b *bench) pages(l Listing) (ids []string) {
	b.t.Helper()
	skip := l.Skip
	for range 10_000 {
		page := get(b, func(tx kv.Tx) (Listed, error) { return Lists{Store: b.s, Reader: tx.Snapshot()}.Page(l) })
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		if skip -= page.Skipped; page.Next == nil {
			return ids
		}
		if len(page.Jobs) > l.Limit {
			b.t.Fatalf("a page of %d has %d jobs", l.Limit, len(page.Jobs))
		}
		l.At, l.Skip = *page.Next, skip
	}
	b.t.Fatal("a list has no end")
	return nil
}

// told is what a plain reader of all records lists.
func (b *bench) told(l Listing) (ids []string) {
	b.t.Helper()
	all := get(b, func(tx kv.Tx) ([]*jobs.Job, error) { return b.s.Jobs.List(tx, jobs.Page{Limit: 1 << 20}) })
	dropped := get(b, func(tx kv.Tx) (Dropped, error) { return b.s.Keys.DroppedDBs(tx) })
	owned, d := map[string]bool{}, direction{l.Descending}
	for _, worker := range l.Workers {
		for _, h := range get(b, func(tx kv.Tx) ([]jobs.Held, error) { return b.s.Jobs.Owned(tx, worker) }) {
			owned[h.ID] = true
		}
	}
	for _, j := range all {
		rec := b.record(j.ID)
		state := rec.View().State
		server := func(url string) bool {
			host := strings.Split(url, "/")[2]
			if !strings.Contains(host, ":") {
				host += ":80"
			}
			return host == l.Server || strings.HasPrefix(host, l.Server+":")
		}
		switch {
		case dropped.Has(j.ID), l.Documents && rec.Database == "", !l.Documents && rec.State.Terminal(),
			!strings.HasPrefix(j.ID, l.Instance), len(l.States) > 0 && !slices.Contains(l.States, state),
			l.User != "" && l.User != rec.User, l.Server != "" && !server(rec.Source) && !server(rec.Target),
			l.Error != "" && (l.Error != rec.Error || state != Crashing && state != Failed),
			l.Workers != nil && !owned[j.ID]:
		case l.From != "" && d.before(j.ID, l.From), l.To != "" && d.before(l.To, j.ID):
		default:
			ids = append(ids, j.ID)
		}
	}
	if l.Descending {
		slices.Reverse(ids)
	}
	return ids[min(int(l.Skip), len(ids)):]
}

// TestListsModel: whatever happens to jobs, each list has those that a reader of all records finds, in pages of any
// length, and a total that is known is right; also while an older store is being indexed.
func TestListsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		m := &lists{b: b, known: []string{""}}
		b.do1(func(tx kv.Tx) error { return b.s.Docs.Create(tx, "a/_replicator", tuple.UUID{2}, b.now) })
		rt.Repeat(map[string]func(*rapid.T){
			"document": m.document, "request": m.request, "accept": m.accept, "end": m.end, "vanish": m.vanish,
			"promote": m.promote, "drop": m.drop, "sweep": m.sweep, "age": m.age, "reindex": m.reindex,
			"pause": m.pause, "resume": m.resume, "hold": m.hold, "": m.check,
		})
	})
}

// lists is a machine of rapid's.
type lists struct {
	b       *bench
	made    int
	workers int
	running []Work
	known   []string // ids for bounds
	dropped bool
}

func (m *lists) document(t *rapid.T) {
	name := rapid.SampledFrom([]string{"_replicator", "a/_replicator"}).Draw(t, "database")
	host := rapid.SampledFrom([]string{"one", "one:1", "two:80"}).Draw(t, "host")
	id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "id")
	if rapid.IntRange(0, 3).Draw(t, "the same") > 0 {
		m.made++
	}
	more := rapid.SampledFrom([]string{
		"", `,"_deleted":true`, `,"_replication_state":"failed"`, `,"_replication_state":"completed"`,
		`,"owner":"eve"`,
	}).Draw(t, "more")
	body := fmt.Sprintf(`{"source":"http://%s/x%d","target":"http://one/b"%s}`, host, m.made, more)
	user := rapid.SampledFrom([]string{"", "joe"}).Draw(t, "user")
	err := m.b.writeTo(name, id, body, Writer{Name: user, Admin: true})
	if err != nil && !(m.dropped && name == "a/_replicator") {
		t.Fatal(err)
	}
}

// writeTo writes the next revision of a document.
func (b *bench) writeTo(name, id, body string, by Writer) error {
	return kv.Do(b.t.Context(), b.db, func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, name)
		if err != nil {
			return err
		}
		doc, err := docs.ParseDocument(fmt.Appendf(nil, `{"_id":%q,%s`, id, body[1:]), docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		if old, err := db.Read(id, docs.Want{Deleted: true}); err == nil {
			doc.Rev = old.Rev
		}
		token++
		_, err = b.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Token: token}}, by, b.now)
		return err
	})
}

func (m *lists) request(t *rapid.T) {
	m.made++
	raw := fmt.Sprintf(`{"source":"http://one/r%d","target":"http://two/b"}`, m.made%3)
	rep, err := spec.ParseRequest([]byte(raw), m.b.s.Config.Parse)
	if err != nil {
		t.Fatal(err)
	}
	user := rapid.SampledFrom([]string{"", "joe"}).Draw(t, "user")
	err = kv.Do(m.b.t.Context(), m.b.db, func(tx kv.Tx) error {
		_, err := m.b.s.Replicate(tx, rep, user, m.b.now)
		return err
	})
	if duplicate := (*Duplicate)(nil); err != nil && !errors.As(err, &duplicate) {
		t.Fatal(err)
	}
}

func (m *lists) worker() string { return fmt.Sprint("w", m.workers) }

func (m *lists) accept(t *rapid.T) {
	if m.workers == 0 {
		m.vanish(t)
	}
	m.b.batch++
	m.b.now = m.b.now.Add(time.Second)
	taken := get(m.b, func(tx kv.Tx) (Taken, error) {
		return m.b.s.Accept(tx, m.worker(), "n", jobs.Demand{Batch: m.b.batch, Max: 2, Window: 2}, m.b.now)
	})
	m.running = append(m.running, taken.Work...)
}

func (m *lists) end(t *rapid.T) {
	if len(m.running) == 0 {
		t.Skip()
	}
	w := m.running[0]
	m.running = m.running[1:]
	how := rapid.IntRange(0, 4).Draw(t, "how")
	class := rapid.SampledFrom([]string{"boom", "bang"}).Draw(t, "error")
	trouble := replication.Trouble{Error: class, Throttled: how == 4}
	err := kv.Do(m.b.t.Context(), m.b.db, func(tx kv.Tx) error {
		h := m.b.s.Owned(tx, w.JobID, w.Lock, m.b.now)
		switch how {
		case 0:
			return h.Complete(replication.End{}, Turn{})
		case 1:
			return h.Fail(trouble, Turn{})
		case 2:
			return h.Requeue(nil, Turn{})
		}
		return h.Crash(trouble, nil, Turn{}, 1)
	})
	if err != nil && !errors.Is(err, jobs.ErrHalt) {
		t.Fatal(err)
	}
}

// vanish has the worker's jobs be given back, and another one join.
func (m *lists) vanish(*rapid.T) {
	m.b.do1(func(tx kv.Tx) error { _, err := m.b.s.Jobs.Expire(tx, m.worker(), nil, 1); return err })
	m.workers++
	m.b.do1(func(tx kv.Tx) error { return m.b.s.Jobs.Register(tx, m.worker(), nil) })
}

func (m *lists) promote(*rapid.T) {
	m.b.now = m.b.now.Add(time.Hour)
	m.b.do1(func(tx kv.Tx) error { _, _, err := m.b.s.Promote(tx, m.b.now, 2); return err })
}

func (m *lists) drop(t *rapid.T) {
	if m.dropped {
		t.Skip()
	}
	m.dropped = true
	m.b.do1(func(tx kv.Tx) error {
		db, err := m.b.s.Docs.Open(tx, "a/_replicator")
		if err == nil {
			m.b.s.Drop(tx, db.Instance)
			err = m.b.s.Docs.Delete(tx, "a/_replicator", db.Instance)
		}
		return err
	})
}

// someJob is the id of a job, empty if there is none.
func (m *lists) someJob(t *rapid.T) string {
	all := get(m.b, func(tx kv.Tx) ([]*jobs.Job, error) { return m.b.s.Jobs.List(tx, jobs.Page{Limit: 1 << 20}) })
	if len(all) == 0 {
		return ""
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, "job")].ID
}

func (m *lists) pause(t *rapid.T) { m.order(t, Operator.Pause) }

func (m *lists) resume(t *rapid.T) { m.order(t, Operator.Resume) }

// order gives an order to a job, which may have none of it.
func (m *lists) order(t *rapid.T, f func(o Operator, jobID, reason string) (bool, error)) {
	id := m.someJob(t)
	m.b.do1(func(tx kv.Tx) error {
		_, err := f(Operator{Store: m.b.s, Tx: tx, Now: m.b.now}, id, "")
		if obstacle := Obstacle(""); errors.As(err, &obstacle) {
			return nil
		}
		return err
	})
}

// hold makes a hold, or lifts it.
func (m *lists) hold(*rapid.T) {
	m.b.do1(func(tx kv.Tx) error {
		o := Operator{Store: m.b.s, Tx: tx, Now: m.b.now}
		lifted, err := o.LiftHold("server:two")
		if err == nil && !lifted {
			_, err = o.MakeHold(Hold{Server: "two"})
		}
		return err
	})
}

func (m *lists) sweep(*rapid.T) {
	m.b.do1(func(tx kv.Tx) error { _, err := m.b.s.SweepDropped(tx, 1); return err })
}

// age makes the store one of the first schema.
func (m *lists) age(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "seldom") == 0 {
		m.b.age()
	}
}

// age makes the store as the release wrote it that had no index, and starts this one on it.
func (b *bench) age() {
	b.t.Helper()
	old := New(tuple.Subspace(tuple.Pack("test")), b.s.Config)
	old.Jobs.Moved = nil
	b.do1(func(tx kv.Tx) error {
		k := b.s.Keys
		tx.ClearRange(k.Index.Range())
		tx.ClearRange(k.Tally.Range())
		tx.Clear(k.Reindex)
		tx.Set(k.Schema, encodeNumber(1))
		list, err := old.Jobs.List(tx, jobs.Page{Limit: 1 << 20})
		for _, j := range list {
			if schedule := j.Schedule; err == nil && schedule.Label != "" {
				schedule.Label = ""
				_, err = old.Jobs.Resubmit(tx, j.ID, schedule)
			}
		}
		return err
	})
	b.do1(func(tx kv.Tx) error { _, _, err := Init(tx, tuple.Subspace(tuple.Pack("test")), "uuid"); return err })
}

func (m *lists) reindex(t *rapid.T) {
	limit := rapid.IntRange(1, 4).Draw(t, "jobs")
	m.b.do1(func(tx kv.Tx) error { _, err := Reindex(tx, m.b.s, limit); return err })
}

func (m *lists) check(t *rapid.T) {
	b := m.b
	b.do1(func(tx kv.Tx) error { return errors.Join(b.s.Jobs.Audit(tx), b.s.Audit(tx)) })
	some := func(name string, values ...string) string {
		return rapid.SampledFrom(append(values, "", "", "")).Draw(t, name)
	}
	l := Listing{Limit: rapid.IntRange(0, 3).Draw(t, "limit"), Descending: rapid.Bool().Draw(t, "descending")}
	l.Documents = rapid.Bool().Draw(t, "documents")
	l.Skip = int64(rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "skip"))
	if l.Documents {
		l.Instance = some("instance", DocumentJobs(tuple.UUID{1}))
	}
	l.Server, l.User = some("server", "one", "one:1", "two:80", "three"), some("user", "joe", "eve")
	l.Error = some("error", "boom", "bang", "failed")
	if rapid.IntRange(0, 3).Draw(t, "by states") == 0 {
		l.States = rapid.SliceOfNDistinct(rapid.SampledFrom(StatesOf(l.Documents)), 1, 3, rapid.ID).Draw(t, "states")
	}
	if rapid.IntRange(0, 3).Draw(t, "by worker") == 0 {
		l.Workers = []string{m.worker(), fmt.Sprint("w", m.workers-1)}
	}
	l.From, l.To = some("from", m.known...), some("to", m.known...)
	complete := get(b, func(tx kv.Tx) (bool, error) { return b.s.Keys.complete(tx) })
	l.Descending = l.Descending && complete
	want := b.told(l)
	if l.Limit == 0 {
		page := get(b, func(tx kv.Tx) (Listed, error) { return Lists{Store: b.s, Reader: tx.Snapshot()}.Page(l) })
		if len(page.Jobs) != 0 || (page.Next == nil) && len(want) > 0 {
			t.Fatalf("a page of no jobs has %d, and %v goes on", len(page.Jobs), page.Next)
		}
	} else if got := b.pages(l); !slices.Equal(got, want) {
		t.Fatalf("%+v lists\n%q, and should list\n%q", l, got, want)
	}
	m.known = append([]string{"", noJob}, want...)
	l.Skip, l.From, l.To = 0, "", ""
	total, known := int64(0), false
	b.do1(func(tx kv.Tx) (err error) {
		total, known, err = Lists{Store: b.s, Reader: tx}.Total(l.Filter)
		return err
	})
	if n := len(b.told(l)); known && total != int64(n) || !known && complete && l.single() {
		t.Fatalf("%+v has %d jobs (known: %t), and should have %d", l.Filter, total, known, n)
	}
	m.count(t, l.Filter)
}

// count compares what is counted with what a reader of all records finds.
func (m *lists) count(t *rapid.T, f Filter) {
	b, limit := m.b, rapid.IntRange(1, 3).Draw(t, "limit of counts")
	all := len(b.told(Listing{Filter: f}))
	b.do1(func(tx kv.Tx) error {
		n, more, err := Lists{Store: b.s, Reader: tx}.Count(f, limit)
		if err == nil && (n > min(all, limit) || !more && n != all) {
			t.Fatalf("%+v: counted are %d (more: %t), and there are %d", f, n, more, all)
		}
		return err
	})
	if !get(b, func(tx kv.Tx) (bool, error) { return b.s.Keys.complete(tx) }) {
		return
	}
	active, over := Filter{}, Filter{Documents: true, States: []State{Completed, Failed}}
	for field, values := range map[string][]string{
		byServer: {"one:1", "one:80", "two:80"}, byError: {"bang", "boom", "failed"},
	} {
		want, got := []Counted{}, []Counted{}
		for _, v := range values {
			f, g := active, over
			if f.Server, g.Server = v, v; field == byError {
				f.Server, g.Server, f.Error, g.Error = "", "", v, v
			}
			c := Counted{v, int64(len(b.told(Listing{Filter: f}))), int64(len(b.told(Listing{Filter: g})))}
			if c.Active+c.Over > 0 {
				want = append(want, c)
			}
		}
		for after, first := "", true; first || after != ""; first = false {
			b.do1(func(tx kv.Tx) error {
				part, next, err := Lists{Store: b.s, Reader: tx}.counted(field, after, limit)
				got, after = append(got, part...), next
				return err
			})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("by %s, in pages of %d: %v, and should be %v", field, limit, got, want)
		}
	}
}

// noJob is an id that no job has.
var noJob = DocumentJobs(tuple.UUID{1}) + "c0"

// single reports whether a total is always known.
func (l *Listing) single() bool {
	n := 0
	for _, by := range []bool{len(l.States) > 0, l.Server != "", l.User != "", l.Error != "", l.Workers != nil} {
		if by {
			n++
		}
	}
	return n <= 1 && (l.Server == "" || hasPort(l.Server))
}

// TestPageWithoutRoom: a page of no jobs goes on with the first one behind where it began.
func TestPageWithoutRoom(t *testing.T) {
	b := newBench(t)
	b.put("a", simple, admin)
	b.put("b", simple, admin)
	at := Position{ID: jobID("a"), Past: true}
	for begin, want := range map[Position]Position{{}: {ID: jobID("a")}, {ID: jobID("b")}: {ID: jobID("b")}, at: at} {
		page, err := Lists{Store: b.s, Reader: b.db.Present()}.Page(Listing{At: begin})
		if err != nil || len(page.Jobs) > 0 || page.Next == nil || *page.Next != want {
			t.Errorf("from %+v: %+v, %v", begin, page, err)
		}
	}
}

// TestTotalOfDeletedDatabase: the jobs of a database that was deleted count no more, also those that still run.
func TestTotalOfDeletedDatabase(t *testing.T) {
	b := newBench(t)
	b.put("runs", simple, admin)
	b.accept()
	b.put("waits", strings.Replace(simple, "h/b", "h/waits", 1), admin)
	b.do1(func(tx kv.Tx) error { b.s.Drop(tx, tuple.UUID{1}); return nil })
	for name, f := range map[string]Filter{
		"all": {}, "of a worker": {Workers: []string{"w"}},
		"of the database": {Documents: true, Instance: DocumentJobs(tuple.UUID{1})},
	} {
		n, known, err := Lists{Store: b.s, Reader: b.db.Present()}.Total(f)
		if n != 0 || !known || err != nil {
			t.Errorf("%s: %d jobs, known %t, %v", name, n, known, err)
		}
	}
}

// TestHasPort: colons of an address in brackets are not those of a port.
func TestHasPort(t *testing.T) {
	for server, want := range map[string]bool{"h": false, "h:80": true, "[::1]": false, "[::1]:80": true} {
		if hasPort(server) != want {
			t.Errorf("%s has a port: %t", server, !want)
		}
	}
}

// TestChangedSharesAreToldOnce: an account that had other shares before is told once.
func TestChangedSharesAreToldOnce(t *testing.T) {
	from, to := Sharing{Shares: map[string]int64{"user:a": 200}}, Sharing{Shares: map[string]int64{"user:a": 300}}
	if got, want := from.Changes(to), []string{"shares of user:a: 300, was 200"}; !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
}

// TestTotalOfSeveral: jobs that several filters ask for together are not counted by the counter of one of them.
func TestTotalOfSeveral(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	for known, list := range map[bool][]Filter{
		true:  {{}, {User: "adm"}, {Server: "h:80"}},
		false: {{User: "adm", Server: "h:80"}, {User: "adm", States: []State{Running}}, {Server: "h", Error: "x"}},
	} {
		for _, f := range list {
			b.do1(func(tx kv.Tx) error {
				n, is, err := Lists{Store: b.s, Reader: tx}.Total(f)
				if is != known || known && n != 1 {
					t.Errorf("%+v: %d, known %v", f, n, is)
				}
				return err
			})
		}
	}
}
