package workload

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestCheck: each rule of the fields has an error that names field, value and rule.
func TestCheck(t *testing.T) {
	right := func() *Workload {
		job := Job{ID: "a", Submit: time.Minute, Remove: time.Hour, Speed: 1, Every: time.Hour, Burst: time.Hour,
			Phase: time.Minute}
		second := job
		second.ID, second.Submit = "b", 2*time.Minute
		return &Workload{
			Accounts: []Account{{"_replicator", 1}, {"user:", 1000}},
			Jobs:     []Job{job, second},
			Changes:  []Change{{0, 0, 1}, {time.Minute, 1, 1000}},
			Outages:  []Outage{{5, time.Hour, 2 * time.Hour}, {0, 0, 1}},
		}
	}
	if err := right().Check(); err != nil {
		t.Fatal(err)
	}
	if err := (&Workload{}).Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spoil func(w *Workload)
		want  string
	}{
		{func(w *Workload) { w.Accounts[0].Name = "db" },
			`account 0 ("db"): the name must be that of a replicator database`},
		{func(w *Workload) { w.Accounts[1].Name = "user:\n" },
			`account 1 ("user:\n"): the name must be UTF-8 without control`},
		{func(w *Workload) { w.Accounts[1].Name = "user:\xff" }, `account 1 ("user:\xff"): the name must be UTF-8`},
		{func(w *Workload) { w.Accounts[1].Name = "_replicator" },
			`account 1 ("_replicator"): another account has this name`},
		{func(w *Workload) { w.Accounts[0].Shares = 0 },
			`account 0 ("_replicator"): shares are 0, and must be from 1 to 1000`},
		{func(w *Workload) { w.Jobs[0].ID = "" }, `job 0 (""): id is empty`},
		{func(w *Workload) { w.Jobs[0].ID = strings.Repeat("x", 1001) }, `job 0 (`},
		{func(w *Workload) { w.Jobs[1].ID = "a" }, `job 1 ("a"): another job has this id`},
		{func(w *Workload) { w.Jobs[1].Account = 2 }, `job 1 ("b"): account is 2, and there are 2, from 0`},
		{func(w *Workload) { w.Jobs[1].Account = -1 }, `job 1 ("b"): account is -1`},
		{func(w *Workload) { w.Jobs[1].Server = -1 }, `job 1 ("b"): server is -1, and must be from 0 to 999999`},
		{func(w *Workload) { w.Jobs[1].Server = 1_000_000 }, `job 1 ("b"): server is 1000000`},
		{func(w *Workload) { w.Jobs[0].Submit = -1 }, `job 0 ("a"): submit is -1ns, and must be from 0s to 10 years`},
		{func(w *Workload) { w.Jobs[1].Submit = 0 },
			`job 1 ("b"): is submitted at 0s, before the one ahead of it (1m0s)`},
		{func(w *Workload) { w.Jobs[0].Remove = time.Minute },
			`job 0 ("a"): remove is 1m0s, and must be after submit (1m0s)`},
		{func(w *Workload) { w.Jobs[0].Remove = -1 }, `job 0 ("a"): remove is -1ns`},
		{func(w *Workload) { w.Jobs[0].Startup = -1 }, `job 0 ("a"): startup is -1ns`},
		{func(w *Workload) { w.Jobs[0].MTBF = math.MaxInt64 }, `job 0 ("a"): mtbf is `},
		{func(w *Workload) { w.Jobs[0].Backlog = math.NaN() },
			`job 0 ("a"): backlog is NaN, and must be a number from 0`},
		{func(w *Workload) { w.Jobs[0].Rate = math.Inf(1) }, `job 0 ("a"): rate is +Inf`},
		{func(w *Workload) { w.Jobs[0].Rate = math.Copysign(0, -1) }, `job 0 ("a"): rate is -0`},
		{func(w *Workload) { w.Jobs[0].Speed = -1 }, `job 0 ("a"): speed is -1`},
		{func(w *Workload) { w.Jobs[0].Speed = 0 }, `job 0 ("a"): speed is 0, and must be above 0`},
		{func(w *Workload) { w.Jobs[0].Every = -1 }, `job 0 ("a"): every is -1ns`},
		{func(w *Workload) { w.Jobs[0].Every = 0 },
			`job 0 ("a"): burst is 1h0m0s and phase 1m0s, and must be 0 as every is`},
		{func(w *Workload) { w.Jobs[0].Burst = 0 }, `job 0 ("a"): burst is 0s, and must be above 0`},
		{func(w *Workload) { w.Jobs[0].Burst = time.Hour + 1 },
			`job 0 ("a"): burst is 1h0m0.000000001s, and must be`},
		{func(w *Workload) { w.Jobs[0].Phase = time.Hour },
			`job 0 ("a"): phase is 1h0m0s, and must be from 0 and less than`},
		{func(w *Workload) { w.Jobs[0].Phase = -1 }, `job 0 ("a"): phase is -1ns`},
		{func(w *Workload) { w.Changes[1].At = -1 }, `change 1: at is -1ns`},
		{func(w *Workload) { w.Changes[0].At = time.Hour },
			`change 1: comes at 1m0s, before the one ahead of it (1h0m0s)`},
		{func(w *Workload) { w.Changes[0].Account = 2 }, `change 0: account is 2`},
		{func(w *Workload) { w.Changes[0].Shares = 1001 }, `change 0: shares are 1001`},
		{func(w *Workload) { w.Outages[0].Server = -1 }, `outage 0: server is -1`},
		{func(w *Workload) { w.Outages[1].From = -1 }, `outage 1: from is -1ns`},
		{func(w *Workload) { w.Outages[0].To = time.Hour },
			`outage 0: to is 1h0m0s, and must be after from (1h0m0s)`},
	} {
		w := right()
		c.spoil(w)
		if err := w.Check(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
