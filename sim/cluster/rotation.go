package cluster

import (
	"couchrelay/core/node"
	"couchrelay/core/schedule"
)

// nodeStepped is S6: a rotation stops no more runs than max_churn, none for a job behind it, no one-shots, and
// none that has just begun, but for those above max_jobs.
func (o *oracle) nodeStepped(p *process, ev node.Event, effects []node.Effect) {
	for _, e := range effects {
		if ask, is := e.(node.Ask); is {
			o.checkRequeue(ask.Request)
		}
	}
	done, ok := ev.(node.Done)
	if !ok {
		return
	}
	seen, ok := done.Result.(node.Surveyed)
	if !ok {
		return
	}
	stops, unripe := 0, 0
	excess := max(0, len(p.runs)-p.node.MaxJobs())
	for _, e := range effects {
		stop, is := e.(node.StopRun)
		if !is {
			continue
		}
		stops++
		r := p.find(stop.Run)
		if !r.work.Work.Replication.Continuous || o.w.Engine.Now().Sub(r.began) < p.settings.MinRun {
			unripe++
		}
		if excess == 0 && len(seen.First) > 0 && seen.Order.Policy == schedule.FairShare {
			o.yields[node.Held{JobID: r.work.Work.JobID, Lock: r.work.Work.Lock}] = seen.First[0]
		}
	}
	if stops > max(excess, p.settings.MaxChurn) {
		o.w.fail("S6", "%s stops %d of %d runs at once; max_churn is %d, max_jobs %d", p.Name, stops, len(p.runs), p.settings.MaxChurn, p.node.MaxJobs())
	}
	if unripe > excess {
		o.w.fail("S6", "%s stops %d one-shots or runs that have just begun; max_jobs is %d, and it had %d", p.Name, unripe, p.node.MaxJobs(), len(p.runs))
	}
}

// aHalfLife is how far the place of a run may seem to fall by rounding.
const aHalfLife = 1 << 32

// checkRequeue compares the place of a job that gave way with the first that waited then. Places of runs only
// grow.
func (o *oracle) checkRequeue(q node.Request) {
	requeue, is := q.(node.Requeue)
	if !is {
		return
	}
	first, gave := o.yields[requeue.Held]
	delete(o.yields, requeue.Held)
	if place := requeue.Turn.Place; gave && place.Epoch == first.Epoch && place.Key < first.Key-aHalfLife {
		o.w.fail("S6", "job %s gave way, though it stands at %d and the first that waited at %d", requeue.JobID, place.Key, first.Key)
	}
}
