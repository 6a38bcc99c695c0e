package jobstore

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

// order gives an order about a job, and returns the job, nil if it is gone, with what came of the order.
func (o *anyOrder) order(name, id string, f func(Operator, string, string) (bool, error)) (*twinJob, bool, string) {
	now := o.now
	o.say("%s: %s %q", now, name, id)
	type answer struct {
		changed  bool
		obstacle string
	}
	give := func(tx kv.Tx) (a answer, err error) {
		a.changed, err = f(Operator{Store: o.s, Tx: tx, By: "op", Now: now}, id, "why")
		if obstacle, is := errors.AsType[Obstacle](err); is {
			a.obstacle, err = string(obstacle), nil
			if a.changed {
				o.failf("the order changes something, and is refused: %s", obstacle)
			}
		}
		return a, err
	}
	a, _, err := do(o, true, give)
	if err != nil {
		o.failf("%s: %v", name, err)
	}
	if name != "cancel" && a.changed {
		o.given = append(o.given, &given{name: name, id: id, do: func() error {
			_, err := kv.Run(o.t.Context(), o.db, give)
			return err
		}})
	}
	o.say("  %v %s", a.changed, a.obstacle)
	return o.jobs[id], a.changed, a.obstacle
}

// answers fails the test unless the answer to an order is that it changed something, as does says, and names an
// obstacle with the text want, or none if that is empty.
func (o *anyOrder) answers(changed bool, obstacle string, does bool, want string) {
	if changed != does || (obstacle == "") != (want == "") || !strings.Contains(obstacle, want) {
		o.failf("the order is answered by %v, %q, and should be by %v, %q", changed, obstacle, does, want)
	}
}

// runsNoMore reports whether an order comes too late, since the job is gone or over.
func (o *anyOrder) runsNoMore(j *twinJob, changed bool, obstacle string) bool {
	switch {
	case j == nil:
		o.answers(changed, obstacle, false, "")
	case j.over():
		o.answers(changed, obstacle, false, "the job is over")
	default:
		return false
	}
	return true
}

func (o *anyOrder) pause() {
	j, changed, obstacle := o.order("pause", o.someJob(), Operator.Pause)
	if o.runsNoMore(j, changed, obstacle) {
		return
	}
	o.answers(changed, obstacle, !j.pause, "")
	if !j.pause {
		j.pause, j.event = true, "paused"
		o.obey(j)
	}
}

func (o *anyOrder) resume() { o.resumed(o.order("resume", o.someJob(), Operator.Resume)) }

func (o *anyOrder) resumed(j *twinJob, changed bool, obstacle string) {
	switch {
	case o.runsNoMore(j, changed, obstacle):
	case j.asks.paused:
		o.answers(changed, obstacle, false, `says "paused": true`)
	default:
		o.answers(changed, obstacle, j.pause, "")
		if j.pause {
			j.pause, j.event = false, "resumed"
			o.obey(j)
		}
	}
}

func (o *anyOrder) reset() {
	now := o.now
	j, changed, obstacle := o.order("reset", o.someJob(), Operator.Reset)
	if o.runsNoMore(j, changed, obstacle) {
		return
	}
	does := j.reset == 0 || j.state == Running
	o.answers(changed, obstacle, does, "")
	if does {
		j.reset, j.stop, j.event = now, j.stop || j.state == Running, "reset"
	}
}

func (o *anyOrder) retry() {
	now := o.now
	j, changed, obstacle := o.order("retry", o.someJob(), Operator.Retry)
	switch {
	case j != nil && (j.state == Failed || j.state == Completed && len(j.listed) > 0):
		o.again(j, changed, obstacle, now)
	case o.runsNoMore(j, changed, obstacle):
	case o.obstacle(j) != "":
		o.answers(changed, obstacle, false, o.obstacle(j))
	default:
		waits := j.state != Running && !j.ready()
		o.answers(changed, obstacle, waits || len(j.listed) > 0, "")
		if waits {
			j.due, j.lot = 0, ""
		}
		if changed {
			j.event, j.asked = "retried", j.asked || len(j.listed) > 0
		}
	}
}

// again is that a job is over, and runs again.
func (o *anyOrder) again(j *twinJob, changed bool, obstacle string, now instant.Time) {
	defer func() {
		if j := o.jobs[j.id]; changed && !j.over() {
			j.event, j.asked = "retried", j.asked || len(j.listed) > 0
		}
	}()
	if j.database == "" {
		if other := o.copy().rival(j.id, j.repID); j.repID != "" && other != nil {
			o.answers(changed, obstacle, false, "another job has replication")
			return
		}
		o.answers(changed, obstacle, true, "")
		if j.repID != "" {
			o.rival(j.id, j.repID)
		}
		o.twin.put(&twinJob{id: j.id, user: j.user, asks: j.asks}, now)
		return
	}
	db := o.dbs[j.database]
	switch {
	case db == nil || instancePrefix(db.instance) != instanceOf(j.id):
		o.answers(changed, obstacle, false, "")
	case j.asks.wrong:
		o.answers(changed, obstacle, false, "the document asks for no replication that can run")
	default:
		o.answers(changed, obstacle, true, "")
		l := winner(db.docs[j.doc])
		l.state = ""
		l.rev.Gen++
		o.follow(j.database, j.doc, now)
	}
}

func (o *anyOrder) cancel() {
	if !o.one(2) {
		return
	}
	o.cancelJob(o.someJob())
}

func (o *anyOrder) cancelJob(id string) {
	cancel := func(op Operator, id, _ string) (bool, error) { return op.Cancel(id) }
	j, changed, obstacle := o.order("cancel", id, cancel)
	if j == nil || j.over() {
		o.answers(changed, obstacle, false, "")
		return
	}
	if j.database == "" {
		o.answers(changed, obstacle, true, "")
		o.remove(id)
		return
	}
	db := o.dbs[j.database]
	if db == nil || instancePrefix(db.instance) != instanceOf(j.id) {
		o.answers(changed, obstacle, false, "")
		return
	}
	o.answers(changed, obstacle, true, "")
	for _, l := range db.docs[j.doc] {
		if !l.deleted {
			*l = twinLeaf{rev: revtree.Rev{Gen: l.rev.Gen + 1}, deleted: true}
		}
	}
	o.remove(id)
}

func (o *anyOrder) hold() {
	h := []Hold{{Database: "_replicator"}, {Server: "h0"}, {Server: "h1"}}[o.draw(3)]
	now := o.now
	o.say("hold %s", h.ID())
	made, _, err := do(o, true, func(tx kv.Tx) (bool, error) {
		return Operator{Store: o.s, Tx: tx, Now: now}.MakeHold(h)
	})
	if _, is := o.holds[h.ID()]; err != nil || made == is {
		o.failf("the hold is made: %v, %v", made, err)
	}
	o.holds[h.ID()] = h
	delete(o.lifted, h.ID())
}

func (o *anyOrder) lift() {
	if ids := slices.Sorted(maps.Keys(o.holds)); len(ids) > 0 {
		o.liftHold(ids[o.draw(len(ids))])
	}
}

func (o *anyOrder) liftHold(id string) {
	o.say("lift %s", id)
	lifted, _, err := do(o, true, func(tx kv.Tx) (bool, error) {
		return Operator{Store: o.s, Tx: tx, Now: o.now}.LiftHold(id)
	})
	if _, is := o.holds[id]; err != nil || lifted != is {
		o.failf("the hold is lifted: %v, %v", lifted, err)
	}
	if lifted {
		delete(o.holds, id)
		o.lifted[id] = true
	}
}

// share has another policy be in force.
func (o *anyOrder) share() {
	c, now := DefaultSharing(), o.now
	c.Policy = schedule.Policy(o.draw(len(schedule.Policies())))
	c.Shares = map[string]int64{"_replicator": int64(1 + o.draw(300))}
	o.say("share %v", c.Policy)
	if _, _, err := do(o, true, func(tx kv.Tx) (bool, error) { return true, o.s.Share(tx, c, now) }); err != nil {
		o.failf("%v", err)
	}
	if c.Policy != o.policy {
		o.policy = c.Policy
		o.epoch++
	}
}

// given is an order that was carried out.
type given struct {
	name, id string
	job      *twinJob // that it was about
	do       func() error
}

// repeat gives an order again, as after an unknown result, which changes nothing whatever has come in between.
func (o *anyOrder) repeat() {
	if len(o.given) == 0 {
		return
	}
	g := o.given[max(0, len(o.given)-1-o.draw(3))]
	if o.s.Config.MaxHistory < 20 || g.job == nil || g.job != o.jobs[g.id] {
		return
	}
	o.say("%s of %q again", g.name, g.id)
	before := o.db.Hash()
	if err := g.do(); err != nil || o.db.Hash() != before {
		o.failf("the repetition changes something: %v", err)
	}
}

// discard has an operator remove a job that cannot be read. Its document is written again.
func (o *anyOrder) discard() {
	id := o.someJob()
	j := o.jobs[id]
	if j == nil || o.nested || !o.one(3) {
		return
	}
	k := o.s.Keys
	row := [][]byte{k.Jobs.Job.Pack(id), k.Jobs.Job.Pack(id, int64(0)), k.Spec.Pack(id, int64(0))}[o.draw(3)]
	if !j.runs && k.Spec.Contains(row) {
		return
	}
	o.say("row %q is damaged, and job %q discarded", row, id)
	o.do1(func(tx kv.Tx) error { tx.Set(row, []byte("{")); return nil })
	o.do1(func(tx kv.Tx) error { return Discard(tx, o.s, id) })
	for range 2 {
		for _, f := range o.findings() {
			o.mend(&f)
		}
	}
	o.remove(id)
	if db := o.dbs[j.database]; db != nil && instancePrefix(db.instance) == instanceOf(id) {
		if l := winner(db.docs[j.doc]); l != nil && !l.deleted {
			o.nested = true // until then a check finds a document without a job
			o.edit(j.database, j.doc, o.asks(), "", false)
			o.nested = false
		}
	}
}

// unreadable is that a job cannot be read for a while that would have the replication of one that is canceled.
func (o *anyOrder) unreadable() {
	if o.nested || len(o.rights) == 0 {
		return
	}
	repIDs := slices.Sorted(maps.Keys(o.rights))
	repID := repIDs[o.draw(len(repIDs))]
	owner, heir := o.jobs[o.rights[repID]], o.heir(repID)
	if heir == nil || o.isDropped(owner) {
		return
	}
	o.nested = true
	defer func() { o.nested = false }()
	row := o.s.Keys.Jobs.Job.Pack(heir.id, int64(0))
	value := get(o.bench, func(tx kv.Tx) ([]byte, error) { return tx.Get(row) })
	o.say("job %q cannot be read", heir.id)
	o.do1(func(tx kv.Tx) error { tx.Set(row, []byte("{")); return nil })
	o.odd = heir.id
	o.cancelJob(owner.id)
	if o.one(2) {
		o.request()
	}
	if o.one(2) {
		o.promoteSome(20, heir.id)
	}
	o.odd = ""
	o.do1(func(tx kv.Tx) error { tx.Set(row, value); return nil })
	o.promoteSome(20)
}
