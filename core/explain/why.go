package explain

import (
	"cmp"
	"math"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
)

// why finds the causes.
func (x *explaining) why() {
	add := func(holds bool, c Cause) {
		if holds {
			x.Why = append(x.Why, c)
		}
	}
	if x.over() {
		add(x.rec.State == jobstore.Completed, Completed)
		add(x.rec.State == jobstore.Failed, Failed)
		add(x.View.Refused > 0, Refused)
		return
	}
	runs := x.job.State == jobs.Running
	lost := runs && (x.Node == nil || x.Node.Expired)
	paused := x.rec.Pause != nil || x.rec.PausedByDocument
	inQueue := !runs && x.job.Lot == ""
	add(runs, Running)
	add(lost, Lost)
	add(len(x.Endpoint[0].Limiter)+len(x.Endpoint[1].Limiter) > 0, Slowed)
	add(runs && (x.job.Stop || paused || len(x.Holds) > 0), Stopping)
	add(x.rec.Pause != nil, Paused)
	add(x.rec.PausedByDocument, ByDoc)
	add(len(x.Holds) > 0, Held)
	add(x.rec.HeldBy != "" && !x.inForce(x.rec.HeldBy), Lifted)
	add(x.rec.WaitsFor != "", Waits)
	add(inQueue && x.rec.State == jobstore.Crashing && x.Due != 0, Backoff)
	add(inQueue && x.rec.State != jobstore.Crashing && x.Due != 0, Returning)
	if inQueue && !paused && len(x.Holds) == 0 {
		add(x.Position != nil && x.Position.Ahead > 0, Queued)
		add(x.Position != nil && x.Position.Ahead == 0, Next)
		add(x.Slots.MaxJobs == 0, NoNode)
		add(x.Slots.MaxJobs > 0 && x.Slots.Free == 0, AllInUse)
	}
	add(x.rec.Throttled, Throttled)
	add(x.Problem != nil && x.Due == 0 && !x.rec.Throttled, Crashed)
	add(x.View.Refused > 0, Refused)
}

// inForce reports whether a hold that matches is in force.
func (x *explaining) inForce(id string) bool {
	for i := range x.Holds {
		if x.Holds[i].ID() == id {
			return true
		}
	}
	return false
}

// estimate tells how long a ready job waits if the running ones go on until they give way: max_churn jobs of each
// node do that in an interval, if so many have run for min_run_time_sec.
func (x *explaining) estimate() {
	const field = "estimated_wait_seconds"
	if x.over() || x.job.State == jobs.Running {
		return
	}
	p := x.Position
	switch {
	case p == nil && x.job.Lot == "":
		x.unknown(field, "the job gets its place among the ready ones when it is due")
	case p == nil:
		x.unknown(field, "the job stands in no order until what stops it ends")
	case x.Is(Paused) || x.Is(ByDoc) || x.Is(Held):
		x.unknown(field, "the job does not start when its turn comes, but waits until what stops it ends")
	case p.More:
		x.unknown(field, "more ready jobs stand before it than are counted")
	case x.Slots.MaxJobs == 0:
		x.unknown(field, "no node takes jobs")
	case p.Ahead < x.Slots.Free:
		x.Wait = new(time.Duration)
	case x.asking.MaxChurn <= 0:
		x.unknown(field, "it is not known how many jobs give way in an interval")
	default:
		interval := cmp.Or(x.order.Periods.Rotation, x.order.Forgetting.Interval)
		giveWay := schedule.Churn(x.asking.MaxChurn*x.Slots.Nodes, x.Slots.MaxJobs, interval, x.asking.MinRun)
		rounds := (p.Ahead - x.Slots.Free) / giveWay
		round := max(interval, x.asking.MinRun/time.Duration(x.Slots.MaxJobs), 1)
		wait := round * min(time.Duration(rounds+1), math.MaxInt64/round) // settings may mean for ever
		x.Wait = &wait
	}
}
