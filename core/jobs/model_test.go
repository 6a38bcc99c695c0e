package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"

	"pgregory.net/rapid"
)

// model is the queue as plain maps, written as dumbly as possible.
type model struct {
	jobs    map[string]*Job
	workers map[string]bool // live
	beats   map[string]int  // signs of life
	batches map[string]uint64
}

// machine applies every operation to the queue and to the model. Each transaction is sometimes run a
// second time after it committed, as after a commit with an unknown result, and sometimes commits late, after
// another one.
type machine struct {
	db kv.Database
	q  *Queue
	m  model
	// mirrored are rows of a job's type that follow the headers of jobs; see mirror.
	mirrored tuple.Subspace
	// looks are what monitors saw last of a worker.
	looks map[string]look
	// subscriptions are those of which nothing was told yet.
	subscriptions map[subscribed]subscription
	// interrupted: an operation is under way between the reads and the commit of another one.
	interrupted bool
}

func newMachine(t testing.TB) *machine {
	db, root := newStore(t)
	s := &machine{db: db, q: New(KeysBelow(root, "kind")), mirrored: root.Sub("mirror"), looks: map[string]look{},
		subscriptions: map[subscribed]subscription{}, m: model{
			jobs: map[string]*Job{}, workers: map[string]bool{}, beats: map[string]int{}, batches: map[string]uint64{},
		}}
	s.q.Moved = s.mirror
	return s
}

// run carries out a transaction, sometimes a second time. late says that another operation happened between its
// reads and its commit.
func run[T any](t *rapid.T, s *machine, f func(kv.Tx) (T, error)) (result T, late bool, err error) {
	result, late, err = runOnce(t, s, f)
	if err == nil && rapid.Bool().Draw(t, "commit result unknown") {
		if _, err := kv.Run(context.Background(), s.db, f); err != nil && !errors.Is(err, ErrHalt) {
			t.Fatalf("repeated: %v", err)
		}
	}
	return result, late, err
}

func runOnce[T any](t *rapid.T, s *machine, f func(kv.Tx) (T, error)) (result T, late bool, err error) {
	if !s.interrupted && rapid.Bool().Draw(t, "late") {
		if result, late = runLate(t, s, f); late {
			return result, late, nil
		}
	}
	result, err = kv.Run(context.Background(), s.db, f)
	return result, false, err
}

// runLate tries to commit after another operation. It failed if there was a conflict, or nothing to commit: then
// the result was true before that operation.
func runLate[T any](t *rapid.T, s *machine, f func(kv.Tx) (T, error)) (result T, done bool) {
	tx := s.db.Begin(context.Background(), kv.Options{})
	defer tx.Cancel()
	result, err := f(tx)
	if err != nil {
		return result, false
	}
	all := s.operations()
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "meanwhile")
	s.interrupted = true
	all[name](t)
	s.interrupted = false
	if err := tx.Commit(); err != nil {
		if !kv.Retryable(err) {
			t.Fatal(err)
		}
		return result, false // and if the commit took effect all the same, the next one repeats it
	}
	_, err = tx.Versionstamp()
	return result, err == nil
}

var ids = rapid.SampledFrom([]string{"a", "b", "c\x00d", "e"})
var workers = rapid.SampledFrom([]string{"w1", "w2"})

func schedule(t *rapid.T) Schedule {
	return Schedule{
		Priority: tuple.Pack(rapid.Int64Range(-3, 3).Draw(t, "priority")),
		Due:      instant.Time(rapid.SampledFrom([]int64{0, 0, 5, 5, 10}).Draw(t, "due")),
		Lot:      rapid.SampledFrom([]string{"", "", "", "red", "blue\x00"}).Draw(t, "lot"),
		Label:    rapid.SampledFrom([]string{"", "", "x"}).Draw(t, "label"),
	}
}

func data(t *rapid.T) []byte {
	return bytes.Repeat([]byte{'x'},
		rapid.SampledFrom([]int{0, 1, 10, chunkSize, chunkSize + 1, 2*chunkSize + 5}).Draw(t, "size"))
}

func (s *machine) Add(t *rapid.T) {
	id, sched, body := ids.Draw(t, "id"), schedule(t), data(t)
	_, _, err := run(t, s, func(tx kv.Tx) (struct{}, error) { return struct{}{}, s.q.Add(tx, id, sched, body) })
	if err != nil {
		t.Fatal(err)
	}
	old := s.m.jobs[id]
	if old != nil && old.State == Running {
		old.Schedule, old.Resubmit = sched, true
		return
	}
	lost := 0
	if old != nil && old.State == Pending {
		lost = old.Lost
	}
	s.m.jobs[id] = &Job{ID: id, State: Pending, Schedule: sched, Data: body, Lost: lost}
}

func (s *machine) AddFinished(t *rapid.T) {
	id, body := ids.Draw(t, "id"), data(t)
	_, _, err := run(t, s, func(tx kv.Tx) (struct{}, error) { return struct{}{}, s.q.AddFinished(tx, id, body) })
	if err != nil {
		t.Fatal(err)
	}
	s.m.jobs[id] = &Job{ID: id, State: Finished, Data: body}
}

func (s *machine) Resubmit(t *rapid.T) {
	id, sched := ids.Draw(t, "id"), schedule(t)
	found, _, err := run(t, s, func(tx kv.Tx) (bool, error) { return s.q.Resubmit(tx, id, sched) })
	old := s.m.jobs[id]
	if err != nil || found != (old != nil) {
		t.Fatalf("found %v, %v", found, err)
	}
	if old == nil {
		return
	}
	old.Schedule = sched
	if old.State == Running {
		old.Resubmit = true
	} else {
		old.State = Pending
	}
}

func (s *machine) Remove(t *rapid.T) {
	id := ids.Draw(t, "id")
	before := s.calls(t, id)
	found, late, err := run(t, s, func(tx kv.Tx) (bool, error) { return s.q.Remove(tx, id) })
	j := s.m.jobs[id]
	if err != nil || found != (j != nil) {
		t.Fatalf("found %v, %v", found, err)
	}
	if found && j.State == Running && !late {
		s.checkCalled(t, j.Lock.Worker, before)
	}
	delete(s.m.jobs, id)
}

func (s *machine) Accept(t *rapid.T) {
	w := workers.Draw(t, "worker")
	s.m.batches[w]++
	d := Demand{
		Batch: s.m.batches[w], Max: rapid.IntRange(1, 3).Draw(t, "max"), Window: rapid.IntRange(0, 4).Draw(t, "window"),
		Look: rapid.IntRange(0, 5).Draw(t, "look"),
		Seed: rapid.Uint64().Draw(t, "seed"), Yield: rapid.Bool().Draw(t, "yield"),
		Left: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "left"),
	}
	if rapid.IntRange(0, 2).Draw(t, "up to a priority") == 0 {
		d.MaxPriority = string(tuple.Pack(rapid.Int64Range(-4, 4).Draw(t, "max priority")))
	}
	if rapid.Bool().Draw(t, "in part") {
		d.Part = Part(rapid.Uint64().Draw(t, "part"))
	}
	parks := rapid.IntRange(0, 2).Draw(t, "parks") == 0
	judge := judgeOf{passes: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "passes")}
	if parks {
		judge.parks = "a"
	}
	do := run[Taken]
	if parks { // repeated after it parked the only job that it took, it takes others
		do = runOnce[Taken]
	}
	taken, late, err := do(t, s, func(tx kv.Tx) (Taken, error) { return s.q.Accept(tx, w, d, judge) })
	got := taken.Jobs
	if !s.m.workers[w] {
		if !errors.Is(err, ErrLeaseLost) {
			t.Fatalf("accept without a lease: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	ready := slices.DeleteFunc(s.ready(), func(j *Job) bool {
		return d.MaxPriority != "" && string(j.Priority) > d.MaxPriority || judge.Passes(j.ID)
	})
	head := ready[:min(len(ready), max(d.Max, d.Look, d.Window))]
	if late { // others may have come in front of what it chose from
		head = ready
	} else {
		all := taken
		if all.Jobs = slices.Clone(got); taken.Parked > 0 {
			all.Jobs = append(all.Jobs, s.m.jobs["a"])
		}
		checkChoice(t, d, head, all)
	}
	if taken.Parked > 0 {
		if !parks || taken.Parked > 1 {
			t.Fatalf("parked %d", taken.Parked)
		}
		s.m.jobs["a"].Lot = "green"
	}
	for i, j := range got {
		if !slices.ContainsFunc(head, func(h *Job) bool { return h.ID == j.ID }) {
			t.Fatalf("accepted %s, which is not among the first: %v", j, head)
		}
		if i > 0 && d.Part.Has(got[i-1].ID) == d.Part.Has(j.ID) && compareReady(got[i-1], j) >= 0 {
			t.Fatalf("accepted out of order: %v", got)
		}
		mine := s.m.jobs[j.ID]
		if !bytes.Equal(mine.Data, j.Data) {
			t.Fatalf("accepted with other data")
		}
		mine.State, mine.Lock, mine.Resubmit, mine.Label = Running, Lock{w, d.Batch}, false, ""
	}
	if len(got) == 0 && taken.Parked > 0 {
		return // the accept was not repeated with success, and may take others now
	}
	again, err := kv.Run(context.Background(), s.db,
		func(tx kv.Tx) (Taken, error) { return s.q.Accept(tx, w, d, judge) })
	slices.SortFunc(got, compareReady)
	if len(got) > 0 && (err != nil || fmt.Sprint(again.Jobs) != fmt.Sprint(got)) {
		t.Fatalf("the same accept again gives %v, %v, not %v", again, err, got)
	}
	if len(got) == 0 && len(again.Jobs) > 0 {
		t.Fatalf("accepted %v from nothing", again)
	}
}

// judgeOf parks one job and passes over one, unless these are empty.
type judgeOf struct{ parks, passes string }

func (j judgeOf) Passes(id string) bool { return id == j.passes }

func (j judgeOf) Judge(job *Job) (v Verdict, err error) {
	if job.ID == j.parks {
		v.Lot = "green"
	}
	return v, nil
}

// checkChoice compares what an accept took of the head of the queue with what it was asked for: the first
// jobs of its part and, unless it yields, any others; and the first that it left.
func checkChoice(t *rapid.T, d Demand, head []*Job, taken Taken) {
	var own, beside, got []string
	for _, j := range head {
		if d.Part.Has(j.ID) {
			own = append(own, j.ID)
		} else {
			beside = append(beside, j.ID)
		}
	}
	for _, j := range taken.Jobs {
		got = append(got, j.ID)
	}
	if taken.Parked > 0 && slices.Contains(own, got[len(got)-1]) { // the parked one comes last
		at := min(slices.Index(own, got[len(got)-1]), len(got)-1)
		got = slices.Insert(got[:len(got)-1], at, own[at])
	}
	judged, enough := d.Max, len(own) >= d.Max
	if taken.Parked > 0 { // and one more in its place
		judged = min(max(d.Max, d.Look), d.Max+1)
	}
	own = own[:min(len(own), judged)]
	if len(got) < len(own) || !slices.Equal(got[:len(own)], own) {
		t.Fatalf("%+v took %v of %v and %v", d, got, own, beside)
	}
	fills, left := judged-len(own), ""
	if enough {
		fills = 0
	} else if d.Yield && len(beside) > 0 && beside[0] != d.Left && fills > 0 {
		fills, left = 0, beside[0]
	}
	if len(got)-len(own) != min(fills, len(beside)) || taken.Left != left {
		t.Fatalf("%+v took %v of %v and %v and left %q", d, got, own, beside, taken.Left)
	}
}

func compareReady(a, b *Job) int {
	if c := bytes.Compare(a.Priority, b.Priority); c != 0 {
		return c
	}
	return bytes.Compare([]byte(a.ID), []byte(b.ID))
}

func (s *machine) ready() []*Job {
	var list []*Job
	for _, j := range s.m.jobs {
		if j.Ready() {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, compareReady)
	return list
}

// lock draws a lock that may hold the job or not.
func (s *machine) lock(t *rapid.T, id string) Lock {
	if j := s.m.jobs[id]; j != nil && rapid.IntRange(0, 3).Draw(t, "stale") > 0 {
		return j.Lock
	}
	return Lock{workers.Draw(t, "worker"), rapid.Uint64Range(0, 3).Draw(t, "batch")}
}

func (s *machine) holds(id string, l Lock) bool {
	j := s.m.jobs[id]
	return j != nil && j.State == Running && j.Lock == l
}

func (s *machine) Update(t *rapid.T) {
	id, body := ids.Draw(t, "id"), data(t)
	l := s.lock(t, id)
	_, _, err := run(t, s, func(tx kv.Tx) (struct{}, error) { return struct{}{}, s.q.Update(tx, id, l, body) })
	s.checkFence(t, id, l, err)
	if err == nil {
		s.m.jobs[id].Data = body
	}
}

func (s *machine) Absolve(t *rapid.T) {
	id := ids.Draw(t, "id")
	l := s.lock(t, id)
	_, _, err := run(t, s, func(tx kv.Tx) (struct{}, error) { return struct{}{}, s.q.Absolve(tx, id, l) })
	s.checkFence(t, id, l, err)
	if err == nil {
		s.m.jobs[id].Lost = 0
	}
}

func (s *machine) Finish(t *rapid.T) {
	id, body := ids.Draw(t, "id"), data(t)
	l := s.lock(t, id)
	state, _, err := run(t, s, func(tx kv.Tx) (State, error) { return s.q.Finish(tx, id, l, body) })
	s.checkFence(t, id, l, err)
	if err != nil {
		return
	}
	j := s.m.jobs[id]
	want := Finished
	if j.Resubmit {
		want = Pending
	}
	if state != want {
		t.Fatalf("finished as %s, want %s", state, want)
	}
	*j = Job{ID: id, State: want, Schedule: j.Schedule, Data: body}
}

func (s *machine) Requeue(t *rapid.T) {
	id, body, sched := ids.Draw(t, "id"), data(t), schedule(t)
	l := s.lock(t, id)
	_, _, err := run(t, s, func(tx kv.Tx) (struct{}, error) { return struct{}{}, s.q.Requeue(tx, id, l, sched, body) })
	s.checkFence(t, id, l, err)
	if err == nil {
		s.m.jobs[id] = &Job{ID: id, State: Pending, Schedule: sched, Data: body}
	}
}

// Check compares everything that can be read.
func (s *machine) Check(t *rapid.T) {
	err := kv.Do(context.Background(), s.db, func(tx kv.Tx) error { return s.check(t, tx) })
	if err != nil {
		t.Fatal(err)
	}
	s.checkSubscriptions(t)
}

func (s *machine) check(t *rapid.T, tx kv.Tx) error {
	if err := s.q.Audit(tx); err != nil {
		return err
	}
	var list []*Job
	for after := ""; ; after = list[len(list)-1].ID {
		page, err := s.q.List(tx, Page{After: after, Limit: 2})
		if err != nil {
			return err
		}
		if list = append(list, page...); len(page) < 2 {
			break
		}
	}
	wantIDs := slices.Sorted(maps.Keys(s.m.jobs))
	if len(list) != len(wantIDs) {
		t.Fatalf("%d jobs, want %d", len(list), len(wantIDs))
	}
	var counts Counts
	for i, j := range list {
		want := s.m.jobs[wantIDs[i]]
		got, err := s.q.Get(tx, j.ID)
		if err != nil {
			return err
		}
		if got.String() != want.String() || !bytes.Equal(got.Data, want.Data) || !got.Schedule.equal(want.Schedule) {
			t.Fatalf("job is %s, want %s", got, want)
		}
		if j.String() != want.String() || !bytes.Equal(j.Data, want.Data) {
			t.Fatalf("listed as %s, want %s", j, want)
		}
		switch {
		case want.Ready():
			counts.Ready++
		case want.State == Pending && want.Lot != "":
			counts.Parked++
		case want.State == Pending:
			counts.Waiting++
		case want.State == Running:
			counts.Running++
		default:
			counts.Finished++
		}
	}
	got, err := s.q.Counts(tx)
	if err == nil && got != counts {
		t.Fatalf("counts %+v, want %+v", got, counts)
	}
	return errors.Join(err, s.checkLots(t, tx), s.checkLeases(t, tx), s.checkMirror(t, tx))
}

// operations are what may happen, by name.
func (s *machine) operations() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"add": s.Add, "add finished": s.AddFinished, "resubmit": s.Resubmit, "remove": s.Remove,
		"register": s.Register, "accept": s.Accept,
		"update": s.Update, "absolve": s.Absolve, "finish": s.Finish, "requeue": s.Requeue, "promote": s.Promote,
		"expire":    s.Expire,
		"heartbeat": s.Heartbeat, "look": s.Look, "expire silent": s.ExpireSilent,
		"stop": s.Stop, "subscribe": s.Subscribe,
	}
}

func TestModel(t *testing.T) {
	for range 3 { // what commits late and matters is rare
		rapid.Check(t, func(rt *rapid.T) {
			s := newMachine(t)
			actions := s.operations()
			actions[""] = s.Check
			rt.Repeat(actions)
		})
	}
}
