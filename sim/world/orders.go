package world

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/sim/decide"
)

// Verb is an order that users give to a job.
type Verb string

// Verbs.
const (
	Pause  Verb = "pause"
	Resume Verb = "resume"
	Retry  Verb = "retry"
	Reset  Verb = "reset"
	Cancel Verb = "cancel"
)

// verbs carry orders out.
var verbs = map[Verb]func(o jobstore.Operator, id string) (bool, error){
	Pause:  func(o jobstore.Operator, id string) (bool, error) { return o.Pause(id, "for a while") },
	Resume: func(o jobstore.Operator, id string) (bool, error) { return o.Resume(id, "") },
	Retry:  func(o jobstore.Operator, id string) (bool, error) { return o.Retry(id, "") },
	Reset:  func(o jobstore.Operator, id string) (bool, error) { return o.Reset(id, "") },
	Cancel: jobstore.Operator.Cancel,
}

// controlActions are those of users who steer jobs. A swarm draws them by themselves.
var controlActions = []action{
	{name: "job-pause", where: "a frontend", most: 100_000, do: orders(Pause), what: "a job is paused"},
	{name: "job-resume", where: "a frontend", most: 100_000, do: orders(Resume), what: "a job is resumed"},
	{name: "job-retry", where: "a frontend", most: 100_000, do: orders(Retry),
		what: "the wait of a job ends, or one that failed runs again"},
	{name: "job-reset", where: "a frontend", most: 100_000, do: orders(Reset), what: "a job starts over"},
	{name: "job-cancel", where: "a frontend", most: 20_000, do: orders(Cancel),
		what: "a job is canceled, and its document deleted"},
	{name: "document-paused", where: "a frontend", most: 50_000, do: steer(steering.pauseDocument),
		what: "a document says that its job is paused, or not any more"},
	{name: "hold-make", where: "a frontend", most: 50_000, do: steer(steering.makeHold),
		what: "a database or server is put on hold"},
	{name: "hold-lift", where: "a frontend", most: 100_000, do: steer(steering.liftHold), what: "a hold is lifted"},
	{name: "hold-anew", where: "a frontend", most: 100_000, do: steer(steering.holdAnew),
		what: "a hold is lifted, and made again while its jobs come back"},
	{name: "backoff-paused", where: "a frontend", most: 100_000, do: steer(steering.pauseBackoff),
		what: "a job that waits after a crash is paused, by an order or its document, and resumed"},
}

// controls reports whether the users of a world steer jobs.
func (c *Config) controls() bool {
	return slices.ContainsFunc(controlActions, func(a action) bool {
		return c.Actions[a.name] > 0 || slices.ContainsFunc(c.Events, func(e Event) bool { return e.What == a.name })
	})
}

// orders gives an order to any job, now and then twice at once.
func orders(v Verb) func(u *users, site *decide.Site) {
	return func(u *users, site *decide.Site) {
		for range 1 + site.Int(4)/3 {
			steering{u}.give(v, site)
		}
	}
}

// steering is the part of users that steers jobs.
type steering struct{ *users }

func steer(do func(u steering, site *decide.Site)) func(*users, *decide.Site) {
	return func(u *users, site *decide.Site) { do(steering{u}, site) }
}

// give sends an order for the job of a document or request, which may be gone.
func (u steering) give(v Verb, site *decide.Site) {
	p, n := u.frontend(site), len(u.jobs)+len(u.requests)
	if p == nil || n == 0 {
		return
	}
	i := site.Int(n)
	if i >= len(u.jobs) {
		id := u.requests[i-len(u.jobs)]
		looking(u).follow(id, nil)
		u.w.Engine.Go(p.Process, "api", func() { u.send(u.w.Engine.NewContext(p.Process, RequestLimit), v, id) })
		return
	}
	j := u.jobs[i]
	if j.busy || j.tenant.busy {
		return
	}
	j.busy = v == Cancel
	looking(u).follow(j.JobID(), j)
	u.w.Engine.Go(p.Process, "api", func() {
		if v != Cancel {
			u.send(u.w.Engine.NewContext(p.Process, RequestLimit), v, j.JobID())
			return
		}
		defer func() { j.busy = false }()
		doubted := j.unknown
		j.unknown = true
		changed, tried, err := u.send(u.w.Engine.NewContext(p.Process, RequestLimit), v, j.JobID())
		if err == nil && changed {
			j.unknown, j.present = false, false
			u.w.emit(DocumentWritten{j, 0, false})
		} else if err == nil && !tried {
			j.unknown = doubted
		}
	})
}

// send carries an order out. It reports whether the last attempt changed anything, and whether any did.
func (u steering) send(ctx context.Context, v Verb, id string) (changed, tried bool, err error) {
	now := moment(ctx, u.users)
	u.w.emit(Ordered{v, id, now})
	err = kv.Do(ctx, u.w.db, func(tx kv.Tx) (err error) {
		changed, err = verbs[v](jobstore.Operator{Store: u.w.store, Tx: tx, By: Requester, Now: now}, id)
		tried = tried || changed
		return err
	})
	u.w.Engine.Logf("users", "%s %s: %v, %v", v, id, changed, err)
	if _, barred := errors.AsType[jobstore.Obstacle](err); barred {
		return false, tried, nil
	}
	if err == nil {
		changed, at := changed, u.w.Engine.Now()
		u.w.Engine.After(0, nil, "obeyed", func() { u.w.emit(Obeyed{v, id, changed, now, at}) })
	}
	return changed, tried, err
}

// pauseDocument writes a document that says "paused": true, or says so no more.
func (u steering) pauseDocument(site *decide.Site) {
	if j := u.anyJob(site); j != nil {
		u.sayPaused(j, j.body["paused"] == nil, site)
	}
}

// sayPaused writes whether a document pauses its job.
func (u steering) sayPaused(j *JobDoc, paused bool, site *decide.Site) {
	if j.busy {
		return
	}
	j.body = maps.Clone(j.body)
	if delete(j.body, "paused"); paused {
		j.body["paused"] = true
	}
	u.write(j, site, false)
}

// pauseBackoff pauses a job that waits after a crash, and resumes it a while later, when that wait may be over.
func (u steering) pauseBackoff(site *decide.Site) {
	crashing := jobsThat(u.users, func(rec *jobstore.Record) bool { return rec.State == jobstore.Crashing })
	p := u.frontend(site)
	if p == nil || len(crashing) == 0 {
		return
	}
	j, lasts := crashing[site.Int(len(crashing))], site.Duration(0, u.w.Config.Backoff.Max/2)
	if site.Int(2) == 1 {
		u.sayPaused(j, true, site)
		u.w.Engine.After(lasts, nil, "document resumed", func() {
			if j.present && !u.w.healed {
				u.sayPaused(j, false, u.orders)
			}
		})
		return
	}
	u.w.Engine.Go(p.Process, "api", func() {
		u.send(u.w.Engine.NewContext(p.Process, RequestLimit), Pause, j.JobID())
		if u.w.Engine.Sleep(context.Background(), lasts) == nil && !u.w.healed {
			u.send(u.w.Engine.NewContext(p.Process, RequestLimit), Resume, j.JobID())
		}
	})
}

// makeHold puts a replicator database or a server on hold, half of the time while nodes take a new job.
func (u steering) makeHold(site *decide.Site) {
	p := u.frontend(site)
	if p == nil {
		return
	}
	e, after := u.anyHold(site), time.Duration(0)
	if site.Int(2) == 1 {
		u.addJob(site)
		after = site.Duration(0, 10*u.w.Config.StoreLatency)
	}
	u.w.Engine.Go(p.Process, "api", func() {
		_ = u.w.Engine.Sleep(context.Background(), after)
		_ = u.hold(u.w.Engine.NewContext(p.Process, RequestLimit), e)
	})
}

// liftHold lifts a hold, which may not be there.
func (u steering) liftHold(site *decide.Site) {
	if p := u.frontend(site); p != nil {
		e := u.anyHold(site)
		u.w.Engine.Go(p.Process, "api", func() { _ = u.lift(u.w.Engine.NewContext(p.Process, RequestLimit), e.ID()) })
	}
}

// holdAnew lifts one of the holds that there are, and makes it again: at once, or when some of its jobs are back.
func (u steering) holdAnew(site *decide.Site) {
	p := u.frontend(site)
	if p == nil {
		return
	}
	n, pause := site.Int(1<<16), max(0, site.Duration(-time.Minute, time.Minute))
	u.w.Engine.Go(p.Process, "api", func() {
		ctx := u.w.Engine.NewContext(p.Process, RequestLimit)
		holds, err := kv.Run(ctx, u.w.db, func(tx kv.Tx) ([]jobstore.Hold, error) {
			return u.w.store.Keys.Holds(tx)
		})
		if err != nil || len(holds) == 0 {
			return
		}
		e := holds[n%len(holds)]
		if u.lift(ctx, e.ID()) != nil || u.w.Engine.Sleep(context.Background(), pause) != nil || u.w.healed {
			return
		}
		again := jobstore.Hold{Database: e.Database, Server: e.Server}
		_ = u.hold(u.w.Engine.NewContext(p.Process, RequestLimit), again)
	})
}

// anyHold chooses what to hold: a server, or a replicator database.
func (u steering) anyHold(site *decide.Site) jobstore.Hold {
	e := jobstore.Hold{Server: u.w.net.servers[site.Int(len(u.w.net.servers))].Name}
	if site.Int(4) == 0 {
		e = jobstore.Hold{Database: u.tenants[site.Int(len(u.tenants))].name}
	}
	return e
}

func (u steering) hold(ctx context.Context, e jobstore.Hold) error {
	u.w.emit(HoldAsked{e.ID(), true})
	now := moment(ctx, u.users)
	err := kv.Do(ctx, u.w.db, func(tx kv.Tx) error {
		_, err := jobstore.Operator{Store: u.w.store, Tx: tx, By: Requester, Now: now}.MakeHold(e)
		return err
	})
	if err == nil {
		u.w.emit(HoldMade{e.ID(), e.Database, e.Server, now})
	}
	return err
}

func (u steering) lift(ctx context.Context, id string) error {
	u.w.emit(HoldAsked{id, false})
	now := moment(ctx, u.users)
	err := kv.Do(ctx, u.w.db, func(tx kv.Tx) error {
		_, err := jobstore.Operator{Store: u.w.store, Tx: tx, By: Requester, Now: now}.LiftHold(id)
		return err
	})
	if err == nil {
		u.w.emit(HoldLifted{id, now})
	}
	return err
}

// release ends all pauses and holds once nothing fails any more, so that the world can come to rest. It begins
// when no order is under way.
func (u steering) release() {
	u.releasing = true
	u.w.Engine.Go(nil, "operator", func() {
		_ = u.w.Engine.Sleep(context.Background(), RequestLimit+time.Second)
		var holds []jobstore.Hold
		u.untilDone(func(tx kv.Tx) (err error) {
			holds, err = u.w.store.Keys.Holds(tx)
			return err
		})
		for i := range holds {
			for u.lift(context.Background(), holds[i].ID()) != nil {
				_ = u.w.Engine.Sleep(context.Background(), time.Second)
			}
		}
		ids := slices.Clone(u.requests)
		for _, j := range u.jobs {
			ids = append(ids, j.JobID())
		}
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			for ok := false; !ok; {
				_, _, err := u.send(context.Background(), Resume, id)
				if ok = err == nil; !ok {
					_ = u.w.Engine.Sleep(context.Background(), time.Second)
				}
			}
		}
		u.releasing = false
	})
}

// Releasing reports whether the end of all pauses and holds is still under way after the healing.
func (v View) Releasing() bool { return v.w.users.releasing }

// Facts about users who steer jobs.
type (
	// Ordered is an order to a job that is about to be sent. It may be carried out from now on.
	Ordered struct {
		Verb Verb
		ID   string // of the job
		At   instant.Time
	}
	// Obeyed is an order whose user was told that it is carried out, in an event of its own.
	Obeyed struct {
		Verb    Verb
		ID      string
		Changed bool         // whether the last attempt changed anything
		Asked   instant.Time // when the order was sent
		At      instant.Time // when the answer came
	}
	// HoldAsked is a hold that is about to be made or lifted.
	HoldAsked struct {
		ID   string
		Made bool
	}
	// HoldMade is a hold whose user was told that it is in force. One of Database and Server is set.
	HoldMade struct {
		ID, Database, Server string
		Asked                instant.Time
	}
	// HoldLifted is a hold whose user was told that it is lifted.
	HoldLifted struct {
		ID    string
		Asked instant.Time
	}
)

func (Ordered) fact()    {}
func (Obeyed) fact()     {}
func (HoldAsked) fact()  {}
func (HoldMade) fact()   {}
func (HoldLifted) fact() {}
