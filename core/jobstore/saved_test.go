package jobstore

import (
	"testing"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// TestSavedStays: what is known of a job's checkpoints, and of its list, stays as long as they count for it: also if
// its document is edited, or it is retried once it is over.
func TestSavedStays(t *testing.T) {
	saved := Stats{DocsRead: 7, ListSaved: [2]int64{5, 6}}
	for name, c := range map[string]struct {
		anew  func(b *bench, id string)
		stays bool
	}{
		"an edit": {func(b *bench, _ string) {
			b.put("r", `{"source":"http://s/a","target":"http://t/a","on_refusal":"retry"}`, admin)
		}, true},
		"another target": {func(b *bench, _ string) {
			b.put("r", `{"source":"http://s/a","target":"http://t/b"}`, admin)
		}, false},
		"a retry": {func(b *bench, id string) {
			w := b.accept()
			end := replication.End{Info: replication.Info{ListSaved: saved.ListSaved}}
			b.end(w, func(h Owned) error { return h.Complete(end, Turn{Place: w.Place}) })
			b.now = b.now.Add(time.Second)
			b.retry(id)
		}, true},
	} {
		b := newBench(t)
		b.put("r", `{"source":"http://s/a","target":"http://t/a"}`, admin)
		w := b.accept()
		b.list(w, 1, refusalOf("a", false), refusalOf("b", false))
		b.end(w, func(h Owned) error { return h.Requeue(&saved, Turn{Place: w.Place}) })
		c.anew(b, w.JobID)
		rec := b.record(w.JobID)
		if rec.State != Pending || rec.Stats.DocsRead != 0 || !rec.Stats.Untold() || rec.View().Stats != nil {
			t.Errorf("%s: the job is %s with %+v", name, rec.State, rec.Stats)
		}
		want := saved.ListSaved
		if !c.stays {
			want = [2]int64{}
		}
		if rec.Stats.ListSaved != want {
			t.Errorf("%s: %v, want %v", name, rec.Stats.ListSaved, want)
		}
	}
}

// TestSavedOfLeft: when the list begins, and with what leaves it, both databases are to tell that, unless a run has
// told of a later checkpoint. The source may have refused that.
func TestSavedOfLeft(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":"http://s/a","target":"http://t/a"}`, admin)
	w := b.accept()
	began := int64(b.record(w.JobID).Created)
	for i, step := range []struct {
		over bool
		want int64
	}{{false, began + 1}, {true, began + 2}, {false, began + 2}, {true, began + 4}} {
		b.list(w, i, refusalOf("a", step.over))
		b.end(w, func(h Owned) error { return h.Progress(Stats{}) })
		rec := b.record(w.JobID)
		if got := rec.ListSaved(); got != [2]int64{step.want, step.want} {
			t.Errorf("step %d: %v, want %d", i, got, step.want)
		}
	}
	rec := b.record(w.JobID)
	for _, later := range []int64{began + 4, began + 9} {
		if rec.Stats.ListSaved = [2]int64{3, later}; rec.ListSaved() != rec.Stats.ListSaved {
			t.Errorf("a checkpoint of later does not count: %v", rec.ListSaved())
		}
	}
}

// TestSavedOfFailure: so it is when a job fails for a document that the target refused, which begins the list.
func TestSavedOfFailure(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":"http://s/a","target":"http://t/a"}`, admin)
	w := b.accept()
	began := int64(b.record(w.JobID).Created)
	b.end(w, func(h Owned) error {
		return h.FailRefused(replication.Trouble{}, Stats{}, refusalOf("a", false), Turn{Place: w.Place})
	})
	rec, want := b.record(w.JobID), began+1
	if rec.Refused.Changes != want || rec.ListSaved() != [2]int64{want, want} {
		t.Errorf("%+v, saved %v, want %d", rec.Refused, rec.ListSaved(), want)
	}
}

// TestSavedOfForgottenList: a list of another replication is forgotten. Once the job lists something again, checkpoints
// that rely on the list of before are known by their state.
func TestSavedOfForgottenList(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":"http://s/a","target":"http://t/a"}`, admin)
	w := b.accept()
	began := int64(b.record(w.JobID).Created)
	b.list(w, 1, refusalOf("a", false))
	b.do1(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Claim("two", "two") })
	for i, want := range []int64{0, began + 2, began + 2} {
		if i > 0 {
			b.list(w, 1+i, refusalOf("a", false))
		}
		rec := b.record(w.JobID)
		if got := rec.ListSaved(); got != [2]int64{want, want} {
			t.Errorf("after %d changes: %v, want %d", i, got, want)
		}
	}
}

// TestSavedOfFilter: a filter function that has changed makes another replication, of whose checkpoints nothing is
// known. An option that is in its id alone does not.
func TestSavedOfFilter(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":"http://s/a","target":"http://t/a","filter":"d/f"}`, admin)
	w := b.accept()
	for _, step := range []struct {
		repID, base string
		want        int64
	}{{"one", "one", 0}, {"one+continuous", "one", 6}, {"two", "two", 0}} {
		b.do1(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Claim(step.repID, step.base) })
		if got := b.record(w.JobID).Stats.ListSaved[1]; got != step.want {
			t.Errorf("under %s it is %d", step.repID, got)
		}
		b.list(w, 1, refusalOf("a", false))
		b.end(w, func(h Owned) error { return h.Progress(Stats{ListSaved: [2]int64{1: 6}}) })
	}
}
