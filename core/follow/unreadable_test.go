package follow_test

import (
	"errors"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// three has the world follow three databases, of which mirror is the first.
func (w *world) three() {
	w.follow(
		follow.Database{Section: "couch", Name: "reps", URL: "http://s/reps/"},
		follow.Database{Section: "couch", Name: "more", URL: "http://s/more/"},
		follow.Database{Section: "couch", Name: "most", URL: "http://s/most/"},
	)
}

// damage gives a row a value of which nothing can be made, and returns a function that puts it right.
func (w *world) damage(key []byte) (mend func()) {
	w.t.Helper()
	var was []byte
	set := func(value []byte) {
		w.do(func(tx kv.Tx) (err error) {
			was, err = tx.Get(key)
			tx.Set(key, value)
			return err
		})
	}
	if set([]byte{0xff}); was == nil {
		w.t.Fatalf("there is no row %x", key)
	}
	right := was
	return func() { set(right) }
}

// rowsOfJob are the header and the data of a job.
func (w *world) rowsOfJob() [][]byte {
	return [][]byte{w.store.Keys.Jobs.Job.Pack(mirror), w.store.Keys.Jobs.Job.Pack(mirror, int64(0))}
}

// expectRuns lets ten minutes pass, in which two of three databases are followed, and the third one once it is right.
// The unreadable one is not asked for again and again, as each failure is logged.
func (w *world) expectRuns(k *worker, mend func()) {
	w.t.Helper()
	w.vain = 0
	w.settle(10 * time.Minute)
	told := 0
	for _, n := range k.notes {
		if n.What == "follow_unreadable" && n.Job == mirror && n.Text != "" && n.Warns() {
			told++
		}
	}
	if len(k.open) != 2 || told == 0 || told > 30 {
		w.t.Fatalf("%v are followed, and operators are told %d times", k.open, told)
	}
	if w.vain > 30 {
		w.t.Fatalf("%d transactions fail", w.vain)
	}
	mend()
	w.settle(2 * time.Minute)
	if len(k.open) != 3 {
		w.t.Fatalf("%v are followed once all can be read", k.open)
	}
}

// TestUnreadableReady: a job of which a row cannot be read keeps no others from being taken.
func TestUnreadableReady(t *testing.T) {
	for _, i := range []int{0, 1} {
		w := newWorld(t)
		w.three()
		mend := w.damage(w.rowsOfJob()[i])
		w.expectRuns(w.start(), mend)
	}
}

// TestUnreadableWait: a job that waits and cannot be read keeps no others from coming back after a failure, and neither
// does one whose pause a wrong clock has made too long.
func TestUnreadableWait(t *testing.T) {
	for _, back := range []time.Duration{0, 3 * time.Hour} {
		w := newWorld(t)
		w.now = w.now.Add(back)
		w.three()
		w.couch = nil
		k := w.start()
		w.settle(time.Second)
		if len(k.open) != 0 {
			t.Fatalf("%v are followed", k.open)
		}
		w.kill(k)
		mend := w.damage(w.rowsOfJob()[0])
		w.couch = newCouch("1")
		w.now = w.now.Add(-back)
		w.expectRuns(w.start(), mend)
	}
}

// TestUnreadableOfVanished: a job whose header cannot be read keeps no others of a worker that vanished from coming
// back.
func TestUnreadableOfVanished(t *testing.T) {
	w := newWorld(t)
	w.three()
	a := w.start()
	w.settle(10 * time.Second)
	mend := w.damage(w.rowsOfJob()[0])
	w.kill(a)
	w.expectRuns(w.start(), mend)
}

// TestUnreadableOfLeaving: a worker that drains leaves, though one of its jobs cannot be read, and others get the rest.
func TestUnreadableOfLeaving(t *testing.T) {
	w := newWorld(t)
	w.three()
	a := w.start()
	w.settle(10 * time.Second)
	mend := w.damage(w.rowsOfJob()[0])
	a.tell(follow.Drain{})
	w.settle(time.Minute)
	if !a.left {
		t.Fatalf("it has not left, and asks for %v", a.asks)
	}
	w.kill(a)
	w.expectRuns(w.start(), mend)
}

// TestUnreadableTaken: of the jobs of an accept whose answer was lost one cannot be read. The others are followed all
// the same.
func TestUnreadableTaken(t *testing.T) {
	w := newWorld(t)
	w.three()
	mend := func() {}
	w.done = func(q follow.Request) bool {
		if _, is := q.(follow.Accept); !is {
			return false
		}
		w.done, mend = nil, w.damage(w.rowsOfJob()[1])
		return true
	}
	k := w.start()
	w.settle(time.Second)
	w.expectRuns(k, func() { mend() })
}

// TestUnreadableOfRun: operators are told of the run whose job cannot be read any more, and the others go on.
func TestUnreadableOfRun(t *testing.T) {
	w := newWorld(t)
	w.three()
	k := w.start()
	w.settle(10 * time.Second)
	mend := w.damage(w.rowsOfJob()[1])
	w.write("d", one)
	w.settle(time.Minute)
	if !k.noted("follow_unreadable") {
		t.Error("nobody is told")
	}
	mend()
	w.settle(time.Minute)
	w.expect("d", "pending", "")
}

// TestUnreadableFollowed: a job that cannot be read keeps the configuration of other databases from nothing, whether it
// is to stay or to go.
func TestUnreadableFollowed(t *testing.T) {
	for _, stays := range []bool{true, false} {
		w := newWorld(t)
		w.damage(w.rowsOfJob()[0])
		list := []follow.Database{{Section: "couch", Name: "more", URL: "http://s/more/"}}
		if stays {
			list = append(list, w.list...)
		}
		try := func(without ...string) (err error) {
			return kv.Do(t.Context(), w.db, func(tx kv.Tx) error {
				_, _, err := follow.Follow(tx, w.store, list, make([]tuple.UUID, 2), w.now, without...)
				return err
			})
		}
		var unreadable *jobs.UnreadableError
		if err := try(); !errors.As(err, &unreadable) || unreadable.Job != mirror {
			t.Errorf("stays %v: %v", stays, err)
		}
		if err := try(mirror); err != nil {
			t.Errorf("stays %v: without the job: %v", stays, err)
		}
		w.list = list[:1]
		k := w.start()
		w.settle(10 * time.Second)
		if len(k.open) != 1 {
			t.Errorf("stays %v: %v are followed", stays, k.open)
		}
	}
}
