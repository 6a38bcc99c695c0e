package main

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/adapters/config"
	"couchrelay/core/forecast"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// TestForecast: the log tells at the start what will become of the jobs in the store, and again when the
// configuration is read again.
func TestForecast(t *testing.T) {
	r := newRig(t)
	r.await("the first forecast", func() bool { return strings.Contains(r.log.String(), "0 jobs for 500 slots") })
	r.fill(1)
	for i := range 6 {
		r.want(201, "PUT", fmt.Sprint("_replicator/r", i), r.body(fmt.Sprintf(`,"continuous":true,"since_seq":%d`, i)))
	}
	r.stop()
	c := config.Default()
	c.Node.MaxJobs = 2
	c.Node.MaxChurn = 0
	r.start(c)
	r.await("a forecast of six jobs", func() bool {
		return strings.Contains(r.log.String(), "level=WARN msg=forecast finding=turns key=max_churn value=0 "+
			`detail="4 jobs wait for as long as the others run: none gives way." better="max_churn = 1: `)
	})
}

// TestForecastAgain: a configuration that is read again is told of again. A frontend tells nothing.
func TestForecastAgain(t *testing.T) {
	f := newFleet(t)
	n := f.join("a", func(c *config.Config) {})
	told := func() int { return strings.Count(f.log.String(), "msg=forecast") }
	n.svc.mu.Lock()
	again := n.svc.config
	n.svc.mu.Unlock()
	if err := n.svc.configure(t.Context(), again); err != nil || told() != 1 {
		t.Errorf("%v: %d forecasts", err, told())
	}
	again.Roles = 0
	n.svc.forecast(t.Context(), again)
	if told() != 1 {
		t.Error("a node that runs no jobs tells of them")
	}
}

// TestAccountsOf: jobs of accounts that were not read are those of accounts with the mean, and of one if none was read.
func TestAccountsOf(t *testing.T) {
	for want, list := range map[string][]jobstore.Demand{
		"[{(others) 7}]": nil,
		"[{a 1} {b 3} {(others) 2} {(others) 1}]": {{Account: "a", Jobs: 1}, {Account: "b", Jobs: 3}},
		"[{a 8}]": {{Account: "a", Jobs: 8}}, // one came meanwhile
	} {
		if got := fmt.Sprint(accountsOf(list, 7)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestQueueIn: accounts that are not read are there all the same, and other nodes count.
func TestQueueIn(t *testing.T) {
	f := newFleet(t)
	n := f.join("a", func(*config.Config) {})
	f.join("b", func(*config.Config) {})
	f.fill(1)
	f.putJobs(4)
	f.await("both nodes", func() bool { return len(f.members()) == 2 })
	q, err := kv.Run(t.Context(), n.svc.db, func(tx kv.Tx) (forecast.Queue, error) {
		return queueIn(tx.Snapshot(), n.svc.store, "a")
	})
	if err != nil || q.Nodes != 2 || fmt.Sprint(q.Accounts) != "[{_replicator 4}]" {
		t.Errorf("%+v, %v", q, err)
	}
}
