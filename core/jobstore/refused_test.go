package jobstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

const refusing = `{"source":"http://s/a","target":"http://t/a","continuous":true}`

// refusalOf is a finding about a revision of a document: its refusal, or that it is over.
func refusalOf(id string, over bool) replication.Finding {
	f := replication.Finding{Refusal: peer.Refusal{ID: id, Rev: "1-a"}, Over: over}
	if !over {
		f.Status, f.Error, f.Reason = 403, "forbidden", "no "+id
	}
	return f
}

// list stores findings as a run does, under a name that no other change has.
func (b *bench) list(w Work, by int, findings ...replication.Finding) {
	b.t.Helper()
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).StoreRefused(fmt.Sprint("w/1/", by), findings)
	})
}

// page is what a run reads of the list.
func (b *bench) page(w Work) []replication.Listed {
	return get(b, func(tx kv.Tx) (replication.RefusedPage, error) {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Refused("", "", 5)
	}).Docs
}

// listed is the list of a job: "id attempts", in order.
func (b *bench) listed(jobID string) (rows []string) {
	b.t.Helper()
	list := get(b, func(tx kv.Tx) ([]Refusal, error) { return b.s.Keys.Refusals(tx, jobID, "", "", 100) })
	for _, r := range list {
		rows = append(rows, fmt.Sprint(r.DocID, " ", r.Attempts))
	}
	if rec := b.record(jobID); rec == nil && len(rows) > 0 ||
		rec != nil && rec.Refused != nil && rec.Refused.Listed != int64(len(rows)) {
		b.t.Errorf("%d rows are listed, and the record says %+v", len(rows), rec)
	}
	return rows
}

// TestListOfRefused: b.do performs every transaction twice, as after an unknown outcome; each refusal counts
// once all the same.
func TestListOfRefused(t *testing.T) {
	b := newBench(t)
	b.put("r", refusing, admin)
	w := b.accept()
	first := b.now
	b.list(w, 1, refusalOf("b", false), refusalOf("a", false))
	b.now = b.now.Add(time.Minute)
	b.list(w, 2, refusalOf("a", false), refusalOf("c", false), refusalOf("c", true), refusalOf("d", true))
	if got := fmt.Sprint(b.listed(w.JobID)); got != "[a 2 b 1]" {
		t.Errorf("listed are %s", got)
	}
	if w.Record = b.record(w.JobID); w.List().Changes != int64(w.Record.Created)+2 || len(w.List().Job) != 16 {
		t.Errorf("checkpoints know the list as %+v", w.List())
	}
	row := get(b, func(tx kv.Tx) ([]Refusal, error) { return b.s.Keys.Refusals(tx, w.JobID, "", "", 1) })[0]
	want := Refusal{"a", "1-a", 403, "forbidden", "no a", first, b.now, 2, 0, false, false}
	if row != want {
		t.Errorf("got %+v, want %+v", row, want)
	}
	for _, after := range []struct{ doc, rev string }{{"a", "1-a"}, {"b", ""}} {
		next := get(b, func(tx kv.Tx) ([]Refusal, error) {
			return b.s.Keys.Refusals(tx, w.JobID, after.doc, after.rev, 5)
		})
		if len(next) != 1 || next[0].DocID != "b" {
			t.Errorf("after %q comes %+v", after, next)
		}
	}
}

// TestListIsFenced: a worker that does not hold the job any more changes nothing, and reads nothing.
func TestListIsFenced(t *testing.T) {
	b := newBench(t)
	b.put("r", refusing, admin)
	w := b.accept()
	b.list(w, 1, refusalOf("a", false))
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Requeue(nil, Turn{}) })
	for by := range 2 { // a new change, and the one that happened
		err := kv.Do(context.Background(), b.db, func(tx kv.Tx) error {
			hold, more := b.s.Owned(tx, w.JobID, w.Lock, b.now), []replication.Finding{refusalOf("b", false)}
			return hold.StoreRefused(fmt.Sprint("w/1/", by), more)
		})
		if !errors.Is(err, jobs.ErrHalt) {
			t.Errorf("change %d: %v", by, err)
		}
	}
	err := kv.Do(context.Background(), b.db, func(tx kv.Tx) error {
		_, err := b.s.Owned(tx, w.JobID, w.Lock, b.now).Refused("", "", 5)
		return err
	})
	if !errors.Is(err, jobs.ErrHalt) {
		t.Error(err)
	}
	if got := fmt.Sprint(b.listed(w.JobID)); got != "[a 1]" {
		t.Errorf("listed are %s", got)
	}
}

// TestManyRefused: 10,000 are listed, and every further one is counted; one whose name is too long for a key is
// counted too.
func TestManyRefused(t *testing.T) {
	b := newBench(t)
	b.put("r", refusing, admin)
	w := b.accept()
	const more = 3
	var findings []replication.Finding
	for i := range MaxRefused + more {
		findings = append(findings, refusalOf(fmt.Sprintf("doc%05d", i), false))
		if len(findings) == 100 || i == MaxRefused+more-1 {
			b.do1(func(tx kv.Tx) error {
				return b.s.Owned(tx, w.JobID, w.Lock, b.now).StoreRefused(fmt.Sprint("w/1/", i), findings)
			})
			findings = nil
		}
	}
	b.list(w, -1, refusalOf(strings.Repeat("x", 5000), false), refusalOf(strings.Repeat("x", 5000), true))
	if rec := b.record(w.JobID); rec.Refused.Listed != MaxRefused || rec.RefusedTotal() != MaxRefused+more+1 {
		t.Errorf("counted are %+v", rec.Refused)
	}
	b.list(w, -2, refusalOf("doc00007", true))
	b.list(w, -3, refusalOf("zzz", false))
	if rec := b.record(w.JobID); rec.Refused.Listed != MaxRefused || rec.View().Refused != MaxRefused+more+1 {
		t.Errorf("after one has left they are %+v", rec.Refused)
	}
}

// TestRefusalWithLongNames: a refused document whose row would have too long a key, with the name of the job's document
// in it, is counted only, and later ones are listed.
func TestRefusalWithLongNames(t *testing.T) {
	b := newBench(t)
	long := strings.Repeat("\x00", 4000)
	b.put(long, refusing, admin)
	w := b.accept()
	b.list(w, 1, refusalOf(strings.Repeat("\x00", 1500), false), refusalOf("a", false))
	b.list(w, 2, refusalOf(strings.Repeat("\x00", 1500), true))
	if rows := b.listed(w.JobID); len(rows) != 1 || b.record(w.JobID).Refused.Beyond != 1 {
		t.Errorf("listed %q; %+v", rows, b.record(w.JobID).Refused)
	}
	long = strings.Repeat("x", maxRefusedName) // and a revision
	if b.list(w, 3, refusalOf(long, false)); len(b.listed(w.JobID)) != 1 || b.record(w.JobID).Refused.Beyond != 2 {
		t.Errorf("with a long name they are %+v", b.record(w.JobID).Refused)
	}
}

// TestListGoesWithTheCheckpoint: the list stays over edits and new runs of a document, and is forgotten with the
// document, or when it replicates something else.
func TestListGoesWithTheCheckpoint(t *testing.T) {
	for body, stays := range map[string]bool{
		`{"source":"http://s/a","target":"http://t/a"}`:                                      true,
		`{"source":"http://s/a","target":"http://t/a","on_refusal":"retry"}`:                 true,
		`{"source":"http://s/a","target":"http://t/b","continuous":true}`:                    false,
		`{"source":"http://s/b","target":"http://t/a","continuous":true}`:                    false,
		`{"source":"http://s/a","target":"http://t/a","continuous":true,"doc_ids":["a"]}`:    false,
		`{"source":"http://s/a","target":"http://t/a","continuous":true,"selector":{"a":1}}`: false,
		`{"_deleted":true}`: false,
	} {
		b := newBench(t)
		b.put("r", refusing, admin)
		w := b.accept()
		b.list(w, 1, refusalOf("a", false))
		b.retry(w.JobID)
		if refusal := b.put("r", body, admin); refusal != nil {
			t.Fatal(refusal)
		}
		if got := len(b.listed(w.JobID)); (got == 1) != stays {
			t.Errorf("%s: %d are listed", body, got)
		}
		retry := get(b, func(tx kv.Tx) (instant.Time, error) { return b.s.Keys.retryAsked(tx, w.JobID) })
		if (retry != 0) != stays {
			t.Errorf("%s: somebody asked to try them at %s", body, retry)
		}
	}
}

// TestListOfChangedFilter: a filter function that has changed makes another replication, which has its own
// checkpoints and so its own list.
func TestListOfChangedFilter(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":"http://s/a","target":"http://t/a","filter":"d/f"}`, admin)
	w := b.accept()
	for _, step := range []struct {
		repID string
		want  int
	}{{"one", 0}, {"one", 1}, {"two", 0}} {
		if err := b.claim(w, step.repID); err != nil {
			t.Fatal(err)
		}
		if got := len(b.listed(w.JobID)); got != step.want {
			t.Errorf("%d are listed under %s", got, step.repID)
		}
		b.list(w, 1, refusalOf("a", false))
	}
}

// TestListOfEditedFilter: a job that is made anew with a filter function keeps the list until it is known that the
// function has changed.
func TestListOfEditedFilter(t *testing.T) {
	b := newBench(t)
	filtered := func(size int) string {
		return fmt.Sprintf(`{"source":"http://s/a","target":"http://t/a","filter":"d/f","worker_batch_size":%d}`, size)
	}
	b.put("r", filtered(7), admin)
	for size, step := range []struct {
		repID string
		want  int
	}{{"one", 1}, {"two", 0}} {
		w := b.accept()
		if err := b.claim(w, "one"); err != nil {
			t.Fatal(err)
		}
		b.list(w, 1+size, refusalOf("a", false))
		b.put("r", filtered(8+size), admin)
		if got := len(b.listed(w.JobID)); got != 1 {
			t.Errorf("%d are listed after an edit", got)
		}
		w = b.accept()
		if rec := w.Record; rec.RepID != "" || rec.Replicated() != "one" {
			t.Errorf("the list is of %q, and the replication is %q", rec.Replicated(), rec.RepID)
		}
		if err := b.claim(w, step.repID); err != nil {
			t.Fatal(err)
		}
		if got := len(b.listed(w.JobID)); got != step.want {
			t.Errorf("%d are listed under %s", got, step.repID)
		}
		b.requeue(w, Turn{Place: w.Place})
	}
}

// TestListOfOtherExtension: the list is kept as long as the checkpoints that cover it, which replications share whose
// ids differ in their extensions only.
func TestListOfOtherExtension(t *testing.T) {
	b := newBench(t)
	body := `{"source":"http://s/a","target":"http://t/a","filter":"d/f"}`
	b.put("r", body, admin)
	for i, extension := range []string{"+continuous", "+create_target"} {
		w := b.accept()
		b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Claim("one"+extension, "one") })
		if i == 0 {
			b.list(w, 1, refusalOf("a", false))
		}
		if got := len(b.listed(w.JobID)); got != 1 {
			t.Errorf("%d are listed under one%s", got, extension)
		}
		b.put("r", strings.Replace(body, "}", `,"worker_batch_size":7}`, 1), admin)
	}
}

// TestFailedJobListsWhy: the document for whose sake a job fails is listed by the transaction that ends the job.
func TestFailedJobListsWhy(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":"http://s/a","target":"http://t/a","on_refusal":"fail"}`, admin)
	w := b.accept()
	f, stats := refusalOf("a", false), Stats{DocsRead: 7}
	trouble := replication.Trouble{Error: "refused", Reason: `the target refused document "a", revision 1-a: 403`}
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).FailRefused(trouble, stats, f, Turn{})
	})
	if got := fmt.Sprint(b.listed(w.JobID)); got != "[a 1]" {
		t.Errorf("listed are %s", got)
	}
	rec := b.record(w.JobID)
	v := rec.View()
	if v.State != Failed || v.Refused != 1 || !strings.Contains(v.Problem, trouble.Reason) || rec.Stats.DocsRead != 7 {
		t.Errorf("%+v", v)
	}
	if doc := b.doc("r"); !strings.Contains(doc, `revision 1-a: 403`) {
		t.Errorf("the document says %s", doc)
	}
}

// TestCompletedJobTellsRefused: a document that completed says how many documents are missing.
func TestCompletedJobTellsRefused(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":"http://s/a","target":"http://t/a"}`, admin)
	w := b.accept()
	b.list(w, 1, refusalOf("a", false), refusalOf("b", false))
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(replication.End{}, Turn{}) })
	if doc := b.doc("r"); !strings.Contains(doc, `"refused":2`) {
		t.Errorf("the document says %s", doc)
	}
}

// TestRetryRefused: what was refused before an operator asked is to be tried at once, and the worker that runs
// the job is called; a job without refused documents is left as it is.
func TestRetryRefused(t *testing.T) {
	b := newBench(t)
	b.put("r", refusing, admin)
	w := b.accept()
	retry := func() bool { asked, _ := b.retry(w.JobID); return asked }
	calls := func() int64 { return get(b, func(tx kv.Tx) (int64, error) { return b.s.Jobs.Calls(tx, "w") }) }
	if retry() || calls() != 0 {
		t.Error("there was nothing to try")
	}
	b.list(w, 1, refusalOf("a", false), refusalOf("b", false))
	b.now = b.now.Add(time.Minute)
	if !retry() || calls() != 1 {
		t.Errorf("the worker was called %d times", calls())
	}
	if e := b.record(w.JobID).History[0]; e.Type != "retried" || e.By != "ann" || e.At != b.now {
		t.Errorf("history says %+v", e)
	}
	asked := get(b, func(tx kv.Tx) ([]RetryAsked, error) {
		return b.s.Keys.RetriesAsked(tx, []jobs.Held{{ID: "other"}, {ID: w.JobID}})
	})
	if len(asked) != 1 || asked[0] != (RetryAsked{w.JobID, b.now}) {
		t.Errorf("asked are %v", asked)
	}
	held := []jobs.Held{{ID: "odd"}, {ID: w.JobID}}
	b.do1(func(tx kv.Tx) (err error) { asked, err = b.s.Keys.RetriesAsked(tx, held, "odd"); return err })
	if len(asked) != 1 || held[0].ID != "odd" || held[1].ID != w.JobID {
		t.Errorf("asked are %v, and the jobs became %v", asked, held)
	}
	b.now = b.now.Add(time.Second)
	failed := b.since(w, "b")
	failed.Failed, failed.Status = true, 500
	b.list(w, 2, failed)
	page := get(b, func(tx kv.Tx) (replication.RefusedPage, error) {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Refused("", "", 2)
	})
	want := []replication.Listed{
		{ID: "a", Rev: "1-a", Attempts: 1, Age: 61 * time.Second, Asked: true},
		{ID: "b", Rev: "1-a", Attempts: 2, Failed: true},
	}
	if fmt.Sprint(page.Docs) != fmt.Sprint(want) || !page.More {
		t.Errorf("got %+v, want %+v", page, want)
	}
}

// TestRetryOfCompleted: a one-shot that completed without documents that its target refused runs again and tries
// these, whether it is a document's or a request's; the list stays until they got through. One without is over.
func TestRetryOfCompleted(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(b *bench) string
	}{
		{"a document", func(b *bench) string { b.put("r", simple, admin); return jobID("r") }},
		{"a request", func(b *bench) string { return b.replicate("joe") }},
	} {
		b := newBench(t)
		id := c.make(b)
		run := func(by int, over bool) {
			b.t.Helper()
			b.now = b.now.Add(time.Second)
			w := b.accept()
			if page := b.page(w); by > 1 && (len(page) != 1 || !page[0].Asked) {
				t.Errorf("%s: run %d is to try %+v", c.name, by, page)
			}
			b.list(w, by, refusalOf("a", over))
			b.end(w, func(h Owned) error { return h.Complete(crash, Turn{Place: w.Place}) })
			b.wantState(id, Completed)
			b.now = b.now.Add(time.Second)
		}
		run(1, false)
		for by := range 2 {
			if changed, obstacle := b.retry(id); !changed || b.record(id).History[0].Type != "retried" {
				t.Fatalf("%s: nothing changed: %q", c.name, obstacle)
			}
			b.wantState(id, Pending)
			run(by+2, by == 1)
		}
		if changed, obstacle := b.retry(id); changed || obstacle != "the job is over: it is completed" {
			t.Errorf("%s that lacks nothing: changed %v, %q", c.name, changed, obstacle)
		}
		b.do1(func(tx kv.Tx) error { return b.s.Audit(tx) })
	}
}

// TestListedByAClockAhead: a run is told of a row which a clock that was ahead has written that its age is negative, so
// that it is tried again.
func TestListedByAClockAhead(t *testing.T) {
	b := newBench(t)
	b.put("r", refusing, admin)
	w, right := b.accept(), b.now
	b.list(w, 1, refusalOf("again", false))
	b.now = right.Add(100 * time.Hour)
	b.list(w, 2, refusalOf("a", false), refusalOf("again", false))
	b.now = right
	b.list(w, 3, refusalOf("b", false))
	b.now = right.Add(time.Hour)
	want := []replication.Listed{
		{ID: "a", Rev: "1-a", Attempts: 1, Age: -99 * time.Hour},
		{ID: "again", Rev: "1-a", Attempts: 2, Age: -99 * time.Hour},
		{ID: "b", Rev: "1-a", Attempts: 1, Age: time.Hour},
	}
	if got := b.page(w); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("listed are %+v, want %+v", got, want)
	}
}

// TestRetryByAnotherClock: what a user asks to be tried again is tried, once, whatever the clocks of the nodes that
// took the order and that run the job say, and so is what an earlier release has listed, before or since.
func TestRetryByAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		b := newBench(t)
		b.put("r", refusing, admin)
		w := b.accept()
		asked := func() (asked []bool) {
			for _, d := range b.page(w) {
				asked = append(asked, d.Asked)
			}
			return asked
		}
		b.list(w, 1, refusalOf("a", false), refusalOf("b", false))
		for by := range 2 {
			b.now = b.now.Add(time.Minute)
			if changed, wrong := b.retry(w.JobID); !changed {
				t.Fatalf("nothing is to be tried: %s", wrong)
			}
			b.now = b.now.Add(ahead)
			if got := asked(); !slices.Equal(got, []bool{true, true}) {
				t.Errorf("of both documents it is asked to try %v", got)
			}
			b.list(w, 2+by, b.since(w, "a"))
			if got := asked(); !slices.Equal(got, []bool{false, true}) {
				t.Errorf("after an attempt with the first one it is asked to try %v", got)
			}
			b.list(w, 4+by, b.since(w, "b"))
			b.now = b.now.Add(-ahead)
		}
		b.do(func(tx kv.Tx) error { // as an earlier release writes it
			row := Refusal{Error: "forbidden", Last: b.now, Attempts: 1}
			tx.Set(b.s.Keys.Refused.Pack(w.JobID, "a", "1-a"), row.encode())
			return nil
		})
		if got := asked(); !slices.Equal(got, []bool{true, false}) {
			t.Errorf("where an earlier release tried the first document, it is asked to try %v", got)
		}
	}
}

// TestWhatIsListed: a run is told of a listed document what the run before found out.
func TestWhatIsListed(t *testing.T) {
	for _, f := range []replication.Finding{{}, {Failed: true}, {Failed: true, Refused: true}} {
		b := newBench(t)
		b.put("r", refusing, admin)
		w := b.accept()
		f.Refusal = refusalOf("a", false).Refusal
		b.list(w, 1, f)
		want := replication.Listed{ID: "a", Rev: "1-a", Attempts: 1, Failed: f.Failed, Refused: f.Refused}
		if got := b.page(w); len(got) != 1 || got[0] != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// since is a refusal of a document by a run that knows of the last demand.
func (b *bench) since(w Work, id string) replication.Finding {
	f := refusalOf(id, false)
	f.Demand = get(b, func(tx kv.Tx) (replication.RefusedPage, error) {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Refused("", "", 1)
	}).Demand
	return f
}

// TestRefusedBeforeDemand: the target refuses a document, then a user asks to try all, and then the document is listed.
// It is tried again.
func TestRefusedBeforeDemand(t *testing.T) {
	b := newBench(t)
	b.put("r", refusing, admin)
	w := b.accept()
	b.list(w, 1, refusalOf("a", false))
	before := b.since(w, "b")
	b.retry(w.JobID)
	b.list(w, 2, before)
	for _, d := range b.page(w) {
		if !d.Asked {
			t.Errorf("%s is not to be tried", d.ID)
		}
	}
}
