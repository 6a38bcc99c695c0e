package node

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// TestDueBeforeTheNext: a job that another node has wait for a minute runs after that, though this node has seen before
// that no job was due for hours.
func TestDueBeforeTheNext(t *testing.T) {
	w := newWorld(t)
	waits := func(doc string, d time.Duration) {
		w.put(doc, fmt.Sprintf(`{"source":"http://h/%s","target":"http://h/x"}`, doc))
		w.do(func(tx kv.Tx) error {
			j, err := w.s.Jobs.Get(tx, jobstore.DocumentJobs(tuple.UUID{1})+doc)
			if err != nil {
				return err
			}
			j.Due = w.now.Add(d)
			return w.s.Jobs.Add(tx, j.ID, j.Schedule, j.Data)
		})
	}
	d := w.start("n", func(c *Config) { c.MaxJobs = 0 })
	waits("late", 6*time.Hour)
	w.pass(time.Minute)
	waits("soon", time.Minute)
	more := d.cfg.Settings
	more.MaxJobs = 1
	d.step(Configure{more})
	if w.pass(2 * time.Minute); w.state("soon") != jobstore.Running {
		t.Errorf("the job is %s", w.state("soon"))
	}
}

// TestPollAfterNotification: an accept that was made after a notification puts off the next poll.
func TestPollAfterNotification(t *testing.T) {
	w := newWorld(t)
	n := w.start("n", func(c *Config) { c.PollInterval = time.Minute })
	w.pass(30 * time.Second)
	accepts := 0
	n.hold = func(q Request) bool {
		if _, is := q.(Accept); is {
			accepts++
		}
		return false
	}
	for range 10 {
		n.step(Notified{Topic: ReadyJobs})
		w.pass(30 * time.Second)
	}
	if accepts != 10 {
		t.Errorf("%d accepts after 10 notifications", accepts)
	}
}
