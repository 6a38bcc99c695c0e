package node

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/kv"
)

// members reads the registry, by name.
func (w *world) members() map[string]Info {
	w.t.Helper()
	found := map[string]Info{}
	w.do(func(tx kv.Tx) error {
		list, err := Members(tx, w.s)
		clear(found)
		for _, m := range list {
			if _, twice := found[m.Info.Name]; twice {
				w.t.Errorf("two members are named %s", m.Info.Name)
			}
			found[m.Info.Name] = m.Info
		}
		return err
	})
	return found
}

func TestFrontendRunsNothing(t *testing.T) {
	w := newWorld(t)
	w.putMany(10, true)
	front := w.start("front", func(c *Config) { c.Roles = APIFrontend })
	w.pass(5 * time.Minute)
	if front.Running() != 0 || w.state("r000") != "pending" {
		t.Fatalf("%d runs, r000 is %s", front.Running(), w.state("r000"))
	}
	worker := w.start("worker", func(c *Config) { c.Roles = Replication })
	w.pass(10 * time.Second)
	if worker.Running() != 10 {
		t.Errorf("%d runs", worker.Running())
	}
	seen := w.members()
	f, k := seen["front"], seen["worker"]
	if f.Roles != APIFrontend || f.MaxJobs != 0 || f.Running != 0 || f.Status != Up || k.Roles != Replication ||
		k.MaxJobs != 500 || k.Running != 10 {
		t.Errorf("%+v", seen)
	}
	// A frontend watches over the others: nobody else is there to give the jobs back.
	worker.paused = true
	w.pass(w.handoverBound())
	if ready := w.ready(); ready != 10 || len(w.members()) != 1 || w.state("r000") != "pending" {
		t.Errorf("%d jobs are ready, r000 is %s, members %v", ready, w.state("r000"), w.members())
	}
	w.audit()
}

// ready is how many jobs wait for a slot.
func (w *world) ready() (n int64) {
	w.t.Helper()
	w.do(func(tx kv.Tx) error {
		counts, err := w.s.Jobs.Counts(tx)
		n = counts.Ready
		return err
	})
	return n
}

// handoverBound is how long the jobs of a killed node may stand still: the activity timeout after its last
// heartbeat as seen by another, which looks four times in it.
func (w *world) handoverBound() time.Duration {
	timeout := DefaultSettings().ActivityTimeout
	return timeout + timeout/beatsPerTimeout + time.Second
}

func TestKilledNodesJobsRunElsewhere(t *testing.T) {
	w := newWorld(t)
	w.putMany(30, true)
	a := w.start("a", nil)
	w.pass(time.Minute)
	b, c := w.start("b", nil), w.start("c", nil)
	w.pass(time.Minute)
	if a.Running() != 30 {
		t.Fatalf("%d runs", a.Running())
	}
	a.paused = true
	w.pass(w.handoverBound())
	if b.Running()+c.Running() != 30 {
		t.Errorf("%d and %d runs after %s", b.Running(), c.Running(), w.handoverBound())
	}
	if _, there := w.members()["a"]; there {
		t.Error("the dead node is still a member")
	}
	w.audit()
}

func TestMaintenanceHandsJobsOver(t *testing.T) {
	w := newWorld(t)
	w.putMany(20, true)
	a := w.start("a", nil)
	w.pass(time.Minute)
	b := w.start("b", nil)
	w.pass(time.Minute)
	s := DefaultSettings()
	s.Maintenance = true
	a.step(Configure{Settings: s})
	a.stopAll()
	w.pass(10 * time.Millisecond)
	if a.Running() != 0 || b.Running() != 20 {
		t.Errorf("%d and %d runs", a.Running(), b.Running())
	}
	if got := w.members()["a"].Status; got != InMaintenance {
		t.Errorf("status %s", got)
	}
	b.step(Drain{})
	b.stopAll()
	w.pass(5 * time.Minute)
	if a.Running() != 0 || !b.exited || w.ready() != 20 {
		t.Errorf("%d runs, b left: %v, %d jobs are ready", a.Running(), b.exited, w.ready())
	}
	a.step(Configure{Settings: DefaultSettings()})
	w.pass(10 * time.Millisecond)
	if a.Running() != 20 || w.members()["a"].Status != Up {
		t.Errorf("%d runs, %v", a.Running(), w.members())
	}
	w.audit()
}

// TestDrainInMaintenance: a node in maintenance that is to leave says so, as long as its runs stop.
func TestDrainInMaintenance(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	a := w.start("a", nil)
	s := DefaultSettings()
	s.Maintenance = true
	a.step(Configure{Settings: s})
	a.step(Drain{})
	if got := w.members()["a"].Status; a.exited || got != Draining {
		t.Errorf("status %s, left: %v", got, a.exited)
	}
}

// TestMaintenanceDuringAccept: what an accept under way brings goes back at once.
func TestMaintenanceDuringAccept(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", nil)
	a.hold = func(q Request) bool { _, is := q.(Accept); return is }
	w.put("r", `{"source":"http://h/a","target":"http://h/b"}`)
	w.pass(10 * time.Second)
	s := DefaultSettings()
	s.Maintenance = true
	a.step(Configure{Settings: s})
	a.hold = nil
	a.step(a.perform(a.held[0]))
	if len(a.running) > 0 || w.ready() != 1 {
		t.Errorf("%d runs, %d jobs are ready", len(a.running), w.ready())
	}
}

func TestDrainingIsSeenAndThenGone(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	a := w.start("a", nil)
	w.pass(time.Minute)
	a.step(Drain{})
	if got := w.members()["a"].Status; got != Draining {
		t.Errorf("status %s", got)
	}
	a.stopAll()
	w.pass(time.Second)
	if len(w.members()) != 0 {
		t.Errorf("%v", w.members())
	}
}

// TestDuplicateName: of two living nodes with one name the younger is renamed, and jobs that it accepts show
// the new name.
func TestDuplicateName(t *testing.T) {
	w := newWorld(t)
	older := w.start("n", nil)
	w.pass(time.Minute)
	younger := w.start("n", nil)
	w.pass(30 * time.Second)
	seen := w.members()
	if len(seen) != 2 || seen["n"].Started >= seen["n-1"].Started {
		t.Fatalf("members %v", seen)
	}
	if n := count(younger.notes, "duplicate_name"); n != 1 {
		t.Errorf("the younger says so %d times", n)
	}
	older.step(Drain{})
	w.pass(time.Second)
	w.put("r", `{"source":"http://h/a","target":"http://h/b","continuous":true}`)
	w.pass(younger.cfg.PollInterval) // the job may be in the part of the node that left
	if got := younger.running[younger.runOf("r")].Record.Node; got != "n-1" {
		t.Errorf("the job runs on %q", got)
	}
}

func count(notes []string, what string) (n int) {
	for _, note := range notes {
		if note == what {
			n++
		}
	}
	return n
}

// TestDuplicateNameUnseen: the node that is to keep its name does so while the other does not see yet that there are
// two of them: the older one or, of two that started at the same moment, that with the first worker's name.
func TestDuplicateNameUnseen(t *testing.T) {
	for _, between := range []time.Duration{0, time.Minute} {
		w := newWorld(t)
		keeps := w.start("n", nil)
		w.pass(between)
		other := w.start("n", nil)
		other.hold = func(q Request) bool { _, is := q.(ListLeases); return is }
		w.pass(time.Minute)
		if count(keeps.notes, "duplicate_name") != 0 {
			t.Errorf("%s between them: %v", between, keeps.texts)
		}
		keeps.hold, other.hold = other.hold, nil
		other.step(other.perform(other.held[0]))
		w.pass(time.Minute)
		if count(other.notes, "duplicate_name") != 1 {
			t.Errorf("%s between them: the other keeps its name, too", between)
		}
	}
}

// TestDuplicateNameOfSlowBeats: a node that looks at the others more often than they send heartbeats tells the namesake
// as well.
func TestDuplicateNameOfSlowBeats(t *testing.T) {
	w := newWorld(t)
	w.start("n", func(c *Config) { c.ActivityTimeout = time.Minute })
	w.pass(time.Minute)
	younger := w.start("n", func(c *Config) { c.ActivityTimeout = 10 * time.Second })
	w.pass(2 * time.Minute)
	if n := count(younger.notes, "duplicate_name"); n != 1 {
		t.Errorf("the younger says %d times that there are two", n)
	}
}

// TestNameOfAPredecessor: a node that was killed leaves a lease with its name, which is no other node's.
func TestNameOfAPredecessor(t *testing.T) {
	w := newWorld(t)
	old := w.start("n", nil)
	w.pass(time.Minute)
	// A heartbeat of its may land late, after the new one began to look.
	old.hold = func(q Request) bool { _, is := q.(Beat); return is }
	w.pass(10 * time.Second)
	old.paused = true
	young := w.start("n", nil)
	w.pass(10 * time.Second)
	old.perform(old.held[0])
	w.pass(time.Minute)
	if _, there := w.members()["n"]; !there || slices.Contains(young.notes, "duplicate_name") {
		t.Errorf("members %v, notes %v", w.members(), young.notes)
	}
}

// TestLongerTimeoutOfOthers: a monitor waits as long as the silent node's own timeout, when that is longer.
func TestLongerTimeoutOfOthers(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b","continuous":true}`)
	slow := w.start("slow", func(c *Config) { c.ActivityTimeout = 10 * time.Minute })
	w.pass(time.Second)
	hasty := w.start("hasty", func(c *Config) { c.ActivityTimeout = 2 * time.Second })
	w.pass(15 * time.Minute)
	if slow.Running() != 1 || hasty.Running() != 0 {
		t.Errorf("%d and %d runs", slow.Running(), hasty.Running())
	}
}

// TestRetriesTellThePresent: a join or heartbeat that is tried again says what is true by then.
func TestRetriesTellThePresent(t *testing.T) {
	w := newWorld(t)
	w.down = true
	n := w.start("n", nil)
	joins, beats := 0, 0
	n.hold = func(q Request) bool {
		var i Info
		switch q := q.(type) {
		case Join:
			i, joins = q.Info, joins+1
		case Beat:
			i, beats = q.Info, beats+1
		default:
			return false
		}
		if i.Seen != w.now || i.MaxJobs != n.cfg.MaxJobs {
			t.Errorf("at %s: %s says %+v", w.now, q, i)
		}
		return false
	}
	for range 2 { // it joins, and then it is a member
		s := n.cfg.Settings
		s.MaxJobs--
		w.pass(s.ActivityTimeout / 2)
		n.step(Configure{Settings: s})
		w.pass(s.ActivityTimeout / 5)
		w.down = false
		w.pass(s.ActivityTimeout)
		w.down = true
	}
	if joins < 2 || beats < 2 || n.epoch > 1 {
		t.Errorf("%d joins and %d heartbeats for %d leases", joins, beats, n.epoch)
	}
}

// TestSettingsWhileOthersAreTold: settings that change while a join or a heartbeat is in flight are written by the next
// one, which follows at once. The node keeps its lease.
func TestSettingsWhileOthersAreTold(t *testing.T) {
	w := newWorld(t)
	hold := func(q Request) bool {
		switch q.(type) {
		case Join, Beat:
			return true
		}
		return false
	}
	n := w.start("n", func(c *Config) { c.ActivityTimeout = 10 * time.Second })
	for n.hold = hold; len(n.held) == 0; {
		w.pass(time.Second)
	}
	other := w.start("other", nil)
	late := &driven{Node: New(Config{Settings: n.cfg.Settings, Name: "late", Roles: AllRoles, Worker: "late-2"}),
		w: w, hold: hold}
	w.nodes = append(w.nodes, late)
	late.step(Start{})
	for _, d := range []*driven{n, late} {
		s := d.cfg.Settings
		s.MaxJobs, s.ActivityTimeout = s.MaxJobs+1, 10*s.ActivityTimeout
		d.step(Configure{Settings: s})
		d.hold = nil
		d.step(d.perform(d.held[0]))
		if i := w.members()[d.cfg.Name]; i.MaxJobs != s.MaxJobs || i.ActivityTimeout != s.ActivityTimeout {
			t.Errorf("others see %+v", i)
		}
	}
	w.pass(time.Minute)
	if slices.Contains(n.notes, "lease_lost") || slices.Contains(late.notes, "lease_lost") ||
		slices.Contains(other.notes, "worker_silent") {
		t.Errorf("notes %v, %v and %v", n.notes, late.notes, other.notes)
	}
}

// TestTimeoutChangesWithoutLoss: a node whose activity timeout is lowered or raised keeps its lease, and goes by a
// longer one only when others know of it.
func TestTimeoutChangesWithoutLoss(t *testing.T) {
	w := newWorld(t)
	n := w.start("n", nil)
	other := w.start("other", nil)
	for _, timeout := range []time.Duration{2 * time.Second, time.Minute, 3 * time.Second, 20 * time.Second} {
		s := DefaultSettings()
		s.ActivityTimeout = timeout
		n.step(Configure{Settings: s})
		w.pass(3 * time.Minute)
	}
	if slices.Contains(n.notes, "lease_lost") || slices.Contains(other.notes, "worker_silent") {
		t.Errorf("notes %v and %v", n.notes, other.notes)
	}
	n.hold = func(q Request) bool { _, is := q.(Beat); return is }
	s := DefaultSettings()
	s.ActivityTimeout = time.Hour
	n.step(Configure{Settings: s})
	w.pass(DefaultSettings().ActivityTimeout)
	if !slices.Contains(n.notes, "lease_lost") {
		t.Error("the node relies on a timeout that nobody was told of")
	}
	late := &driven{Node: New(Config{Settings: DefaultSettings(), Name: "late", Roles: AllRoles, Worker: "late"}), w: w}
	late.hold = func(Request) bool { return true }
	w.nodes = append(w.nodes, late)
	late.step(Start{})
	late.step(Configure{Settings: s}) // while it joins
	late.step(late.perform(late.held[0]))
	w.pass(DefaultSettings().ActivityTimeout)
	if !slices.Contains(late.notes, "lease_lost") {
		t.Error("the node relies on a timeout that its join did not tell")
	}
}

func TestRoles(t *testing.T) {
	raw, err := json.Marshal(AllRoles)
	if err != nil || string(raw) != `["api_frontend","replication"]` {
		t.Errorf("%s, %v", raw, err)
	}
	var r Roles
	if err := json.Unmarshal([]byte(`["replication","oracle"]`), &r); err != nil || r != Replication {
		t.Errorf("%v, %v", r, err)
	}
	if err := json.Unmarshal([]byte(`"replication"`), &r); err == nil || r != Replication {
		t.Errorf("a text counts as %v, %v", r, err)
	}
	if _, err := ParseRole("cook"); err == nil ||
		fmt.Sprint(err) != "no such role; known are api_frontend, replication" {
		t.Error(err)
	}
}

// TestForeignInfo: a lease whose info cannot be read is watched like any other.
func TestForeignInfo(t *testing.T) {
	w := newWorld(t)
	w.do(func(tx kv.Tx) error { return w.s.Jobs.Register(tx, "alien", []byte("?")) })
	w.start("n", nil)
	if _, there := w.members()["alien"]; !there {
		t.Errorf("members %v", w.members())
	}
	w.pass(w.handoverBound())
	if len(w.members()) != 1 {
		t.Errorf("members %v", w.members())
	}
}

// TestOwnOldLeaseIsNoNamesake: after a lease was lost, late heartbeats of it do not rename the node.
func TestOwnOldLeaseIsNoNamesake(t *testing.T) {
	w := newWorld(t)
	n := w.start("n", nil)
	w.pass(time.Minute)
	n.hold = func(q Request) bool { // no heartbeat gets through, and no end of the old lease
		switch q := q.(type) {
		case Beat:
			return q.Worker == "n-0"
		case Expire:
			return true
		}
		return false
	}
	for n.worker == "n-0" { // until the node joins anew
		w.pass(5 * time.Second)
	}
	old := Beat{Worker: "n-0", Info: n.info()}
	old.Info.Started-- // as if it had begun earlier
	for range 4 {
		n.perform(Ask{Request: old})
		w.pass(5 * time.Second)
	}
	if n.worker != "n-0-2" || slices.Contains(n.notes, "duplicate_name") {
		t.Errorf("worker %s, notes %v", n.worker, n.notes)
	}
}

// TestWindowOfAcceptors: nodes choose among the first jobs only while several take jobs, frontends and those in
// maintenance not counted.
func TestWindowOfAcceptors(t *testing.T) {
	w := newWorld(t)
	window := -1
	a := w.start("a", func(c *Config) { c.MaxJobs = 1 })
	a.hold = func(q Request) bool {
		if q, is := q.(Accept); is {
			window = q.Demand.Window
		}
		return false
	}
	look := func() int {
		w.pass(time.Minute)
		window = -1
		w.pass(10 * time.Second)
		return window
	}
	w.start("front", func(c *Config) { c.Roles = APIFrontend })
	if got := look(); got != 0 {
		t.Errorf("beside a frontend the window is %d", got)
	}
	b := w.start("b", nil)
	if got := look(); got != acceptWindow {
		t.Errorf("beside another worker the window is %d", got)
	}
	s := DefaultSettings()
	s.Maintenance = true
	b.step(Configure{Settings: s})
	if got := look(); got != 0 {
		t.Errorf("beside one in maintenance the window is %d", got)
	}
}

// TestMembersBeingGivenAway: a node whose jobs are being given to others is told so until all are.
func TestMembersBeingGivenAway(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	n := w.start("n", nil)
	w.pass(5 * time.Second)
	for _, expired := range []bool{false, true, true} {
		w.do(func(tx kv.Tx) error {
			list, err := Members(tx, w.s)
			if len(list) != 1 || list[0].Worker != n.cfg.Worker || list[0].Expired != expired {
				t.Errorf("members %+v, want one with Expired %v", list, expired)
			}
			if err == nil {
				_, err = w.s.Jobs.Expire(tx, n.cfg.Worker, nil, 1)
			}
			return err
		})
	}
}
