package jobs

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"

	"pgregory.net/rapid"
)

// follower reads what changed since it last did, beside a machine, in a store whose versions are the time.
type follower struct {
	*machine
	now    instant.Time
	last   map[string]Job // jobs at the last check, without data
	cursor Cursor
	began  Sequence            // where the list begins of which cursor is a place
	heard  map[string]Sequence // newest sequence of a job that the reader was told
}

func newFollower(t *testing.T) *follower {
	f := &follower{
		machine: newMachine(t), now: instant.Seconds(1_000), last: map[string]Job{}, heard: map[string]Sequence{},
	}
	f.db = fakefdb.New(fakefdb.WithClock(func() instant.Time { return f.now }))
	f.q.Incarnation = must(t, f.db, f.q.Keys.Incarnate)
	return f
}

// Pass lets time pass, with any luck more than a transaction may take.
func (f *follower) Pass(t *rapid.T) {
	f.now = f.now.Add(time.Duration(rapid.IntRange(1, 7).Draw(t, "seconds")) * time.Second)
}

// Check wants the sequence of a job to grow with each change of its header, and to stay otherwise.
func (f *follower) Check(t *rapid.T) {
	f.machine.Check(t)
	for id, j := range f.stored(t) {
		was, known := f.last[id]
		changed := known && (was.String() != j.String() || !was.Schedule.equal(j.Schedule))
		if order := was.Sequence.Compare(j.Sequence); order > 0 || changed && order == 0 || !known && order >= 0 {
			t.Fatalf("%s with %s is %s with %s by now", &was, was.Sequence, &j, j.Sequence)
		}
		f.last[id] = j
	}
}

func (f *follower) stored(t fataler) map[string]Job {
	stored := map[string]Job{}
	list, err := kv.Run(context.Background(), f.db, func(tx kv.Tx) ([]*Job, error) {
		return f.q.List(tx, Page{Limit: 100})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range list {
		copied := *j
		copied.Data = nil
		stored[j.ID] = copied
	}
	return stored
}

type fataler interface{ Fatal(...any) }

// page is an answer to ChangesSince.
type page struct {
	list []Change
	next Cursor
	more bool
}

// Follow reads a page of changes, or all that there are.
func (f *follower) Follow(t *rapid.T) {
	limit, all := rapid.IntRange(1, 3).Draw(t, "limit"), rapid.Bool().Draw(t, "all")
	for more := true; more; {
		if f.cursor.ID == "" { // a list begins
			f.began = f.cursor.After
		}
		p, err := kv.Run(context.Background(), f.db, func(tx kv.Tx) (p page, err error) {
			p.list, p.next, p.more, err = f.q.Keys.ChangesSince(tx, f.cursor, limit)
			return p, err
		})
		if err != nil || len(p.list) > limit {
			t.Fatalf("%+v, %v", p, err)
		}
		stored, before := f.stored(t), f.cursor.After
		for _, c := range p.list {
			if j, is := stored[c.ID]; !is || j.Sequence != c.Sequence {
				t.Fatalf("%s is listed with %s", &j, c.Sequence)
			}
			if c.Sequence.Compare(before) < 0 {
				t.Fatalf("%s is listed after %s", c.Sequence, before)
			}
			before, f.heard[c.ID] = c.Sequence, c.Sequence
		}
		back := p.next.After.Compare(f.began) < 0
		if back || p.more && p.next.After.Compare(f.cursor.After) < 0 {
			t.Fatalf("the reader goes from %v to %v", f.cursor, p.next)
		}
		f.cursor, more = p.next, p.more && all
		if !p.more && all {
			f.checkHeard(t, stored)
		}
	}
}

// checkHeard wants the reader to know the newest change of each job.
func (f *follower) checkHeard(t *rapid.T, stored map[string]Job) {
	for id, j := range stored {
		if f.heard[id] != j.Sequence {
			t.Fatalf("missed %s with %s: known is %s, and the place %v", &j, j.Sequence, f.heard[id], f.cursor)
		}
	}
}

// TestSequences: sequences of a job grow with its changes, and a reader of changes misses none, whatever commits late.
func TestSequences(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFollower(t)
		actions := f.operations()
		actions[""], actions["pass"], actions["follow"] = f.Check, f.Pass, f.Follow
		rt.Repeat(actions)
	})
}

// TestLateChange: a change that is committed behind a reader's place comes up in the reader's next list.
func TestLateChange(t *testing.T) {
	f := newFollower(t)
	since := func(from Cursor) page {
		return must(t, f.db, func(tx kv.Tx) (p page, err error) {
			p.list, p.next, p.more, err = f.q.Keys.ChangesSince(tx, from, 1)
			return p, err
		})
	}
	late := open(t, f.db, func(tx kv.Tx) error { return f.q.Add(tx, "late", Schedule{Priority: tuple.Pack(0)}, nil) })
	f.now = f.now.Add(time.Second)
	add(t, f.db, f.q, "a")
	p := since(Cursor{})
	if len(p.list) != 1 || p.list[0].ID != "a" || !p.more {
		t.Fatalf("%+v", p)
	}
	if err := late.Commit(); err != nil {
		t.Fatal(err)
	}
	f.now = f.now.Add(10 * time.Second)
	if p = since(p.next); len(p.list) != 0 || p.more { // it stands before "a"
		t.Fatalf("%+v", p)
	}
	p = since(p.next)
	if len(p.list) != 1 || p.list[0].ID != "late" {
		t.Fatalf("%+v", p)
	}
}

// TestLaterPlace: a reader whose place is behind what is settled, as after a change that it was told of, is not sent
// back.
func TestLaterPlace(t *testing.T) {
	f := newFollower(t)
	add(t, f.db, f.q, "a", "b")
	later := Sequence{Incarnation: 1, Version: int64(f.now) + 1000}
	for _, from := range []Cursor{{After: later}, {After: later, ID: "a"}} {
		p := must(t, f.db, func(tx kv.Tx) (p page, err error) {
			p.list, p.next, p.more, err = f.q.Keys.ChangesSince(tx, from, 9)
			return p, err
		})
		if p.next.After != later || p.more || len(p.list) > 0 {
			t.Errorf("from %v: %+v", from, p)
		}
	}
}

// TestChangesTogether: pages of a list part jobs that one transaction has changed, and none of them is left out.
func TestChangesTogether(t *testing.T) {
	f := newFollower(t)
	must(t, f.db, func(tx kv.Tx) (none struct{}, err error) {
		for _, id := range []string{"a", "b", "c"} {
			if err := f.q.Add(tx, id, Schedule{Priority: tuple.Pack(0)}, nil); err != nil {
				return none, err
			}
		}
		return none, nil
	})
	var heard []string
	for from, more := (Cursor{}), true; more; {
		p := must(t, f.db, func(tx kv.Tx) (p page, err error) {
			p.list, p.next, p.more, err = f.q.Keys.ChangesSince(tx, from, 1)
			return p, err
		})
		for _, c := range p.list {
			heard = append(heard, c.ID)
		}
		from, more = p.next, p.more
	}
	if !slices.Equal(heard, []string{"a", "b", "c"}) {
		t.Errorf("heard of %v", heard)
	}
}

// TestIncarnate: the incarnation rises when versions have gone back, and only then.
func TestIncarnate(t *testing.T) {
	f := newFollower(t)
	register(t, f.db, f.q, "v") // which is silent since, as is z
	register(t, f.db, f.q, "z")
	f.now = instant.Seconds(2_000)
	register(t, f.db, f.q, "w")
	add(t, f.db, f.q, "a")
	incarnate := func(db kv.Database) int64 { return must(t, db, f.q.Keys.Incarnate) }
	if n := incarnate(f.db); n != 1 {
		t.Errorf("incarnation %d", n)
	}
	old := f.stored(t)["a"].Sequence
	everything := func([]byte) bool { return true }
	whole := f.db
	if n := incarnate(restored(t, whole, f.now.Add(time.Hour), everything)); n != 1 {
		t.Errorf("a cluster of later versions has incarnation %d", n)
	}
	for name, keep := range map[string]func([]byte) bool{
		"everything": everything, "beats only": func(key []byte) bool { return !f.q.Keys.Changed.Contains(key) },
		"changes only": func(key []byte) bool { return !f.q.Keys.Beat.Contains(key) },
	} {
		f.db = restored(t, whole, instant.Seconds(1_500), keep)
		if n, again := incarnate(f.db), incarnate(f.db); n != 2 || again != 2 {
			t.Errorf("%s: a cluster of earlier versions has incarnations %d and %d", name, n, again)
		}
		if name != "everything" {
			continue
		}
		f.q.Incarnation = 2
		must(t, f.db, func(tx kv.Tx) (bool, error) { return f.q.Resubmit(tx, "a", Schedule{Due: 7}) })
		if now := f.stored(t)["a"].Sequence; now.Compare(old) <= 0 || now.String() <= old.String() {
			t.Errorf("%s after %s", now, old)
		}
		if n := incarnate(f.db); n != 2 {
			t.Errorf("incarnation %d", n)
		}
	}
}

// restored is another cluster with rows of a store, whose clock stands at a time.
func restored(t *testing.T, from kv.Database, at instant.Time, keep func(key []byte) bool) kv.Database {
	all := must(t, from, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(kv.Range{Begin: []byte{}, End: []byte{0xff}}, kv.RangeOptions{})
	})
	db := fakefdb.New(fakefdb.WithClock(func() instant.Time { return at }))
	must(t, db, func(tx kv.Tx) (struct{}, error) {
		for _, row := range all {
			if keep(row.Key) {
				tx.Set(row.Key, row.Value)
			}
		}
		return struct{}{}, nil
	})
	return db
}

// TestIncarnateTwice: versions that go back once more are told by the heartbeats of the cluster between, though those
// of the first one were later.
func TestIncarnateTwice(t *testing.T) {
	f := newFollower(t)
	f.now = instant.Seconds(2_000)
	register(t, f.db, f.q, "first")
	everything := func([]byte) bool { return true }
	second := restored(t, f.db, instant.Seconds(1_500), everything)
	if n := must(t, second, f.q.Keys.Incarnate); n != 2 {
		t.Fatalf("the second cluster has incarnation %d", n)
	}
	must(t, second, func(tx kv.Tx) (bool, error) { return f.q.Expire(tx, "first", nil, 1) })
	register(t, second, f.q, "second")
	if n := must(t, second, f.q.Keys.Incarnate); n != 2 {
		t.Errorf("the second cluster has incarnation %d, once it has heartbeats", n)
	}
	if n := must(t, restored(t, second, instant.Seconds(1_000), everything), f.q.Keys.Incarnate); n != 3 {
		t.Errorf("the third cluster has incarnation %d", n)
	}
}

// TestReincarnate: a restored store has another incarnation, which is that of the processes that start there, and one
// without sequences still has none.
func TestReincarnate(t *testing.T) {
	f := newFollower(t)
	reincarnate := func(tx kv.Tx) (struct{}, error) { return struct{}{}, f.q.Keys.Reincarnate(tx) }
	f.now = instant.Seconds(2_000)
	register(t, f.db, f.q, "w")
	store := restored(t, f.db, instant.Seconds(1_500), func([]byte) bool { return true })
	must(t, store, reincarnate)
	if n := must(t, store, f.q.Keys.Incarnate); n != 2 {
		t.Errorf("incarnation %d", n)
	}
	without := restored(t, f.db, f.now, func(key []byte) bool { return !bytes.Equal(key, f.q.Keys.Incarnation) })
	must(t, without, reincarnate)
	if n := must(t, without, f.q.Keys.Incarnate); n != 1 {
		t.Errorf("incarnation %d of a store that had none", n)
	}
}

// TestSequenceNeverFalls: without a new incarnation a job's sequences grow all the same.
func TestSequenceNeverFalls(t *testing.T) {
	for _, c := range []struct{ last, want Sequence }{
		{Sequence{}, Sequence{1, 50}}, {Sequence{1, 40}, Sequence{1, 50}}, {Sequence{1, 50}, Sequence{1, 50}},
		{Sequence{1, 51}, Sequence{1, 52}}, {Sequence{2, 7}, Sequence{2, 50}}, {Sequence{2, 70}, Sequence{2, 71}},
	} {
		db := fakefdb.New(fakefdb.WithClock(func() instant.Time { return 50 }))
		got := must(t, db, func(tx kv.Tx) (Sequence, error) { return c.last.next(tx, 1), nil })
		if got != c.want {
			t.Errorf("after %s comes %s, not %s", c.last, got, c.want)
		}
	}
}

// TestOldHeaders: what earlier releases wrote is read, and jobs without an incarnation are written as before.
func TestOldHeaders(t *testing.T) {
	for _, j := range []Job{
		{State: Pending, Schedule: Schedule{Priority: []byte("p"), Due: 5}},
		{State: Pending, Schedule: Schedule{Priority: []byte("p"), Lot: "red"}},
		{State: Running, Lock: Lock{"w", 1}, Stop: true, Sequence: Sequence{1, -5}},
	} {
		got, err := decodeHeader("", encodeHeader(&j))
		if err != nil || got.String() != j.String() || !got.Schedule.equal(j.Schedule) ||
			got.Stop != j.Stop || got.Sequence != j.Sequence {
			t.Errorf("%+v is read as %+v, %v", j, got, err)
		}
	}
	before := tuple.Pack(int64(Pending), []byte("p"), int64(5), false, "", uint64(0), int64(0))
	got := encodeHeader(&Job{State: Pending, Schedule: Schedule{Priority: []byte("p"), Due: 5}})
	if !slices.Equal(got, before) {
		t.Errorf("a job without a sequence is %x, not %x", got, before)
	}
}
