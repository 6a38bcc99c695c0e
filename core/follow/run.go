package follow

import (
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// run follows one database.
type run struct {
	w  *Worker
	id uint64
	Held
	job   Job
	began instant.Time

	lastCall uint64
	in       inward
	out      outward
	odd      []string            // documents that it has left out
	unread   replication.Trouble // why the last one was, that the followed database could not read, or did not have
	alien    []string            // ids that it has passed over, and told of

	ended         bool // it gives its job back once nothing is under way
	released      bool
	error, reason string
}

// call asks for an operation.
func (r *run) call(op peer.Op) *call {
	r.lastCall++
	r.w.do(Call{r.id, r.lastCall, op})
	return &call{r.lastCall, op, r.w.now}
}

// call is an operation under way.
type call struct {
	id   uint64
	op   peer.Op
	sent instant.Time
}

func (r *run) deadline() instant.Time {
	if r.ended {
		return instant.Never
	}
	return min(r.in.deadline(), r.out.deadline(), r.missed())
}

func (r *run) advance() {
	if r.missed() <= r.w.now {
		r.end("", "")
	}
	switch {
	case !r.ended:
		r.in.advance()
		if !r.ended {
			r.out.advance()
		}
	case !r.released && !slices.ContainsFunc(r.w.asks, func(a *ask) bool { return a.run == r }):
		r.released = true
		q := Release{Held: r.Held, Error: r.error, Reason: r.reason}
		if r.error != "" {
			q.Errors = pauses.Errors(r.job.Errors, r.w.now.Sub(r.began))
			q.Wait = pauses.Jittered(q.Errors, &r.w.rng)
		}
		r.w.ask(r, q)
	}
}

// end ends the run, with an error or, if that is empty, in order.
func (r *run) end(err, reason string) {
	if r.ended {
		return
	}
	r.ended, r.error, r.reason = true, err, reason
	r.cancel()
	if err != "" {
		r.w.note("follow_failed", r.ID, err, reason)
	}
}

func (r *run) cancel() {
	for _, c := range []**call{&r.in.call, &r.out.call} {
		if *c != nil {
			r.w.do(Cancel{r.id, (*c).id})
			*c = nil
		}
	}
}

// fail ends the run for the failure of an operation.
func (r *run) fail(op peer.Op, f *peer.Failure) {
	t := replication.TroubleOf(op, f)
	r.end(t.Error, t.Reason)
}

// drop forgets the run. Its job is not this worker's any more.
func (r *run) drop() {
	r.cancel()
	r.w.do(Close{r.id})
	r.w.runs = slices.DeleteFunc(r.w.runs, func(o *run) bool { return o == r })
	r.w.asks = slices.DeleteFunc(r.w.asks, func(a *ask) bool { return a.run == r })
}

// reply handles the answer to a call.
func (r *run) reply(e Reply) {
	switch {
	case r.in.call != nil && r.in.call.id == e.ID:
		c := r.in.call
		r.in.call = nil
		r.in.reply(c, e.Reply)
	case r.out.call != nil && r.out.call.id == e.ID:
		c := r.out.call
		r.out.call = nil
		r.out.reply(c, e.Reply)
	}
}

// answered acts on the answer to a request of the run.
func (r *run) answered(q Request, result Result) {
	switch q := q.(type) {
	case Opened:
		r.in.noted(result.(Noted))
	case Apply:
		r.in.applied(q, result.(Applied))
	case Sweep:
		r.in.swept(q, result.(Swept))
	case Look:
		r.out.seen(result.(Seen))
	case Prepare:
		r.out.prepared(result.(Prepared))
	case Sent:
		r.out.recorded()
	case Release:
		r.drop()
	}
}
