package node

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"

	"pgregory.net/rapid"
)

// TestPartsOfTheLiving: whatever leases there are, all jobs are in the parts of this node and of the others
// that take jobs. None is left to a node that was given up, to one that takes none, or to an earlier worker of
// this process.
func TestPartsOfTheLiving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := New(Config{Settings: DefaultSettings(), Name: "me", Worker: "m", Roles: AllRoles})
		n.worker, n.published = "m-3", Info{Roles: AllRoles, Status: Up, MaxJobs: 10}
		takes := map[string]bool{n.worker: true}
		for i := range rapid.IntRange(0, 8).Draw(t, "others") {
			o := other{worker: fmt.Sprintf("%c-%d", "hmz"[rapid.IntRange(0, 2).Draw(t, "process")], 10+i)}
			o.gone = rapid.Bool().Draw(t, "gone")
			o.info = Info{Roles: AllRoles, Status: Up, MaxJobs: 10, Running: rapid.IntRange(0, 10).Draw(t, "running")}
			if rapid.IntRange(0, 3).Draw(t, "frontend") == 0 {
				o.info.Roles = APIFrontend
			}
			takes[o.worker] = !o.gone && o.info.Roles == AllRoles && o.worker[0] != 'm'
			n.others = append(n.others, o)
		}
		slices.SortFunc(n.others, func(a, b other) int { return strings.Compare(a.worker, b.worker) }) // as leases are
		f, all := n.fleet(), uint64(0)
		for i, l := range f.loads {
			if !takes[l.Name] || i > 0 && f.loads[i-1].Name > l.Name {
				t.Fatalf("node %d of the fleet is %s", i, l.Name)
			}
			delete(takes, l.Name)
			all |= f.parts[i]
		}
		for name, is := range takes {
			if is {
				t.Fatalf("%s takes jobs, and has no part", name)
			}
		}
		if f.loads[f.me].Name != n.worker || bits.OnesCount64(all) != 64 {
			t.Fatalf("this node is %s, the parts are %x", f.loads[f.me].Name, f.parts)
		}
	})
}

// TestSparedJobs: a job that is left to others is waited for, from when it was met first, for a while, and no
// other one is, however many are met in turn.
func TestSparedJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i, now, met := &intake{}, instant.Seconds(1000), instant.Never
		i.spare("", now) // an accept comes first
		i.lookAfter(now)
		i.hungry = false
		last := ""
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			i.lookAfter(now)
			if due := last != "" && now.Sub(met) >= patience; i.hungry && !due || (i.waited() != "") != due {
				t.Fatalf("%q was met %s ago: hungry %v, waited for %q", last, now.Sub(met), i.hungry, i.waited())
			}
			i.hungry = false
			if job := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "job"); rapid.Bool().Draw(t, "accepts") {
				if another := i.spare(job, now); another != (job != last && job != "") {
					t.Fatalf("%q after %q: another one %v", job, last, another)
				}
				if job != last {
					last, met = job, now
				}
			}
		}
	})
}

// TestWindowOfLargeFleet: also in a fleet of many small nodes, most find a job of their own part with their
// first accept.
func TestWindowOfLargeFleet(t *testing.T) {
	w := newWorld(t)
	for i := range 24 {
		w.start(fmt.Sprint("n", i), func(c *Config) { c.MaxJobs = 1 })
	}
	w.pass(30 * time.Second)
	for _, d := range w.nodes {
		d.hold = func(q Request) bool { _, is := q.(Accept); return is }
	}
	w.putMany(200, true)
	w.pass(time.Millisecond)
	without := 0
	for _, d := range w.nodes {
		if len(d.held) == 0 || len(d.perform(d.held[0]).Result.(Accepted).Work) == 0 {
			without++
		}
	}
	if without > len(w.nodes)/6 {
		t.Errorf("%d of %d nodes find no job of theirs", without, len(w.nodes))
	}
}

// tens has nodes make ten jobs ready at once.
var tens = Batches{Promote: 10}

// TestBatchesCompleted: bounds that are set stay, and the others are those of production.
func TestBatchesCompleted(t *testing.T) {
	d := DefaultBatches()
	for set, want := range map[Batches]Batches{
		{}:                              d,
		{Promote: 1, Sweep: 2}:          {1, d.Expire, 2, d.Drop, d.Survey},
		{Expire: 3, Drop: 4, Survey: 5}: {d.Promote, 3, d.Sweep, 4, 5},
	} {
		if got := set.completed(); got != want {
			t.Errorf("%+v becomes %+v", set, got)
		}
	}
}

// TestManyDueAtOnce: jobs that are due at one moment run soon, though more of them are due than are made ready
// at once.
func TestManyDueAtOnce(t *testing.T) {
	w := newWorld(t)
	const some = 35
	w.putMany(some, true)
	w.do(func(tx kv.Tx) error {
		for i := range some {
			j, err := w.s.Jobs.Get(tx, jobstore.DocumentJobs(tuple.UUID{1})+fmt.Sprintf("r%03d", i))
			if err != nil {
				return err
			}
			j.Due = w.now.Add(time.Minute)
			if err := w.s.Jobs.Add(tx, j.ID, j.Schedule, j.Data); err != nil {
				return err
			}
		}
		return nil
	})
	d := w.start("n", func(c *Config) { c.Batches, c.PollInterval = tens, time.Hour })
	w.pass(50 * time.Second)
	early := len(d.running)
	if w.pass(20 * time.Second); early != 0 || len(d.running) != some {
		t.Errorf("%d of %d jobs run before they are due, %d soon after", early, some, len(d.running))
	}
}

// TestManyOfALiftedHold: jobs under a hold that was lifted run when a node has noticed and the time is over in
// which they come back, though they are more than are let go at once.
func TestManyOfALiftedHold(t *testing.T) {
	w := newWorld(t)
	const some = 35
	hold := jobstore.Hold{Database: "_replicator"}
	by := func(tx kv.Tx) jobstore.Operator { return jobstore.Operator{Store: w.s, Tx: tx, Now: w.now} }
	w.putMany(some, true)
	w.do(func(tx kv.Tx) error { _, err := by(tx).MakeHold(hold); return err })
	d := w.start("n", func(c *Config) { c.Batches, c.PollInterval = tens, time.Minute })
	w.pass(10 * time.Second)
	w.do(func(tx kv.Tx) error { _, err := by(tx).LiftHold(hold.ID()); return err })
	before := len(d.running)
	if w.pass(140 * time.Second); before != 0 || len(d.running) != some {
		t.Errorf("%d of %d jobs run under the hold, %d soon after", before, some, len(d.running))
	}
}

// TestManyUnreadable: jobs that cannot be read are left out one after the other, each in a moment, so that
// those behind them run soon.
func TestManyUnreadable(t *testing.T) {
	const odd = 25
	w := newWorld(t)
	w.putMany(odd+5, true)
	for i := range odd {
		w.damage(w.rowOf(fmt.Sprintf("r%03d", i)), []byte{0xff})
	}
	d := w.start("n", nil)
	if w.pass(2 * odd * firstPause); len(d.running) != 5 {
		t.Errorf("%d of 5 jobs run; %v", len(d.running), d.texts)
	}
}

// TestUnreadableAfterLostAnswer: the only job of an accept whose answer was lost cannot be read any more. Its
// slot is for the jobs behind it at once.
func TestUnreadableAfterLostAnswer(t *testing.T) {
	w := newWorld(t)
	d := w.start("n", func(c *Config) { c.MaxJobs, c.PollInterval, c.Interval = 1, time.Hour, time.Hour })
	w.pass(time.Second)
	d.hold = func(q Request) bool { _, is := q.(Accept); return is }
	w.putMany(3, true)
	w.pass(time.Second)
	taken := d.perform(d.held[0]).Result.(Accepted).Work[0].JobID
	w.damage(w.s.Keys.Jobs.Job.Pack(taken), []byte{0xff})
	d.hold = nil
	d.step(Done{ID: d.held[0].ID, Fault: StoreDown, Text: "commit_unknown_result"})
	if w.pass(30 * time.Second); len(d.running) != 1 {
		t.Errorf("%d jobs run; %v", len(d.running), d.texts)
	}
}
