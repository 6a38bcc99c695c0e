package jobstore

import (
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
)

// TestListOfFormerJob: a document is deleted and written again, so it has a new job. However often the list of the
// former job had changed, it counts as older than the list of the new job: checkpoints that rely on the new list are
// discarded if the store is put back to a backup that has the former job.
func TestListOfFormerJob(t *testing.T) {
	b := newBench(t)
	lists := func(changes int) checkpoint.List {
		b.now = b.now.Add(time.Hour)
		b.put("r", refusing, admin)
		w := b.accept()
		began := w.List()
		for i := range changes {
			b.list(w, i, refusalOf("a", false))
		}
		w.Record = b.record(w.JobID)
		if n := w.List().Changes - began.Changes; n != int64(changes) {
			t.Errorf("%d changes count as %d", changes, n)
		}
		b.put("r", `{"_deleted":true}`, admin)
		return w.List()
	}
	if former, later := lists(3), lists(1); !former.Before(later) || later.Before(former) {
		t.Errorf("the list of the former job is %+v, that of the later one %+v", former, later)
	}
}

// TestListOfFormerFilter: a filter function is changed and changed back, and the store is put back to a backup from
// before. However often the list had changed then, it is older than the one that was made afterwards.
func TestListOfFormerFilter(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":"http://s/a","target":"http://t/a","filter":"d/f"}`, admin)
	w, by := b.accept(), 0
	lists := func(repID string, changes int) checkpoint.List {
		if err := b.claim(w, repID); err != nil {
			t.Fatal(err)
		}
		for range changes {
			by++
			b.list(w, by, refusalOf("a", false))
		}
		w.Record = b.record(w.JobID)
		return w.List()
	}
	former := lists("one", 3)
	lists("two", 0)
	if later := lists("one", 1); !former.Before(later) {
		t.Errorf("the list of before is %+v, the later one %+v", former, later)
	}
}

// TestListOfFormerEdit: a document is edited and edited back by a node whose clock is behind that of the one before.
func TestListOfFormerEdit(t *testing.T) {
	b := newBench(t)
	b.put("r", refusing, admin)
	w := b.accept()
	b.list(w, 1, refusalOf("a", false))
	w.Record = b.record(w.JobID)
	former := w.List()
	b.now = b.now.Add(-time.Hour)
	b.put("r", strings.Replace(refusing, "t/a", "t/b", 1), admin)
	b.put("r", refusing, admin)
	w = b.accept()
	b.list(w, 2, refusalOf("a", false))
	w.Record = b.record(w.JobID)
	if later := w.List(); !former.Before(later) {
		t.Errorf("the list of before is %+v, the later one %+v", former, later)
	}
}

// TestDemandOfListThatIsOver: a demand to try all listed documents is over with the last of them, also if more were
// refused than the list had a place for. What is listed then has its own pauses.
func TestDemandOfListThatIsOver(t *testing.T) {
	b := newBench(t)
	b.s.Config.MaxRefused = 1
	b.put("r", refusing, admin)
	w := b.accept()
	b.list(w, 1, refusalOf("a", false), refusalOf("beyond", false))
	if changed, wrong := b.retry(w.JobID); !changed {
		t.Fatal(wrong)
	}
	b.list(w, 2, refusalOf("a", true))
	b.list(w, 3, refusalOf("b", false))
	if got := b.page(w); len(got) != 1 || got[0].Asked {
		t.Errorf("listed is %+v", got)
	}
}
