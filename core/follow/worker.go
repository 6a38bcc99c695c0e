package follow

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/prng"
)

// Config makes a worker.
type Config struct {
	Worker string // a name that no process used before
	// Exclusive says that no other process can use the store: other leases are left from earlier ones.
	Exclusive bool
	Seed      uint64
	Pages     Pages
}

// Pages bounds how many documents one request is about: changes that are read and applied at once, changes of the
// mirror that one Look returns, states that one Prepare returns, rows that one Sweep compares. Each is 1 or more. The
// worlds of the simulator have few documents, and smaller pages.
type Pages struct{ Read, Look, Send, Sweep int }

// DefaultPages are those of production. A request of so many documents is well within the five seconds and the size
// that a transaction may have.
func DefaultPages() Pages { return Pages{Read: 100, Look: 100, Send: 50, Sweep: 100} }

// Worker follows databases for one process. It is made by New and changed by Step alone.
type Worker struct {
	cfg Config
	rng prng.Source
	now instant.Time // of the present step, by a steady clock
	out []Effect     // of the present step

	known []string // ids of the jobs that it may take, sorted
	member
	draining bool
	gone     bool

	beat, poll, scan instant.Time // when each is due

	asks    []*ask
	lastAsk uint64
	batch   uint64
	passed  []passed
	runs    []*run
	lastRun uint64
}

// member is what a worker is to the others.
type member struct {
	name   string // of its lease
	epoch  int    // number of the lease
	lease  lease
	ends   instant.Time // of a live lease, unless a heartbeat gets through
	left   []string     // earlier leases, to be given back
	others []other
	looked instant.Time // at the others
}

type lease uint8

const (
	none lease = iota
	joining
	live
)

// ask is a request that is not answered.
type ask struct {
	id    uint64
	req   Request
	run   *run // nil for those of the worker itself
	sent  instant.Time
	again instant.Time // when it is repeated; 0 while it is under way
	fails int

	odd    string // what the attempts before could not read; see avoid
	misses int    // and how often in a row
}

// other is another worker's lease, watched for signs of life.
type other struct {
	name   string
	beat   [10]byte
	silent time.Duration // for how long this worker has seen that beat
}

// passed is a job that requests leave as it is for a while, since it could not be read.
type passed struct {
	id    string
	until instant.Time
}

// New prepares a worker.
func New(c Config) *Worker {
	return &Worker{cfg: c, rng: prng.New(c.Seed), member: member{name: c.Worker}, batch: 1}
}

// Step handles an event and returns what is to be done, in order. now never goes back.
func (w *Worker) Step(now instant.Time, ev Event) []Effect {
	w.now = max(w.now, now)
	switch e := ev.(type) {
	case Configure:
		w.configure(e)
	case Answer:
		w.answer(e)
	case Reply:
		if r := w.find(e.Run); r != nil {
			r.reply(e)
		}
	case Changed:
		if r := w.find(e.Run); r != nil {
			r.out.changed()
		}
	case Refused:
		if r := w.find(e.Run); r != nil {
			r.end("invalid_replication", e.Reason)
		}
	case Drain:
		w.draining = true
	}
	w.advance()
	out := w.out
	w.out = nil
	return out
}

// Deadline is when the worker wants to be woken at the latest.
func (w *Worker) Deadline() instant.Time {
	if w.gone {
		return instant.Never
	}
	at := instant.Never
	if w.lease == live {
		at = min(w.ends, w.beat)
		if !w.draining {
			at = min(at, w.scan)
		}
		if !w.draining && len(w.free()) > 0 && !w.asking(func(q Request) bool { _, is := q.(Accept); return is }) {
			at = min(at, w.poll)
		}
	}
	for _, a := range w.asks {
		if a.again != 0 {
			at = min(at, a.again)
		}
	}
	for _, r := range w.runs {
		at = min(at, r.deadline())
	}
	return at
}

func (w *Worker) do(e Effect) { w.out = append(w.out, e) }

// note tells operators of a mirror, or of the worker itself; err may be empty.
func (w *Worker) note(what, mirror, err, text string) { w.do(Note{what, mirror, err, text}) }

func (w *Worker) find(id uint64) *run {
	for _, r := range w.runs {
		if r.id == id {
			return r
		}
	}
	return nil
}

// configure has the worker take other jobs, and ends all runs.
func (w *Worker) configure(e Configure) {
	w.known = slices.Sorted(slices.Values(e.Jobs))
	for _, r := range w.runs {
		r.end("", "")
	}
}

// free are the jobs that this worker may take and does not run.
func (w *Worker) free() (ids []string) {
	for _, id := range w.known {
		if !slices.ContainsFunc(w.runs, func(r *run) bool { return r.ID == id }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// ask asks for a transaction, of a run or of the worker itself.
func (w *Worker) ask(r *run, q Request) {
	w.lastAsk++
	q = w.renewed(q)
	w.asks = append(w.asks, &ask{id: w.lastAsk, req: q, run: r, sent: w.now})
	w.do(Ask{w.lastAsk, q})
}

// asking reports whether a request of the worker itself is not answered.
func (w *Worker) asking(is func(Request) bool) bool {
	return slices.ContainsFunc(w.asks, func(a *ask) bool { return a.run == nil && is(a.req) })
}

// advance does all that is due.
func (w *Worker) advance() {
	if w.gone {
		return
	}
	if w.lease == live && w.now >= w.ends {
		// Reached: a worker that follows gives its lease up by itself
		w.loseLease("no heartbeat got through")
	}
	for _, a := range w.asks {
		if a.again != 0 && a.again <= w.now {
			a.req, a.again, a.sent = w.renewed(a.req), 0, w.now
			w.do(Ask{a.id, a.req})
		}
	}
	if w.lease == none && !w.draining && len(w.known) > 0 {
		if w.epoch++; w.epoch > 1 {
			w.name = fmt.Sprintf("%s-%d", w.cfg.Worker, w.epoch)
		}
		w.lease = joining
		w.ask(nil, Join{w.name})
	}
	if w.lease == live {
		w.keep()
	}
	for _, r := range w.runs {
		if w.draining {
			r.end("", "")
		}
		r.advance()
	}
	w.leave()
}

// keep keeps the lease, looks at the others, and for jobs.
func (w *Worker) keep() {
	if w.due(&w.beat, beatEvery) && !w.asking(func(q Request) bool { _, is := q.(Beat); return is }) {
		w.ask(nil, Beat{w.name})
	}
	if w.draining {
		return
	}
	if w.due(&w.scan, scanEvery) && !w.asking(func(q Request) bool { _, is := q.(Watch); return is }) {
		w.ask(nil, Watch{})
	}
	accepting := w.asking(func(q Request) bool { _, is := q.(Accept); return is })
	if free := w.free(); len(free) > 0 && !accepting && w.due(&w.poll, pollEvery) {
		w.ask(nil, Accept{Worker: w.name, Batch: w.batch, Max: len(free), Known: free})
	}
}

// leave gives the lease back once nothing else is to be done.
func (w *Worker) leave() {
	if !w.draining || len(w.runs) > 0 {
		return
	}
	if w.lease == none || w.lease == joining && len(w.asks) == 0 {
		w.gone = true
		w.do(Exit{})
	} else if w.lease == live && len(w.asks) == 0 {
		w.ask(nil, Expire{Worker: w.name})
	}
}

// due reports whether the time of a timer has come, and sets it anew.
func (w *Worker) due(timer *instant.Time, every time.Duration) bool {
	if *timer > w.now {
		return false
	}
	*timer = w.now.Add(w.jitter(every))
	return true
}

// jitter draws a time from the last quarter of d, so that workers do not act in step.
func (w *Worker) jitter(d time.Duration) time.Duration {
	return d - time.Duration(w.rng.Uint64n(uint64(d/4)+1))
}

// answer handles the answer to a request.
func (w *Worker) answer(e Answer) {
	i := slices.IndexFunc(w.asks, func(a *ask) bool { return a.id == e.ID && a.again == 0 })
	if i < 0 {
		return
	}
	a := w.asks[i]
	if q, is := a.req.(Accept); is && e.Unreadable != "" && slices.Contains(q.Without, e.Unreadable) {
		// Reached: a followed database that was taken cannot be read
		w.loseLease("one of the jobs that it has taken cannot be read") // each repetition would have to read it
		return
	}
	if e.Outcome == StoreDown {
		if !e.Part {
			w.passOver(e)
		}
		if e.Unreadable != "" && a.run != nil && w.draining {
			// Reached: a worker leaves while a job cannot be read
			a.run.drop() // it goes back with the lease
			return
		}
		if a.run != nil && a.run.ended && !a.run.released {
			// Reached: a run is to end while a request of it fails
			w.asks = slices.Delete(w.asks, i, i+1) // which may never get through; the job goes back by itself
			return
		}
		if e.Part && a.run != nil {
			a.avoid(w, e)
		}
		a.fails++
		a.again = w.now.Add(w.jitter(min(500*time.Millisecond<<min(a.fails, 6), 10*time.Second)))
		return
	}
	w.asks = slices.Delete(w.asks, i, i+1)
	switch {
	case e.Outcome == LeaseLost:
		w.loseLease("others have given this worker up")
	case e.Outcome == Halted && a.run != nil:
		a.run.drop()
	case e.Outcome == Committed && a.run != nil:
		a.run.answered(a.req, e.Result)
	case e.Outcome == Committed:
		w.answered(a, e.Result)
	}
}

// passOver has requests leave out a job of which one could not read a row: it would keep all others from being moved.
// Operators are told, each time that it is looked at again.
func (w *Worker) passOver(e Answer) {
	if e.Unreadable == "" || slices.Contains(w.without(), e.Unreadable) {
		return
	}
	w.passed = append(w.passed, passed{e.Unreadable, w.now.Add(passFor)})
	w.note("follow_unreadable", e.Unreadable, "", e.Text)
}

// without are the jobs that are passed over.
func (w *Worker) without() (ids []string) {
	w.passed = slices.DeleteFunc(w.passed, func(p passed) bool { return p.until <= w.now })
	for _, p := range w.passed {
		ids = append(ids, p.id)
	}
	return ids
}

// renewed is a request that is made now, or repeated, without the jobs that could not be read.
func (w *Worker) renewed(q Request) Request {
	switch q := q.(type) {
	case Accept:
		q.Without = w.without()
		return q
	case Expire:
		q.Without = w.without()
		return q
	}
	return q
}

// answered acts on the answer to a request of the worker itself.
func (w *Worker) answered(a *ask, result Result) {
	switch q := a.req.(type) {
	case Join:
		w.lease, w.ends = live, a.sent.Add(ActivityTimeout)
		w.beat, w.scan, w.poll = w.now.Add(beatEvery), w.now, w.now
		for _, name := range w.left {
			w.ask(nil, Expire{Worker: name})
		}
	case Beat:
		w.ends = max(w.ends, a.sent.Add(ActivityTimeout))
	case Watch:
		w.watched(result.(Watched))
	case Expire:
		switch {
		case !result.(Expired).Whole:
			w.ask(nil, q)
		case q.Worker == w.name:
			w.lease = none
		default:
			w.left = slices.DeleteFunc(w.left, func(name string) bool { return name == q.Worker })
		}
	case Accept:
		w.accepted(result.(Accepted))
	}
}

// accepted starts the runs of jobs that were taken.
func (w *Worker) accepted(got Accepted) {
	if len(got.Jobs) > 0 {
		w.batch++
	}
	for _, t := range got.Jobs {
		w.lastRun++
		r := &run{w: w, id: w.lastRun, Held: t.Held, job: t.Job, began: w.now}
		r.in = inward{run: r, since: t.Job.Since}
		r.out = outward{run: r, looked: t.Job.Looked, retry: max(w.now, 1)}
		w.runs = append(w.runs, r)
		w.do(Open{r.id, t.Job})
		w.note("follow_started", r.ID, "", t.Job.URL)
	}
}

// watched judges the other workers by how long this one has seen the same beat of them. When more time has passed
// than between two looks, this worker stood still: only the time between two looks counts.
func (w *Worker) watched(got Watched) {
	passed := min(w.now.Sub(w.looked), scanEvery)
	w.looked = w.now
	before := w.others
	w.others = nil
	for _, l := range got.Leases {
		if l.Worker == w.name {
			continue
		}
		o := other{name: l.Worker, beat: l.Beat}
		for _, b := range before {
			if b.name == o.name && b.beat == o.beat {
				o.silent = b.silent + passed
			}
		}
		w.others = append(w.others, o)
		expiring := w.asking(func(q Request) bool { e, is := q.(Expire); return is && e.Worker == o.name })
		if !expiring && (l.Expired || w.cfg.Exclusive || o.silent >= max(ActivityTimeout, l.Timeout)) {
			// Reached: the followed databases of a silent worker are given to others
			beat := o.beat
			w.ask(nil, Expire{Worker: o.name, Beat: &beat})
		}
	}
}

// loseLease drops all runs: others may have their jobs.
func (w *Worker) loseLease(why string) {
	if w.lease == none {
		return
	}
	givesBack := func(q Request) bool { e, is := q.(Expire); return is && e.Worker == w.name }
	if !w.asking(givesBack) {
		w.note("follow_lease_lost", "", "", why)
	}
	for len(w.runs) > 0 {
		w.runs[0].drop()
	}
	w.lease, w.asks = none, nil
	w.left = append(w.left, w.name)
}
