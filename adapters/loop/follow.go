package loop

import (
	"context"
	"log/slog"

	"couchrelay/adapters/couch"
	"couchrelay/core/explain"
	"couchrelay/core/follow"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/kv"
	"couchrelay/core/replication"

	"github.com/benbjohnson/clock"
)

// FollowOptions are the parts of the process that a Follower works with. All but Broken and Noted are required.
type FollowOptions struct {
	DB     kv.Database
	Store  *follow.Store
	Clock  clock.Clock
	Logger *slog.Logger
	Worker follow.Config
	// Connect connects to the followed database of a job. The goroutine of Run calls it.
	Connect func(jobID string) (*couch.Pair, error)
	// Broken is told of broken invariants in transactions, which then fail.
	Broken func(*invariant.Broken)
	// Noted is told of each event that goes to the log. It may be nil.
	Noted func(event string)
}

// Follower drives the machine that follows databases. Only the goroutine of Run uses its fields, except events and
// ended.
type Follower struct {
	FollowOptions
	time   clockTime
	worker *follow.Worker
	links  map[uint64]*link              // by run
	waits  map[uint64]context.CancelFunc // of runs that wait for changes of their mirrors
	events chan follow.Event             // from other goroutines to Run
	ended  chan struct{}                 // closed when Run returns: events are dropped from then on
	ctx    context.Context               // of all effects; ends with Run
	exited bool
}

// NewFollower prepares a follower. It does nothing before Run, and follows nothing before Configure.
func NewFollower(o FollowOptions) *Follower {
	return &Follower{
		FollowOptions: o, time: newTime(o.Clock), worker: follow.New(o.Worker),
		links: map[uint64]*link{}, waits: map[uint64]context.CancelFunc{},
		events: make(chan follow.Event, 64), ended: make(chan struct{}),
	}
}

// Configure names the jobs that are followed from now on. Runs begin anew.
func (f *Follower) Configure(jobs []string) { f.post(follow.Configure{Jobs: jobs}) }

// Drain asks the worker to give its jobs back and to leave.
func (f *Follower) Drain() { f.post(follow.Drain{}) }

func (f *Follower) post(ev follow.Event) {
	select {
	case f.events <- ev:
	case <-f.ended:
	}
}

// Run drives the machine until it has left after a Drain, or until ctx ends, which drops everything at once.
func (f *Follower) Run(ctx context.Context) {
	defer close(f.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.ctx = ctx
	timer := f.Clock.Timer(0)
	defer timer.Stop()
	defer func() {
		for _, k := range f.links {
			k.close()
		}
	}()
	for !f.exited {
		arm(timer, f.time, f.worker.Deadline())
		select {
		case ev := <-f.events:
			f.handle(ev)
		case <-timer.C:
			f.handle(follow.Wake{})
		case <-ctx.Done():
			return
		}
	}
}

// handle has the machine handle an event, and what its effects bring about at once.
func (f *Follower) handle(ev follow.Event) {
	for queue := []follow.Event{ev}; len(queue) > 0; queue = queue[1:] {
		for _, e := range f.worker.Step(f.time.steady(), queue[0]) {
			switch e := e.(type) {
			case follow.Ask:
				go f.ask(e)
			case follow.Open:
				pair, err := f.Connect(e.Job.ID())
				if err != nil {
					queue = append(queue, follow.Refused{Run: e.Run, Reason: err.Error()})
					continue
				}
				f.links[e.Run] = newLink(f.ctx, pair, func(reply replication.Reply) {
					f.post(follow.Reply{Run: e.Run, ID: reply.ID, Reply: reply.Reply})
				})
			case follow.Call:
				f.pass(e.Run, replication.Call{ID: e.ID, Op: e.Op})
			case follow.Cancel:
				f.pass(e.Run, replication.Cancel{ID: e.ID})
			case follow.Await:
				f.stopAwaiting(e.Run)
				ctx, cancel := context.WithCancel(f.ctx)
				f.waits[e.Run] = cancel
				go f.await(ctx, e)
			case follow.Close:
				f.stopAwaiting(e.Run)
				if k := f.links[e.Run]; k != nil {
					k.close()
					delete(f.links, e.Run)
				}
			case follow.Note:
				f.log(e)
			case follow.Exit:
				f.exited = true
			}
		}
	}
}

// pass passes an operation on. A run whose connections could not be made has ended.
func (f *Follower) pass(run uint64, e replication.Effect) {
	if k := f.links[run]; k != nil {
		k.perform(e)
	}
}

func (f *Follower) stopAwaiting(run uint64) {
	if cancel := f.waits[run]; cancel != nil {
		cancel()
		delete(f.waits, run)
	}
}

// await waits until the mirror of a run changes, or its watch is lost, and posts Changed. replaced ends when nothing
// waits for that any more.
func (f *Follower) await(replaced context.Context, a follow.Await) {
	ctx, cancel := context.WithTimeout(replaced, awaitLimit)
	defer cancel()
	watch, err := kv.Run(ctx, f.DB, func(tx kv.Tx) (kv.Watch, error) { return follow.Arm(tx, f.Store, a) })
	if err == nil && watch != nil {
		err = watch.Wait(ctx)
	}
	if err != nil && ctx.Err() == nil { // there is no watch
		timer := f.Clock.Timer(follow.Unwatched)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if replaced.Err() == nil {
		f.post(follow.Changed{Run: a.Run})
	}
}

// ask performs a request in a transaction, which may be repeated.
func (f *Follower) ask(a follow.Ask) {
	ctx, cancel := context.WithTimeout(f.ctx, requestLimit)
	defer cancel()
	now := instant.Of(f.Clock.Now())
	result, err := kv.RunWith(ctx, f.DB, kv.Options{Tag: "follow"},
		func(tx kv.Tx) (result follow.Result, err error) {
			broken := invariant.Guard(f.Broken,
				func() { result, err = follow.Perform(tx, f.Store, a.Request, now) })
			if broken != nil {
				return nil, broken
			}
			return result, err
		})
	answer := follow.Answer{ID: a.ID, Result: result}
	if err != nil {
		answer = follow.Failed(a.ID, err)
		if answer.Outcome == follow.StoreDown && f.ctx.Err() == nil {
			f.Logger.Debug("follow_store_error", "request", a.Request.String(), "error", err)
		}
	}
	f.post(answer)
}

// log writes a note to the log.
func (f *Follower) log(e follow.Note) {
	if f.Noted != nil {
		f.Noted(e.What)
	}
	level := slog.LevelInfo
	if e.Warns() {
		level = slog.LevelWarn
	}
	about := []any{"mirror", e.Job}
	if e.Error != "" {
		class, _ := explain.ClassOf(e.Error)
		about = append(about, "class", class.Class, "error", e.Error)
	}
	f.Logger.Log(f.ctx, level, e.What, append(about, "detail", e.Text)...)
}
