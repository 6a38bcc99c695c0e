package follow_test

import (
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/instant"
)

// TestFirstBeat: a worker that has just joined is known to live, and beats when a quarter of the time is over in which
// others wait for it, but looks for jobs at once.
func TestFirstBeat(t *testing.T) {
	w := newWorld(t)
	beats, accepts := 0, 0
	w.done = func(q follow.Request) bool {
		switch q.(type) {
		case follow.Beat:
			beats++
		case follow.Accept:
			accepts++
		}
		return false
	}
	w.start()
	w.settle(time.Second)
	if beats > 0 || accepts == 0 {
		t.Errorf("%d heartbeats and %d looks for jobs in the first second", beats, accepts)
	}
	w.settle(follow.ActivityTimeout / 2)
	if beats == 0 {
		t.Error("no heartbeat in time")
	}
}

// TestNothingToFollow: a worker without followed databases takes no lease, and asks for nothing.
func TestNothingToFollow(t *testing.T) {
	w := follow.New(follow.Config{Worker: "w", Pages: follow.DefaultPages()})
	for second := range 60 {
		now := instant.Time(0).Add(time.Duration(second) * time.Second)
		if effects := w.Step(now, follow.Wake{}); len(effects) > 0 {
			t.Fatalf("it asks for %v", effects)
		}
	}
}

// TestPatience: a worker asks a store that does not answer again within a second, and ever more seldom, but at least
// each ten seconds. Its lease begins with the request that is answered, and not with the first one.
func TestPatience(t *testing.T) {
	w := newWorld(t)
	var asked []instant.Time
	w.done = func(q follow.Request) bool {
		if _, is := q.(follow.Join); is {
			asked = append(asked, w.now)
		}
		return true
	}
	k := w.start()
	w.settle(2 * time.Minute)
	for i := range asked[1:] {
		pause := asked[i+1].Sub(asked[i])
		most := min(1250*time.Millisecond<<i, 10250*time.Millisecond)
		if pause > most || i >= 6 && pause < 7*time.Second {
			t.Errorf("pause %d is %s", i, pause)
		}
	}
	if len(asked) < 12 {
		t.Errorf("asked %d times", len(asked))
	}
	w.done = nil
	w.settle(15 * time.Second)
	if len(k.open) != 1 || leasesLost(k) > 0 {
		t.Errorf("the runs are %v, and operators are told %v", k.open, k.notes)
	}
}

// TestLateAnswerOfBeat: a lease lasts from the moment when its last heartbeat was sent, however late the answer came:
// others have seen it since.
func TestLateAnswerOfBeat(t *testing.T) {
	w := follow.New(follow.Config{Worker: "w", Pages: follow.DefaultPages()})
	now, sent, lost := instant.Time(0), instant.Time(0), false
	step := func(ev follow.Event) (beat uint64) {
		for _, e := range w.Step(now, ev) {
			switch e := e.(type) {
			case follow.Ask:
				if _, is := e.Request.(follow.Beat); is && sent == 0 {
					beat, sent = e.ID, now
				} else if _, is := e.Request.(follow.Join); is && !lost {
					w.Step(now, follow.Answer{ID: e.ID, Result: follow.Done{}})
				}
			case follow.Note:
				lost = lost || e.What == "follow_lease_lost"
			}
		}
		return beat
	}
	beat := step(follow.Configure{Jobs: []string{"a"}})
	for beat == 0 {
		now = w.Deadline()
		beat = step(follow.Wake{})
	}
	now = sent.Add(follow.ActivityTimeout - 10*time.Second)
	step(follow.Answer{ID: beat, Result: follow.Done{}})
	for ends := sent.Add(follow.ActivityTimeout); now < ends && !lost; step(follow.Wake{}) {
		now = min(max(w.Deadline(), now+1), ends)
	}
	if !lost {
		t.Error("the lease lasts for longer than others wait")
	}
}
