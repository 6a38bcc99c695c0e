package jobs_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/sim/fakefdb"

	"pgregory.net/rapid"
)

// Builds of indexes are a second job type, with nothing of replications: a build writes rows 1 to n of its index in
// steps, each step in the transaction that stores how far it is. The priority of a build is a word for its class and
// a number, its data is how many rows are built, and a worker may be silent for three seconds.

const buildTimeout = 3 * time.Second

// builders runs builds beside the replications of one store, with a twin of both queues.
type builders struct {
	db     kv.Database
	store  *jobstore.Store
	builds *jobs.Queue
	index  tuple.Subspace // (build, row): how often it was built

	now     time.Duration
	batch   uint64
	workers map[string]bool                 // live, by name
	names   int                             // that were used
	beaten  map[string]time.Duration        // when a worker sent its last heartbeat
	seen    map[string]sighting             // what the monitor saw of a worker, and since when
	held    map[string]map[string]jobs.Lock // worker, then build: also of workers that are gone
	twin    map[string]*build               // by id
	copies  map[string]jobs.State           // states of jobs of the other type
	copied  map[string]map[string]jobs.Lock // as held
}

type sighting struct {
	beat  [10]byte
	since time.Duration
}

// build is a job of the twin.
type build struct {
	state    jobs.State
	priority string
	rows     int // built so far
	holder   string
	lost     int
}

func newBuilders() *builders {
	root := tuple.Subspace(tuple.Pack("shared"))
	server := repid.Server{UUID: "u", HostName: "h", Port: 1}
	b := &builders{
		db:      fakefdb.New(),
		store:   jobstore.New(root.Sub("relay"), jobstore.DefaultConfig(server)),
		builds:  jobs.New(jobs.KeysBelow(root.Sub("relay").Sub("jobs"), "index")), // beside "replication"
		index:   root.Sub("index"),
		workers: map[string]bool{}, beaten: map[string]time.Duration{}, seen: map[string]sighting{},
		held: map[string]map[string]jobs.Lock{}, twin: map[string]*build{},
		copies: map[string]jobs.State{}, copied: map[string]map[string]jobs.Lock{},
	}
	b.builds.Timeout = buildTimeout
	return b
}

func (b *builders) do(t *rapid.T, f func(kv.Tx) error) {
	if err := kv.Do(context.Background(), b.db, f); err != nil {
		t.Fatal(err)
	}
}

func (b *builders) worker(t *rapid.T) string {
	if len(b.workers) == 0 {
		b.Join(t)
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(b.workers))).Draw(t, "worker")
}

// Join is a new worker, which takes jobs of both types.
func (b *builders) Join(t *rapid.T) {
	b.names++
	w := fmt.Sprint("w", b.names)
	b.do(t, func(tx kv.Tx) error {
		return errors.Join(b.builds.Register(tx, w, nil), b.store.Jobs.Register(tx, w, nil))
	})
	b.workers[w], b.beaten[w] = true, b.now
	b.held[w], b.copied[w] = map[string]jobs.Lock{}, map[string]jobs.Lock{}
}

// AddBuild asks for an index.
func (b *builders) AddBuild(t *rapid.T) {
	id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "build")
	class := rapid.SampledFrom([]string{"high", "low", "low\x00er"}).Draw(t, "class")
	n := rapid.Int64Range(0, 9).Draw(t, "number")
	if old := b.twin[id]; old != nil && old.state == jobs.Running {
		return // TestModel has those
	}
	b.do(t, func(tx kv.Tx) error {
		tx.ClearRange(b.index.Sub(id).Range())
		return b.builds.Add(tx, id, jobs.Schedule{Priority: tuple.Pack(class, n)}, rowsBuilt(0))
	})
	lost := 0
	if old := b.twin[id]; old != nil && old.state == jobs.Pending {
		lost = old.lost
	}
	b.twin[id] = &build{state: jobs.Pending, priority: string(tuple.Pack(class, n)), lost: lost}
}

func rowsBuilt(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// AddReplication adds a job of the other type, under the id of a build.
func (b *builders) AddReplication(t *rapid.T) {
	id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "replication")
	if b.copies[id] == jobs.Running {
		return
	}
	b.do(t, func(tx kv.Tx) error {
		return b.store.Jobs.Add(tx, id, jobs.Schedule{Priority: tuple.Pack(0, 0)}, []byte("{}"))
	})
	b.copies[id] = jobs.Pending
}

// AcceptBoth takes a job of each type, of builds those of a class only or up to it.
func (b *builders) AcceptBoth(t *rapid.T) {
	w := b.worker(t)
	b.batch++
	d := jobs.Demand{Batch: b.batch, Max: 1}
	upTo := d
	if class := rapid.SampledFrom([]string{"", "high", "low"}).Draw(t, "up to"); class != "" {
		upTo.MaxPriority = string(tuple.Pack(class))
	}
	var first string
	for _, id := range slices.Sorted(maps.Keys(b.twin)) {
		j := b.twin[id]
		behind := upTo.MaxPriority != "" && j.priority > upTo.MaxPriority+"\xff"
		if j.state == jobs.Pending && !behind && (first == "" || j.priority < b.twin[first].priority) {
			first = id
		}
	}
	var built, copied jobs.Taken
	b.do(t, func(tx kv.Tx) (err error) {
		if built, err = b.builds.Accept(tx, w, upTo, nil); err == nil {
			copied, err = b.store.Jobs.Accept(tx, w, d, nil)
		}
		return err
	})
	if len(built.Jobs) > 0 != (first != "") || first != "" && built.Jobs[0].ID != first {
		t.Fatalf("took %v, want %q", built.Jobs, first)
	}
	for _, j := range built.Jobs {
		if string(j.Data) != string(rowsBuilt(b.twin[j.ID].rows)) || j.Lost != b.twin[j.ID].lost {
			t.Fatalf("%s lost %d has %x, want %+v", j, j.Lost, j.Data, b.twin[j.ID])
		}
		b.twin[j.ID].state, b.twin[j.ID].holder = jobs.Running, w
		b.held[w][j.ID] = j.Lock
	}
	for _, j := range copied.Jobs {
		b.copies[j.ID] = jobs.Running
		b.copied[w][j.ID] = j.Lock
	}
}

// Build is a step of a build by any worker that ever held it, one that is gone included.
func (b *builders) Build(t *rapid.T) {
	for _, w := range slices.Sorted(maps.Keys(b.held)) {
		for _, id := range slices.Sorted(maps.Keys(b.held[w])) {
			if !rapid.Bool().Draw(t, "steps") {
				continue
			}
			j, lock := b.twin[id], b.held[w][id]
			finish := rapid.IntRange(0, 3).Draw(t, "is the last") == 0
			err := kv.Do(context.Background(), b.db, func(tx kv.Tx) error {
				old, err := b.builds.GetHeld(tx, id, lock)
				if err != nil {
					return err
				}
				row := binary.BigEndian.Uint32(old.Data) + 1
				tx.Add(b.index.Pack(id, int64(row)), 1)
				if finish {
					_, err = b.builds.Finish(tx, id, lock, rowsBuilt(int(row)))
					return err
				}
				return b.builds.Update(tx, id, lock, rowsBuilt(int(row)))
			})
			holds := j.state == jobs.Running && j.holder == w
			if holds != (err == nil) || !holds && !errors.Is(err, jobs.ErrHalt) {
				t.Fatalf("step of %s by %s, which holds it: %v; %v", id, w, holds, err)
			}
			if !holds {
				if gone := !b.workers[w] && j.state != jobs.Finished; gone != errors.Is(err, jobs.ErrWorkerConflict) {
					t.Fatalf("step of %s by %s, live %v: %v", id, w, b.workers[w], err)
				}
				delete(b.held[w], id)
				continue
			}
			j.rows++
			if finish {
				j.state, j.holder, j.lost = jobs.Finished, "", 0
				delete(b.held[w], id)
			}
		}
	}
}

// Beat is a heartbeat of a worker for its builds.
func (b *builders) Beat(t *rapid.T) {
	w := b.worker(t)
	b.do(t, func(tx kv.Tx) error { _, err := b.builds.Heartbeat(tx, w, nil); return err })
	b.beaten[w] = b.now
}

// Monitor lets time pass and gives the builds of workers back that were silent for as long as their leases say.
// Their replications stay: nothing says how long those may be silent.
func (b *builders) Monitor(t *rapid.T) {
	var leases []jobs.Lease
	b.do(t, func(tx kv.Tx) (err error) { leases, err = b.builds.Leases(tx); return err })
	for _, l := range leases {
		if l.Timeout != buildTimeout {
			t.Fatalf("lease %+v", l)
		}
		if s, known := b.seen[l.Worker]; !known || s.beat != l.Beat {
			b.seen[l.Worker] = sighting{l.Beat, b.now}
		} else if b.now-s.since >= l.Timeout {
			b.do(t, func(tx kv.Tx) error { _, err := b.builds.Expire(tx, l.Worker, &l.Beat, 100); return err })
			if b.now-b.beaten[l.Worker] < buildTimeout {
				t.Fatalf("%s was given up %s after its heartbeat", l.Worker, b.now-b.beaten[l.Worker])
			}
			delete(b.workers, l.Worker)
			for _, j := range b.twin {
				if j.state == jobs.Running && j.holder == l.Worker {
					j.state, j.holder, j.lost = jobs.Pending, "", j.lost+1
				}
			}
		}
	}
	b.now += time.Second
}

// Check compares the queues with the twin. Each row of an index was built once, whoever built it.
func (b *builders) Check(t *rapid.T) {
	b.do(t, func(tx kv.Tx) error {
		var counts, copies jobs.Counts
		for id, j := range b.twin {
			got, err := b.builds.Get(tx, id)
			if err != nil {
				return err
			}
			same := got != nil && got.State == j.state && got.Lock.Worker == j.holder
			if !same || string(got.Data) != string(rowsBuilt(j.rows)) {
				t.Fatalf("build is %v, want %+v", got, j)
			}
			rows, err := tx.GetRange(b.index.Sub(id).Range(), kv.RangeOptions{})
			if err != nil {
				return err
			}
			for _, row := range rows {
				if binary.LittleEndian.Uint64(row.Value) != 1 {
					t.Fatalf("row %x of %s was built twice", row.Key, id)
				}
			}
			if len(rows) != j.rows {
				t.Fatalf("%d rows of %s, want %d", len(rows), id, j.rows)
			}
			count(&counts, j.state)
		}
		for _, state := range b.copies {
			count(&copies, state)
		}
		for q, want := range map[*jobs.Queue]jobs.Counts{b.builds: counts, b.store.Jobs: copies} {
			got, err := q.Counts(tx)
			if err != nil || got != want {
				t.Fatalf("counts %+v, want %+v; %v", got, want, err)
			}
			if err := q.Audit(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

func count(c *jobs.Counts, s jobs.State) {
	switch s {
	case jobs.Pending:
		c.Ready++
	case jobs.Running:
		c.Running++
	default:
		c.Finished++
	}
}

// TestTwoTypes: builds of indexes run beside replications, by the same workers and in one store, and neither sees
// anything of the other.
func TestTwoTypes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBuilders()
		t.Repeat(map[string]func(*rapid.T){
			"": b.Check, "join": b.Join, "add build": b.AddBuild, "add replication": b.AddReplication,
			"accept": b.AcceptBoth, "build": b.Build, "beat": b.Beat, "monitor": b.Monitor,
		})
	})
}
