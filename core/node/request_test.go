package node

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb/damaged"
)

// TestRegistryIsComplete finds every type of request, answer and event in the source of this package. One that is in no
// list could not be read from a recorded log.
func TestRegistryIsComplete(t *testing.T) {
	var requests []Request
	for _, row := range registry {
		requests = append(requests, row.request)
	}
	for method, listed := range map[string][]string{
		"perform": typeNames(requests), "result": typeNames(Results()), "event": typeNames(Events()),
	} {
		if declared := receivers(t, method); !slices.Equal(declared, listed) {
			t.Errorf("types with a method %s are %v, and listed are %v", method, declared, listed)
		}
	}
}

// TestRequestsHaveWords: errors of the store name a request in words for people, and each in its own.
func TestRequestsHaveWords(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range registry {
		words := called(row.request)
		if words == "" || seen[words] {
			t.Errorf("a %T is called %q", row.request, words)
		}
		seen[words] = true
	}
}

func typeNames[T any](values []T) []string {
	set := map[string]bool{}
	for _, v := range values {
		set[reflect.TypeOf(v).Name()] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// receivers are the types of this package that declare a method of that name.
func receivers(t *testing.T, method string) []string {
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, is := decl.(*ast.FuncDecl)
			if is && f.Recv != nil && f.Name.Name == method && !strings.HasSuffix(source, "_test.go") {
				names = append(names, f.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// answers reports whether the registry names the type of result for requests of the type of q.
func answers(q Request, result Result) bool {
	for _, row := range registry {
		if reflect.TypeOf(row.request) == reflect.TypeOf(q) {
			return reflect.TypeOf(row.answer) == reflect.TypeOf(result)
		}
	}
	return false
}

// TestFormatOfRequests keeps what digests in recorded logs are made of: names, fields in their order, and words.
func TestFormatOfRequests(t *testing.T) {
	want := `
Join Worker Info: join as 
Beat Worker Info: beat of 
ListOwned Worker Without: list jobs of 
Retire Worker Limit Without: retire 
ListLeases: list leases
Expire Worker Beat Limit By Without: expire 
Accept Worker Node Demand Without: accept 0 as /0
Resume Held: resume  under /0
Promote Limit Without: promote
Sweep Limit Drop Without Looks: sweep
Survey First Accounts Behind Without: survey
Charge Charges: charge []
Tune Seen HalfLife: tune half-life to 0s
EndRound Seen: end of a round
Claim Held RepID BaseID: claim  for  under /0
Record Held Stats Reset: record  under /0
Complete Held End Turn Reset: complete  under /0
Crash Held Trouble Stats Turn Seed Reset: crash  under /0: : 
Fail Held Trouble Turn Stats Refused: fail  under /0: : 
Requeue Held Stats Turn Reset: requeue  under /0
StandBy Held RepID BaseID Turn: stand by  under /0 for 
StoreRefused Held Run Number Findings: store 0 refused of  under /0
ReadRefused Held ReadRefused: read 0 refused after ""  of  under /0
`
	got := "\n"
	for _, row := range registry {
		typ := reflect.TypeOf(row.request)
		got += typ.Name()
		for i := range typ.NumField() {
			got += " " + typ.Field(i).Name
		}
		got += fmt.Sprintf(": %s\n", row.request)
	}
	if got != want {
		t.Errorf("requests are%sand should be%s", got, want)
	}
}

// TestSweepGetsSmaller: a sweep that fails is repeated with half as many jobs of deleted databases, down to one,
// and goes on with as many as got through.
func TestSweepGetsSmaller(t *testing.T) {
	n := New(Config{Settings: DefaultSettings(), Exclusive: true})
	sweep := func(ev Event) (ask Ask) {
		now := n.clock
		now.Steady = max(now.Steady, 1).Add(2 * sweepInterval)
		for _, e := range n.Step(now, ev) {
			if a, is := e.(Ask); is {
				if _, is := a.Request.(Sweep); is {
					ask = a
				}
			}
		}
		return ask
	}
	sweep(Start{})
	ask := sweep(Wake{})
	for want := jobstore.DropLimit; want > 0; want /= 2 {
		for range 3 {
			if got := ask.Request.(Sweep).Drop; got != want {
				t.Fatalf("%d jobs, not %d", got, want)
			}
			sweep(Done{ID: ask.ID, Result: Progressed{}})
			ask = sweep(Wake{})
		}
		sweep(Done{ID: ask.ID, Fault: StoreDown})
		if ask = sweep(Wake{}); ask.Request == nil {
			t.Fatal("the sweep is not repeated")
		}
	}
	if got := ask.Request.(Sweep).Drop; got != 1 {
		t.Fatalf("%d jobs, not one", got)
	}
}

// TestPromoteGetsSmaller: a promote that fails is repeated with half as many jobs, down to one, goes on with twice as
// many as got through, and is as large as ever once nothing is left.
func TestPromoteGetsSmaller(t *testing.T) {
	n := New(Config{Settings: DefaultSettings(), Exclusive: true})
	promote := func(ev Event) (ask Ask) {
		now := n.clock
		now.Steady = max(now.Steady, 1).Add(n.cfg.PollInterval)
		for _, e := range n.Step(now, ev) {
			if a, is := e.(Ask); is {
				if _, is := a.Request.(Promote); is {
					ask = a
				}
			}
		}
		return ask
	}
	ask := promote(Start{})
	next := func(ev Event, want int) {
		t.Helper()
		ask = promote(ev)
		for i := 0; i < 10 && ask.Request == nil; i++ {
			ask = promote(Wake{}) // retries wait longer and longer
		}
		if got, is := ask.Request.(Promote); !is || got.Limit != want {
			t.Fatalf("%+v, not %d jobs", ask.Request, want)
		}
	}
	for want := DefaultBatches().Promote / 2; want >= 1; want /= 2 {
		next(Done{ID: ask.ID, Fault: StoreDown}, want)
	}
	next(Done{ID: ask.ID, Fault: StoreDown}, 1)
	for _, want := range []int{2, 4, 8, 16, 32, 64, DefaultBatches().Promote, DefaultBatches().Promote} {
		next(Done{ID: ask.ID, Result: Promoted{Moved: ask.Request.(Promote).Limit}}, want)
	}
	next(Done{ID: ask.ID, Fault: StoreDown}, DefaultBatches().Promote/2)
	next(Done{ID: ask.ID, Result: Promoted{Moved: 1, Next: instant.Never}}, DefaultBatches().Promote)
}

// TestSweepPauses: a sweep that left something goes on after about as long as it took, and the node wakes for that.
func TestSweepPauses(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 5 * time.Millisecond, 40 * time.Millisecond: 40 * time.Millisecond, time.Minute: time.Second,
	} {
		w := newWorld(t)
		n := w.start("n1", nil)
		n.hold = func(q Request) bool { _, is := q.(Sweep); return is }
		for len(n.held) == 0 {
			w.pass(max(0, n.Deadline().Sub(w.now)))
		}
		w.pass(took)
		ended, id := w.now, n.held[0].ID
		n.step(Done{ID: id, Result: Progressed{}})
		for len(n.held) == 1 && w.now.Sub(ended) < sweepInterval {
			w.now = max(w.now, n.Deadline())
			n.step(Wake{})
		}
		if got := w.now.Sub(ended); len(n.held) != 2 || got != want {
			t.Errorf("%d sweeps, the last one %s after one that took %s; want %s", len(n.held), got, took, want)
		}
		n.step(Done{ID: n.held[1].ID, Result: Progressed{Done: true}})
		if asking[Sweep](n.Node) {
			t.Error("it goes on when nothing is left")
		}
	}
}

// TestSweepTellsErrors: a sweep that cannot index an older store's job fails, and is not repeated as if more were
// to do.
func TestSweepTellsErrors(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	w.do(func(tx kv.Tx) error {
		tx.Set(w.s.Keys.Reindex, []byte(""))
		tx.Set(w.s.Keys.Jobs.Job.Pack(jobstore.DocumentJobs(tuple.UUID{1})+"r000", 0), []byte("junk"))
		return nil
	})
	err := kv.Do(t.Context(), w.db, func(tx kv.Tx) error {
		_, err := Perform(tx, w.s, Sweep{Limit: 10, Drop: 10}, w.now)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "record of job") {
		t.Error(err)
	}
}

// TestIndexWaitsForUnreadable: the index of an older store is not built while a job cannot be read, since it would be
// in no list afterwards.
func TestIndexWaitsForUnreadable(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	w.do(func(tx kv.Tx) error { tx.Set(w.s.Keys.Reindex, []byte("")); return nil })
	id := jobstore.DocumentJobs(tuple.UUID{1}) + "r000"
	for _, without := range [][]string{{id}, nil} {
		w.do(func(tx kv.Tx) error {
			_, err := Perform(tx, w.s, Sweep{Limit: 10, Drop: 10, Without: without}, w.now)
			return err
		})
		w.do(func(tx kv.Tx) error {
			if row, err := tx.Get(w.s.Keys.Reindex); (row != nil) != (without != nil) || err != nil {
				t.Errorf("without %q the index waits: %v; %v", without, row != nil, err)
			}
			return nil
		})
	}
}

// TestIndexWaitsForOlderNodes: the index of an older store is built once no node is left of a release that writes jobs
// without it, and not before, whatever other nodes there are.
func TestIndexWaitsForOlderNodes(t *testing.T) {
	const older, newer = false, true
	for _, fleet := range [][]bool{
		{}, {newer}, {older}, {older, newer}, {newer, older}, {newer, older, newer}, {newer, newer},
	} {
		w := newWorld(t)
		w.putMany(1, true)
		w.do(func(tx kv.Tx) error { tx.Set(w.s.Keys.Reindex, []byte("")); return nil })
		for i, indexes := range fleet {
			w.do(func(tx kv.Tx) error {
				_, err := Perform(tx, w.s, Join{Worker: fmt.Sprint("w", i), Info: Info{Indexes: indexes}}, w.now)
				return err
			})
		}
		w.do(func(tx kv.Tx) error { _, err := Perform(tx, w.s, Sweep{Limit: 10, Drop: 10}, w.now); return err })
		w.do(func(tx kv.Tx) error {
			if row, err := tx.Get(w.s.Keys.Reindex); (row != nil) != slices.Contains(fleet, older) || err != nil {
				t.Errorf("nodes %v: the index waits: %v; %v", fleet, row != nil, err)
			}
			return nil
		})
	}
}

// TestIndexNeedsAllReads: a sweep that is to build the index fails where anything cannot be read. A lease may be that
// of a node of an older release.
func TestIndexNeedsAllReads(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	w.do(func(tx kv.Tx) error { tx.Set(w.s.Keys.Reindex, []byte("")); return nil })
	sweep := func(tx kv.Tx) error { _, err := Perform(tx, w.s, Sweep{Limit: 10, Drop: 10}, w.now); return err }
	if err := damaged.Unread(t.Context(), w.db, sweep); err != nil {
		t.Error(err)
	}
}

// TestSweepTellsWhatIsLeft: a sweep of which a part is left says so, although no index is to be built.
func TestSweepTellsWhatIsLeft(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	w.do(func(tx kv.Tx) error { w.s.Drop(tx, tuple.UUID{1}); return nil })
	sweeps := 0
	for done := false; !done && sweeps < 10; sweeps++ {
		w.do(func(tx kv.Tx) error {
			r, err := Perform(tx, w.s, Sweep{Limit: 10, Drop: 1}, w.now)
			done = err != nil || r.(Progressed).Done
			return err
		})
	}
	if sweeps < 3 || sweeps > 5 {
		t.Errorf("three jobs, each removed by a sweep of its own, take %d", sweeps)
	}
}

// TestSweepLimit: how many requests that are over a sweep forgets is not how many jobs of deleted databases it removes.
func TestSweepLimit(t *testing.T) {
	w := newWorld(t)
	w.do(func(tx kv.Tx) error {
		for i := range 3 {
			tx.Set(w.s.Keys.Expire.Pack(int64(5), fmt.Sprint("gone", i)), nil)
		}
		return nil
	})
	w.do(func(tx kv.Tx) error {
		if _, err := Perform(tx, w.s, Sweep{Limit: 1, Drop: 5}, w.now); err != nil {
			return err
		}
		rows, err := tx.GetRange(w.s.Keys.Expire.Range(), kv.RangeOptions{})
		if len(rows) != 2 {
			t.Errorf("%d of 3 are left", len(rows))
		}
		return err
	})
}
