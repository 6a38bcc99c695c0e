package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// TestOutageIsNobodysSilence: after an outage of the store, be it short or long, no node takes one that lives for
// silent, and the jobs run again as soon as the store answers.
func TestOutageIsNobodysSilence(t *testing.T) {
	for _, lasts := range []time.Duration{15 * time.Second, 30 * time.Second, 5 * time.Minute} {
		w := newWorld(t)
		w.putMany(12, true)
		nodes := []*driven{w.start("a", nil), w.start("b", nil), w.start("c", nil)}
		w.pass(time.Minute)
		w.down = true
		w.pass(lasts)
		w.down = false
		w.pass(11 * time.Second) // the longest pause between two attempts, and a second
		running := 0
		for _, n := range nodes {
			running += n.Running()
		}
		if running != 12 {
			t.Errorf("%d jobs run after an outage of %s", running, lasts)
		}
		w.pass(5 * time.Minute)
		for _, n := range nodes {
			if slices.Contains(n.notes, "worker_silent") {
				t.Errorf("after an outage of %s %s takes another for silent", lasts, n.name)
			}
		}
		if got := len(w.members()); got != 3 {
			t.Errorf("%d members after an outage of %s", got, lasts)
		}
		w.audit()
	}
}

// TestStoreThatAnswersNowAndThen: a worker that is dead is found out though hours of its silence cannot be seen.
func TestStoreThatAnswersNowAndThen(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	dead := w.start("dead", nil)
	w.pass(time.Second)
	w.start("watcher", nil)
	w.pass(time.Second)
	dead.paused = true
	looks := 0
	for ; len(w.members()) == 2 || w.members()["dead"].Name != ""; looks++ {
		if looks > 10 {
			t.Fatal("the dead worker is never given up")
		}
		w.down = true
		w.pass(time.Hour)
		w.down = false
		w.pass(11 * time.Second)
	}
	if looks < 2 {
		t.Errorf("%d looks at a worker, and it is given up", looks)
	}
	w.audit()
}

// TestOwnPastAtOnce: a node that lost its lease gives its jobs back when it joins again, also those that an accept
// of the old name took unheard, and runs them; what comes later under the old name takes nothing.
func TestOwnPastAtOnce(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n", func(c *Config) { c.MaxJobs = 10 })
	w.put("late", `{"source":"http://h/a","target":"http://h/b","continuous":true}`)
	n.hold = func(q Request) bool {
		switch q := q.(type) {
		case Accept:
			return q.Worker == "n-0"
		case Beat:
			return q.Worker == "n-0"
		}
		return false
	}
	w.pass(10 * time.Millisecond)
	accept := n.held[0]
	n.perform(accept) // it commits, and the node never hears of that
	for n.worker == "n-0" {
		w.pass(time.Second)
	}
	w.pass(time.Second)
	if n.worker != "n-0-2" || n.Running() != 3 || slices.Contains(n.notes, "worker_silent") {
		t.Errorf("%s runs %d jobs; %v", n.worker, n.Running(), n.notes)
	}
	w.put("later", `{"source":"http://h/c","target":"http://h/d","continuous":true}`)
	old := accept.Request.(Accept)
	old.Demand = jobs.Demand{Batch: 7, Max: 1}
	if done := n.perform(Ask{Request: old}); done.Fault != LeaseLost {
		t.Errorf("an accept of the old name: %s", done)
	}
	w.do(func(tx kv.Tx) error {
		held, err := w.s.Jobs.Owned(tx, "n-0")
		if len(held) > 0 {
			t.Errorf("the old name holds %v", held)
		}
		return err
	})
	w.audit()
}

// TestLogOfOutage: an outage is told once, whatever fails, and its end once; a lease that was lost is a warning.
func TestLogOfOutage(t *testing.T) {
	w := newWorld(t)
	w.putMany(2, true)
	n := w.start("n", nil)
	w.pass(time.Minute)
	for range 2 {
		n.notes, n.texts = nil, nil
		w.down = true
		n.endRun(n.runOf("r000"), replication.Completed)
		w.pass(5 * time.Minute)
		w.down = false
		w.pass(time.Minute)
		want := []string{"completed", "store_error", "lease_lost", "store_back", "lease"}
		if !slices.Equal(slices.Sorted(slices.Values(n.notes)), slices.Sorted(slices.Values(want))) {
			t.Errorf("notes %v, want %v in any order", n.notes, want)
		}
		if want := "record of a job's completion: down; it is tried again until it gets through"; n.texts[1] != want {
			t.Errorf("%q, want %q", n.texts[1], want)
		}
	}
	for what, warns := range map[string]bool{
		"store_error": true, "lease_lost": true, "worker_silent": true, "failed": true,
		"store_back": false, "lease": false, "crashed": false,
	} {
		if got := (Note{What: what}).Warns(); got != warns {
			t.Errorf("%s warns: %v", what, got)
		}
	}
}

// TestOthersKnowTheNumber: the registry has the number of running jobs within about a second, by few heartbeats.
func TestOthersKnowTheNumber(t *testing.T) {
	w := newWorld(t)
	n := w.start("n", nil)
	beats := 0
	n.hold = func(q Request) bool {
		if _, is := q.(Beat); is {
			beats++
		}
		return false
	}
	w.pass(2 * time.Second)
	w.putMany(30, true)
	w.pass(toldPause)
	if got := w.members()["n"].Running; got != 30 {
		t.Errorf("others see %d of 30 running jobs", got)
	}
	w.pass(20 * time.Second)
	beats = 0
	for i := range 30 { // one after the other, in three seconds
		n.endRun(n.runOf(fmt.Sprintf("r%03d", i)), replication.Completed)
		w.pass(100 * time.Millisecond)
	}
	w.pass(toldPause)
	if got := w.members()["n"].Running; got != 0 || beats > 6 {
		t.Errorf("others see %d running jobs, after %d heartbeats", got, beats)
	}
}

// TestGoneIsListed: a node that others gave up is listed for an hour, with what it was last and who gave it up, and
// not while another one has its name; one that left in order is not.
func TestGoneIsListed(t *testing.T) {
	w := newWorld(t)
	listed := func() (list []Gone) {
		w.do(func(tx kv.Tx) error {
			members, err := Members(tx, w.s)
			if err == nil {
				list, err = Departed(tx, w.s, members)
			}
			return err
		})
		return list
	}
	w.putMany(3, true)
	dead := w.start("dead", nil)
	w.pass(5 * time.Second)
	watcher := w.start("watcher", nil)
	left := w.start("left", nil)
	left.step(Drain{})
	w.pass(5 * time.Second)
	dead.paused = true
	seen := w.members()["dead"].Seen
	w.pass(w.handoverBound())
	list := listed()
	if len(list) != 1 || list[0].Info.Name != "dead" || list[0].Info.Running != 3 || list[0].Info.Seen < seen ||
		list[0].By != "watcher" || w.now.Sub(list[0].At) > 10*time.Second {
		t.Fatalf("gone are %+v", list)
	}
	heir := w.start("dead", nil)
	w.pass(time.Second)
	if list := listed(); len(list) != 0 {
		t.Errorf("gone are %+v, and a node of that name lives", list)
	}
	heir.step(Drain{})
	heir.stopAll()
	w.pass(goneFor - time.Minute)
	if len(listed()) != 1 {
		t.Error("forgotten too early")
	}
	w.pass(3 * time.Minute)
	w.do(func(tx kv.Tx) error {
		rows, err := tx.GetRange(w.s.Keys.Jobs.Gone.Range(), kv.RangeOptions{})
		if len(rows) != 0 {
			t.Errorf("%d rows are left", len(rows))
		}
		return err
	})
	if watcher.lease != live {
		t.Error("the watcher has no lease")
	}
}

// TestGoneIsNotedOnce: a node is listed as the one that gave it up has said, though others take part in giving its jobs
// back; and it is not listed for a heartbeat that another one has followed.
func TestGoneIsNotedOnce(t *testing.T) {
	w := newWorld(t)
	w.putMany(3, true)
	w.start("dead", nil).paused = true
	var dead Member
	w.do(func(tx kv.Tx) error {
		members, err := Members(tx, w.s)
		dead = members[0]
		return err
	})
	for _, c := range []struct {
		by   string
		beat [10]byte
		want string
	}{{"hasty", [10]byte{1}, ""}, {"first", dead.Beat, "first"}, {"second", dead.Beat, "first"}} {
		q := Expire{Worker: dead.Worker, Beat: &c.beat, Limit: 1, By: c.by}
		w.do(func(tx kv.Tx) error { _, err := Perform(tx, w.s, q, w.now); return err })
		w.do(func(tx kv.Tx) error {
			list, err := Departed(tx, w.s, nil)
			if by := append(list, Gone{})[0].By; by != c.want {
				t.Errorf("after %s, it was given up by %q", c.by, by)
			}
			return err
		})
	}
}

// TestGoneByAWrongClock: a node that was given up by one whose clock was ahead is not listed until that time has come.
// A row that this release cannot read stays until the next sweep.
func TestGoneByAWrongClock(t *testing.T) {
	w := newWorld(t)
	dead, watcher := w.start("dead", nil), w.start("watcher", nil)
	w.pass(5 * time.Second)
	dead.paused, watcher.skew = true, 24*time.Hour
	w.pass(w.handoverBound())
	rows := func() (n int) {
		w.do(func(tx kv.Tx) error {
			list, err := tx.GetRange(w.s.Keys.Jobs.Gone.Range(), kv.RangeOptions{})
			n = len(list)
			return err
		})
		return n
	}
	if rows() != 1 {
		t.Fatal("no node is listed as gone")
	}
	w.do(func(tx kv.Tx) error {
		tx.Set(w.s.Keys.Jobs.Gone.Pack("other"), []byte("of another release"))
		return nil
	})
	watcher.skew = 0
	w.pass(goneFor + 2*sweepInterval)
	if n := rows(); n != 0 {
		t.Errorf("%d are listed though an hour has passed", n)
	}
}

// TestRequestsWithoutLease: a worker that has no lease is told so, whatever it asks for itself.
func TestRequestsWithoutLease(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	for _, q := range []Request{
		Beat{Worker: "none"}, ListOwned{Worker: "none"},
		Accept{Worker: "none", Node: "n", Demand: jobs.Demand{Batch: 1, Max: 1}},
	} {
		if done := n.perform(Ask{Request: q}); done.Fault != LeaseLost {
			t.Errorf("%s: %s", q, done)
		}
	}
}

// TestStoreIsBack: the log says that the store is back once all requests that had failed have got through, and not when
// the first one has. It does not wait for one that has not failed.
func TestStoreIsBack(t *testing.T) {
	w := newWorld(t)
	n := w.start("n", nil)
	n.hold = func(q Request) bool { _, is := q.(Promote); return is }
	w.pass(time.Minute)
	if n.held = nil; !asking[Promote](n.Node) {
		t.Fatal("nothing is under way")
	}
	n.hold = func(q Request) bool { _, is := q.(ListLeases); return is }
	w.pass(time.Minute)
	n.step(Done{ID: n.held[0].ID, Fault: StoreDown, Text: "down"})
	w.pass(time.Minute) // in which heartbeats get through
	if got := count(n.notes, "store_error"); got != 1 || slices.Contains(n.notes, "store_back") {
		t.Errorf("notes %v", n.notes)
	}
	n.step(n.perform(n.held[1]))
	if !slices.Contains(n.notes, "store_back") {
		t.Errorf("notes %v", n.notes)
	}
}

// TestJobsOfLeavingNode: a node that retires takes no job back that it did not know of. Retiring gives it to others.
func TestJobsOfLeavingNode(t *testing.T) {
	w := newWorld(t)
	n := w.start("n1", nil)
	n.hold = func(q Request) bool { _, is := q.(ListOwned); return is }
	n.step(Notified{Topic: WorkerCalls})
	n.hold = func(q Request) bool { _, is := q.(Retire); return is }
	n.step(Drain{})
	if len(n.held) != 2 {
		t.Fatalf("held are %v", n.held)
	}
	n.hold = func(q Request) bool { _, is := q.(Resume); return is }
	n.step(Done{ID: n.held[0].ID, Result: Owned{Jobs: []jobs.Held{{ID: "unknown"}}}})
	if len(n.held) != 2 {
		t.Errorf("asked %v", n.held[2].Request)
	}
}

// TestSeveralVanish: the jobs of all workers that are gone are given back by one look, each worker's once.
func TestSeveralVanish(t *testing.T) {
	n := New(Config{Settings: DefaultSettings(), Exclusive: true, Worker: "w"})
	gone := Leases{List: []Member{{Worker: "a"}, {Worker: "b"}}}
	var expired []string
	look := func(ev Event) (looks []uint64) {
		now := n.clock
		now.Steady = now.Steady.Add(n.cfg.beatInterval())
		for _, e := range n.Step(now, ev) {
			if a, is := e.(Ask); is {
				switch q := a.Request.(type) {
				case ListLeases:
					looks = append(looks, a.ID)
				case Expire:
					expired = append(expired, q.Worker)
				}
			}
		}
		return looks
	}
	for looks := look(Start{}); len(looks) > 0; looks = looks[1:] {
		look(Done{ID: looks[0], Result: gone})
	}
	for _, id := range look(Wake{}) {
		look(Done{ID: id, Result: gone})
	}
	if !slices.Equal(expired, []string{"a", "b"}) {
		t.Errorf("given back are the jobs of %v", expired)
	}
}

// TestPaceOfHeartbeats: a node whose store takes a moment for each answer sends a heartbeat every quarter of the
// timeout or somewhat sooner, and none at once for what changes all the time.
func TestPaceOfHeartbeats(t *testing.T) {
	n := New(Config{Settings: DefaultSettings(), Exclusive: true, Worker: "w"})
	beats, answers := 0, []Done{}
	step := func(ev Event) {
		now := n.clock
		now.Steady, now.Wall = now.Steady.Add(50*time.Millisecond), now.Wall.Add(50*time.Millisecond)
		for _, e := range n.Step(now, ev) {
			if a, is := e.(Ask); is {
				switch a.Request.(type) {
				case Join:
					answers = append(answers, Done{ID: a.ID, Result: Ok{}})
				case Beat:
					beats++
					answers = append(answers, Done{ID: a.ID, Result: Beaten{}})
				}
			}
		}
	}
	start := n.clock.Steady
	for step(Start{}); n.clock.Steady < start.Add(time.Minute); step(Wake{}) {
		if len(answers) > 0 {
			answer := answers[0]
			answers = answers[1:]
			step(answer)
		}
	}
	if beats < 11 || beats > 17 {
		t.Errorf("%d heartbeats in a minute", beats)
	}
}

// TestLongerTimeoutUntold: a heartbeat that was under way when the activity timeout was raised has told others of the
// shorter one. If no later one gets through, the lease ends by that.
func TestLongerTimeoutUntold(t *testing.T) {
	w := newWorld(t)
	n := w.start("n", func(c *Config) { c.ActivityTimeout = 10 * time.Second })
	n.hold = func(q Request) bool { _, is := q.(Beat); return is }
	for len(n.held) == 0 {
		w.pass(time.Second)
	}
	s := n.cfg.Settings
	s.ActivityTimeout = 10 * s.ActivityTimeout
	n.step(Configure{Settings: s})
	n.step(n.perform(n.held[0]))
	if w.pass(11 * time.Second); !slices.Contains(n.notes, "lease_lost") {
		t.Errorf("after 11 seconds without a heartbeat it has its lease: %v", n.notes)
	}
}
