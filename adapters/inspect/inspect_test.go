package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/sim/fakefdb"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var root = tuple.Subspace(tuple.Pack("test"))

// filled makes a store with n documents and their jobs.
func filled(t *testing.T, db kv.Database, n int) *jobstore.Store {
	t.Helper()
	s := jobstore.New(root, jobstore.DefaultConfig(repid.Server{UUID: "uuid"}))
	err := kv.Do(t.Context(), db, func(tx kv.Tx) error {
		if _, _, err := jobstore.Init(tx, root, "uuid"); err != nil {
			return err
		}
		return s.Docs.Create(tx, "_replicator", tuple.UUID{1}, 1)
	})
	s.Jobs.Incarnation = 1
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		put(t, db, s, fmt.Sprint("d", i))
	}
	return s
}

// put writes a document of a replication.
func put(t *testing.T, db kv.Database, s *jobstore.Store, id string) {
	t.Helper()
	doc, err := docs.ParseDocument(fmt.Appendf(nil, `{"_id":%q,"source":"http://s/%s","target":"http://t/b"}`, id, id))
	if err != nil {
		t.Fatal(err)
	}
	err = kv.Do(t.Context(), db, func(tx kv.Tx) error {
		to, err := s.Docs.Open(tx, "_replicator")
		if err == nil {
			_, err = s.WriteDocs(tx, to, []docs.Edit{{Document: *doc}}, jobstore.Writer{Admin: true}, 1)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// damage takes rows from lists, adds strays and changes counters.
func damage(t *testing.T, db kv.Database, k jobstore.Keys) {
	t.Helper()
	err := kv.Do(t.Context(), db, func(tx kv.Tx) error {
		for _, space := range []tuple.Subspace{k.Jobs.Ready, k.Index, k.Jobs.Changed} {
			rows, err := tx.GetRange(space.Range(), kv.RangeOptions{Limit: 20})
			if err != nil {
				return err
			}
			for _, row := range rows[3:] {
				tx.Clear(row.Key)
			}
		}
		tx.Set(k.Spec.Pack("gone", 0), []byte("x"))
		tx.Add(k.Count.Pack("_replicator"), 7)
		tx.Add(k.Jobs.Count.Pack("ready", 3), -4)
		tx.Add(k.Tally.Pack("", int64(0), "server", "t:80"), 5)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stores are one that is read at once, and one that is read in pages.
func stores(t *testing.T) map[string]kv.Database {
	db, err := embedded.Open("store", embedded.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return map[string]kv.Database{"at once": db, "in pages": fakefdb.New()}
}

func look(t *testing.T, db kv.Database, repair bool, open func(key, value []byte) ([]byte, error)) Summary {
	t.Helper()
	s, err := Run(t.Context(), Options{DB: db, Root: root, Open: open, Repair: repair, Tell: func(told Told) error {
		if told.Doubtful {
			t.Errorf("a doubtful finding is told: %+v", told)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestQuietStore: a store that nothing changes is judged in full and repaired, also in pages.
func TestQuietStore(t *testing.T) {
	for name, db := range stores(t) {
		t.Run(name, func(t *testing.T) {
			s := filled(t, db, 60)
			if got := look(t, db, false, nil); !got.Sound || !got.AtOnce || got.Rows < 600 {
				t.Errorf("a sound store: %+v", got)
			}
			damage(t, db, s.Keys)
			got := look(t, db, false, nil)
			if got.Sound || got.Findings < 55 || got.Mendable != got.Findings || got.Unsure != 0 {
				t.Errorf("a damaged store: %+v", got)
			}
			fixed := look(t, db, true, nil)
			if !fixed.Sound || fixed.Repaired < got.Findings || fixed.Unsure != 0 {
				t.Errorf("the repair: %+v", fixed)
			}
			if again := look(t, db, false, nil); !again.Sound || again.Unsure != 0 {
				t.Errorf("after the repair: %+v", again)
			}
		})
	}
}

// TestBusyStore: while a store changes, what is summed up over pages is not judged unless it is read at once; nothing
// is told of a sound store.
func TestBusyStore(t *testing.T) {
	for name, db := range stores(t) {
		t.Run(name, func(t *testing.T) {
			s := filled(t, db, 60)
			n := 0
			busy := func(key, value []byte) ([]byte, error) {
				if n++; n%50 == 0 {
					put(t, db, s, fmt.Sprint("new", n))
				}
				return value, nil
			}
			if got := look(t, db, false, busy); !got.Sound || got.AtOnce != (name == "at once") {
				t.Errorf("a sound store: %+v", got)
			}
			damage(t, db, s.Keys)
			if got := look(t, db, true, busy); name == "at once" && !got.Sound || name != "at once" && got.Unsure == 0 {
				t.Errorf("the repair: %+v", got)
			}
			if got := look(t, db, true, nil); !got.Sound || got.Unsure != 0 {
				t.Errorf("a repair in quiet: %+v", got)
			}
		})
	}
}

// flaky is a world in which one read of a store fails, in a way that another attempt may not meet.
type flaky struct {
	left int // reads before it
	now  instant.Time
}

func (w *flaky) Now() instant.Time { return w.now }

func (w *flaky) Decide(op fakefdb.Op) (out fakefdb.Outcome) {
	if op.Kind == fakefdb.Read {
		if w.left--; w.left == -1 {
			out.Fault = fakefdb.FutureVersion
		}
	}
	return out
}

func (w *flaky) Sleep(ctx context.Context, d time.Duration) error {
	w.now = w.now.Add(d)
	return ctx.Err()
}
func (w *flaky) Await(_ context.Context, arm func(func())) error { arm(func() {}); return nil }
func (w *flaky) After(_ time.Duration, f func())                 { f() }

// TestFailedReads: whichever read of a check in pages fails, all that is found is told, and once.
func TestFailedReads(t *testing.T) {
	world := &flaky{left: math.MaxInt}
	db := fakefdb.New(fakefdb.InWorld(world))
	s := filled(t, db, 20) // there is a check for each read of it
	damage(t, db, s.Keys)
	told := func(reads int) (list []string, s Summary) {
		world.left = reads
		s, err := Run(t.Context(), Options{DB: db, Root: root, Tell: func(told Told) error {
			list = append(list, told.Key+": "+told.What)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.Seconds = 0
		slices.Sort(list)
		return list, s
	}
	want, sum := told(math.MaxInt)
	for reads := 0; ; reads++ {
		got, s := told(reads)
		if world.left >= 0 {
			break
		}
		if !slices.Equal(got, want) || s != sum {
			t.Errorf("read %d fails: %d findings are told of %d, %+v", reads, len(got), len(want), s)
		}
	}
}

// TestRepairUnderLoad: repairs do no harm to what others write meanwhile.
func TestRepairUnderLoad(t *testing.T) {
	db := stores(t)["at once"]
	s := filled(t, db, 60)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for c := range 3 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil && i < 200; i++ {
				put(t, db, s, fmt.Sprint("load", c, "-", i))
			}
		})
	}
	for range 3 {
		damage(t, db, s.Keys)
		if got := look(t, db, true, nil); got.Repaired == 0 {
			t.Errorf("nothing was repaired: %+v", got)
		}
	}
	stop()
	load.Wait()
	if got := look(t, db, true, nil); !got.Sound {
		t.Errorf("at the end: %+v", got)
	}
	if got := look(t, db, false, nil); !got.Sound {
		t.Errorf("once more: %+v", got)
	}
}

// TestTwoRepairs: a check that has read the store repairs nothing a second time that another one repairs meanwhile.
func TestTwoRepairs(t *testing.T) {
	for name, db := range stores(t) {
		t.Run(name, func(t *testing.T) {
			s := filled(t, db, 60)
			damage(t, db, s.Keys)
			values := 0
			meanwhile := func(_, value []byte) ([]byte, error) {
				if values++; values == 10 {
					if got := look(t, db, true, nil); !got.Sound {
						t.Errorf("the first: %+v", got)
					}
				}
				return value, nil
			}
			twice := func(f Told) error {
				if f.Repaired {
					t.Errorf("%s was repaired twice: %s", f.Key, f.What)
				}
				return nil
			}
			o := Options{DB: db, Root: root, Open: meanwhile, Repair: true, Tell: twice}
			second, err := Run(t.Context(), o)
			if err != nil || second.Repaired != 0 {
				t.Errorf("the second: %+v, %v", second, err)
			}
			if got := look(t, db, false, nil); !got.Sound {
				t.Errorf("after the second: %+v", got)
			}
		})
	}
}

// TestEndOfCheck: a check ends with its context, and with an error of who hears of it.
func TestEndOfCheck(t *testing.T) {
	db := stores(t)["at once"]
	s := filled(t, db, 60)
	damage(t, db, s.Keys)
	enough := errors.New("enough")
	_, err := Run(t.Context(), Options{DB: db, Root: root, Tell: func(Told) error { return enough }})
	if !errors.Is(err, enough) {
		t.Errorf("the error is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ended, Options{DB: db, Root: root}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
