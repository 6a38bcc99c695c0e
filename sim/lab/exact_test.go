package lab

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/workload"

	"pgregory.net/rapid"
)

// both asks two queues and compares what they answer.
type both struct {
	model *Model
	exact *Exact
	beats map[string][10]byte // those of the exact queue, by worker and the model's beat

	signals int // that were asked for
}

func (b *both) Perform(q node.Request, now instant.Time) (node.Result, error) {
	mine := q
	if e, is := q.(node.Expire); is && e.Beat != nil {
		beat := b.beats[beatKey(e.Worker, *e.Beat)]
		e.Beat = &beat
		mine = e
	}
	want, errWant := b.exact.Perform(mine, now)
	got, errGot := b.model.Perform(q, now)
	if node.OutcomeOf(errWant) != node.OutcomeOf(errGot) {
		return nil, fmt.Errorf("%s: queue says %v, model %v", q, errWant, errGot)
	}
	if x, y := digest(want), digest(got); x != y {
		return nil, fmt.Errorf("at %s %s:\nqueue answers %s\nmodel answers %s", now, q, x, y)
	}
	if l, is := got.(node.Leases); is {
		for i, m := range want.(node.Leases).List {
			b.beats[beatKey(m.Worker, l.List[i].Beat)] = m.Beat
		}
	}
	return got, errGot
}

func beatKey(worker string, beat [10]byte) string { return fmt.Sprintf("%s %x", worker, beat) }

// digest is what a node acts on in an answer. Beats are compared for change only.
func digest(r node.Result) string {
	switch r := r.(type) {
	case node.Accepted:
		s := fmt.Sprint(r.Signal, r.Left)
		for _, w := range r.Work {
			s += fmt.Sprintf(" %s %v %v %d", w.JobID, w.Lock, w.Place, w.Lost)
			s += fmt.Sprintf(" %t %s", w.Replication.Continuous, w.Record.Account())
		}
		return s
	case node.Leases:
		s := ""
		for _, m := range r.List {
			s += fmt.Sprintf(" %s %t %+v", m.Worker, m.Expired, m.Info)
		}
		return s
	}
	return fmt.Sprintf("%+v", r)
}

func (b *both) Submit(job int, now instant.Time) error {
	return cmp.Or(b.exact.Submit(job, now), b.model.Submit(job, now))
}

func (b *both) Remove(job int, now instant.Time) error {
	return cmp.Or(b.exact.Remove(job, now), b.model.Remove(job, now))
}

func (b *both) Share(account int, shares int64, now instant.Time) error {
	return cmp.Or(b.exact.Share(account, shares, now), b.model.Share(account, shares, now))
}

func (b *both) Signal(p jobs.Part) (int64, error) {
	got, _ := b.model.Signal(p)
	if b.signals++; b.signals%8 > 0 { // most are the same as before
		return got, nil
	}
	return agree(got, fmt.Sprintf("signal of %x", p))(b.exact.Signal(p))
}

func (b *both) Calls(worker string) (int64, error) {
	got, _ := b.model.Calls(worker)
	return agree(got, "calls of "+worker)(b.exact.Calls(worker))
}

func agree(got int64, what string) func(int64, error) (int64, error) {
	return func(want int64, err error) (int64, error) {
		if err == nil && want != got {
			err = fmt.Errorf("%s: %d in the queue, %d in the model", what, want, got)
		}
		return got, err
	}
}

func (b *both) Due(job int) instant.Time { return b.exact.Due(job) }

func (b *both) Number(id string) int { return b.model.Number(id) }

// TestModelIsExact: with the model of the queue nodes decide as with production's queue. Workloads have whatever
// can happen in a lab: jobs that crash, vanish with their nodes, are removed, wait for servers that are away;
// shares that change; nodes that come and go.
func TestModelIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := playBoth(drawConfig(t)); err != nil {
			t.Fatal(err)
		}
	})
}

// playBoth returns an error when the queues disagree.
func playBoth(c Config) error {
	l, err := newLab(&c)
	if err != nil {
		return err
	}
	exact, err := NewExact(c, func() instant.Time { return l.now })
	if err != nil {
		return err
	}
	l.queue = &both{model: l.queue.(*Model), exact: exact, beats: map[string][10]byte{}}
	return l.play(context.Background())
}

func drawConfig(t *rapid.T) Config {
	minutes := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most*60).Draw(t, name)) * time.Second
	}
	w := &workload.Workload{}
	for a := range rapid.IntRange(1, 4).Draw(t, "accounts") {
		name := fmt.Sprintf("t%d/_replicator", a)
		shares := rapid.SampledFrom([]int64{1, 50, 100, 1000}).Draw(t, "shares")
		w.Accounts = append(w.Accounts, workload.Account{Name: name, Shares: shares})
	}
	submit := time.Duration(0)
	for n := range rapid.IntRange(1, 25).Draw(t, "jobs") {
		if rapid.Bool().Draw(t, "later") {
			submit += minutes("submit", 1)
		}
		j := workload.Job{
			ID: fmt.Sprintf("j%d", n), Account: rapid.IntRange(0, len(w.Accounts)-1).Draw(t, "account"), Submit: submit,
			Server: rapid.IntRange(0, 2).Draw(t, "server"), Continuous: rapid.IntRange(0, 3).Draw(t, "kind") > 0,
			Weight:  rapid.SampledFrom([]int64{0, 0, 100, 1, 250, 1000}).Draw(t, "weight"),
			Startup: time.Duration(rapid.IntRange(0, 3000).Draw(t, "startup")) * time.Millisecond, Speed: 10, Rate: 1,
			Backlog: float64(rapid.IntRange(0, 3000).Draw(t, "backlog")),
		}
		if rapid.IntRange(0, 9).Draw(t, "goes") == 0 {
			j.Remove = submit + minutes("remove", 20)
		}
		if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
			j.MTBF = minutes("mtbf", 4) + time.Second
		}
		w.Jobs = append(w.Jobs, j)
	}
	at := time.Duration(0)
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		at += minutes("change", 6)
		account := rapid.IntRange(0, len(w.Accounts)-1).Draw(t, "changed")
		shares := rapid.Int64Range(1, 1000).Draw(t, "new shares")
		w.Changes = append(w.Changes, workload.Change{At: at, Account: account, Shares: shares})
	}
	if rapid.Bool().Draw(t, "outage") {
		from := minutes("from", 15)
		w.Outages = []workload.Outage{{Server: 1, From: from, To: from + minutes("to", 8)}}
	}
	c := Config{
		Settings: config.Default(), Workload: w, Duration: 16 * time.Minute,
		Checkpoint: 30 * time.Second,
	}
	latency := rapid.SampledFrom([]int{0, 5, 5, 5, 800, 12_000}).Draw(t, "latency")
	c.Latency = time.Duration(latency) * time.Millisecond
	c.Nodes = rapid.IntRange(1, 3).Draw(t, "nodes")
	c.Seed = rapid.Uint64().Draw(t, "seed")
	c.StopTime = time.Duration(rapid.SampledFrom([]int{0, 100, 4000, 6000}).Draw(t, "stop time")) * time.Millisecond
	n := &c.Settings.Node
	n.ActivityTimeout = time.Duration(rapid.SampledFrom([]int{2, 20, 20, 20}).Draw(t, "activity_timeout")) * time.Second
	n.MaxJobs, n.MaxChurn = rapid.IntRange(1, 12).Draw(t, "max_jobs"), rapid.IntRange(0, 6).Draw(t, "max_churn")
	n.Interval = time.Duration(rapid.IntRange(20, 90).Draw(t, "interval")) * time.Second
	s := &c.Settings.Replicator.Sharing
	s.Policy = schedule.Policy(rapid.IntRange(0, len(schedule.Policies())-1).Draw(t, "policy"))
	s.PriorityCoeff = int64(rapid.SampledFrom([]int{0, 500_000, 980_000, 995_000}).Draw(t, "priority_coeff"))
	for range rapid.IntRange(0, 2).Draw(t, "failures") {
		c.Failures = append(c.Failures, Failure{
			Node: rapid.IntRange(0, c.Nodes-1).Draw(t, "node"), At: minutes("at", 15), For: minutes("for", 8),
		})
	}
	return c
}
