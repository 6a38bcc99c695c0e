package jobstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

// time goes on, or the clock of a node is a little behind or ahead.
func (o *anyOrder) time() {
	d := []time.Duration{-5 * time.Second, time.Second, time.Minute, time.Minute, time.Hour, 30 * time.Hour}[o.draw(6)]
	o.now = o.now.Add(d)
	o.say("time %s", d)
}

// wrongClock has a node do something whose clock is wrong.
func (o *anyOrder) wrongClock() {
	if o.nested {
		return
	}
	const far = 100 * 24 * time.Hour
	d := []time.Duration{-time.Hour, -far, 7 * time.Minute, 30 * time.Hour, far}[o.draw(5)]
	o.say("a clock is wrong by %s", d)
	o.now = o.now.Add(d)
	o.event()
	o.now = o.now.Add(-d)
}

// older has the store be one of the first schema, or be indexed again.
func (o *anyOrder) older() {
	limit := 1 + o.draw(4)
	if !o.nested && o.one(8) {
		o.say("the store is of an older release")
		o.age()
		return
	}
	if _, _, err := do(o, false, func(tx kv.Tx) (bool, error) { return Reindex(tx, o.s, limit) }); err != nil {
		o.failf("%v", err)
	}
}

// vanish has the jobs of a worker be given back, and another worker join.
func (o *anyOrder) vanish() {
	if o.one(2) {
		o.join()
		return
	}
	o.expire(o.workers[o.draw(len(o.workers))])
}

func (o *anyOrder) join() {
	o.made++
	worker := fmt.Sprint("w", o.made)
	o.do1(func(tx kv.Tx) error { return o.s.Jobs.Register(tx, worker, nil) })
	o.workers = append(o.workers, worker)
}

// expire has a worker be gone. Another one is there.
func (o *anyOrder) expire(worker string) {
	var beat *[10]byte
	vanished := 0
	if o.one(2) {
		vanished = 1
		for _, l := range get(o.bench, func(tx kv.Tx) ([]jobs.Lease, error) { return o.s.Jobs.Leases(tx) }) {
			if l.Worker == worker {
				beat = &l.Beat
			}
		}
	}
	o.say("%s vanishes", worker)
	limit := 1 + o.draw(3)
	expire := func(tx kv.Tx) (bool, error) { return o.s.Jobs.Expire(tx, worker, beat, limit) }
	done, _, err := do(o, false, expire)
	for !done && err == nil {
		done, err = kv.Run(o.t.Context(), o.db, expire)
	}
	if err != nil {
		o.failf("%v", err)
	}
	if o.workers = slices.DeleteFunc(o.workers, func(w string) bool { return w == worker }); len(o.workers) == 0 {
		o.join()
	}
	for _, j := range o.jobs {
		if j.lock.Worker == worker {
			j.state, j.lock, j.stop, j.due, j.lot, j.lost = Pending, jobs.Lock{}, false, 0, "", j.lost+vanished
		}
	}
}

// promote ends waits, and brings jobs of lifted holds back.
func (o *anyOrder) promote() { o.promoteSome(1 + o.draw(20)) }

func (o *anyOrder) promoteSome(limit int, without ...string) {
	now := o.now
	moved, late, err := do(o, false, func(tx kv.Tx) (int, error) {
		n, _, err := o.s.Promote(tx, now, limit, without...)
		return n, err
	})
	if moved > 0 {
		o.say("%s: promote %d of %d", now, moved, limit)
	}
	if err != nil {
		o.failf("%v", err)
	}
	n := 0
	for _, row := range slices.Sorted(maps.Keys(o.lifted)) {
		if !strings.HasPrefix(row, lotBehind) {
			continue
		}
		left := get(o.bench, func(tx kv.Tx) ([]byte, error) { return tx.Get(o.s.Keys.Lifted.Pack(row)) })
		goes, all := o.copy().succeed(row, without...), !late && moved < limit && limit > len(o.lifted)
		if is := left == nil; is != goes && (is || all) {
			o.failf("%s is free: %v", row, !is)
		} else if is {
			o.twin.succeed(row, without...)
			n++
		}
	}
	for _, id := range o.ids() {
		j := o.jobs[id]
		if j.state == Running || j.over() {
			continue
		}
		is := get(o.bench, func(tx kv.Tx) (*jobs.Job, error) { return o.s.Jobs.Get(tx, id) })
		hold, held := strings.CutPrefix(j.lot, lotHeld)
		switch {
		case is == nil:
		case j.lot == "" && is.Due != j.due:
			if is.Due != 0 || j.due > now && j.due <= now.Add(72*time.Hour) {
				o.failf("job %q, due %s, is due %s", id, j.due, is.Due)
			}
			n++
			j.due = 0
		case held && is.Lot == "":
			if !o.lifted[hold] || is.Due < max(j.due, now) || is.Due > max(j.due, now+liftSpread) {
				o.failf("job %q, due %s, leaves %s and is due %s", id, j.due, j.lot, is.Due)
			}
			n++
			j.lot, j.due = "", is.Due
		}
	}
	for _, id := range o.ids() {
		j := o.jobs[id]
		hold, held := strings.CutPrefix(j.lot, lotHeld)
		waits := j.lot == "" && j.due != 0 && j.due <= now || held && o.lifted[hold]
		if !late && moved < limit && limit > len(o.lifted) && waits {
			o.failf("job %q still waits: %+v", id, j)
		}
	}
	if n != moved {
		o.failf("%d are moved, told are %d", n, moved)
	}
}

// sweep removes what nothing needs any more.
func (o *anyOrder) sweep() {
	now, limit := o.now, 1+o.draw(20)
	done, late, err := do(o, false, func(tx kv.Tx) (bool, error) { return o.s.Sweep(tx, now, limit, limit) })
	if err != nil {
		o.failf("%v", err)
	}
	order := get(o.bench, func(tx kv.Tx) (schedule.Order, error) { return o.s.Order(tx) })
	if order.Epoch > o.epoch {
		last := instant.Time(0)
		for _, j := range o.jobs {
			if j.ready() && j.place.epoch == o.epoch {
				last = max(last, j.place.key)
			}
		}
		if o.epoch++; o.policy != schedule.FIFO || order.Epoch != o.epoch || last <= now.Add(10*time.Minute) {
			o.failf("a sweep begins another epoch: %+v, though the last job is queued at %s", order, last)
		}
	}
	list := get(o.bench, func(tx kv.Tx) ([]*jobs.Job, error) { return o.s.Jobs.List(tx, jobs.Page{Limit: 1 << 20}) })
	there := map[string]bool{}
	for _, j := range list {
		there[j.ID] = true
	}
	for _, id := range o.ids() {
		j := o.jobs[id]
		due := o.isDropped(j) || j.expires != 0 && (j.expires <= now || j.expires >= now.Add(48*time.Hour))
		if !there[id] && !due {
			o.failf("job %q is swept away", id)
		}
		if there[id] && due && done && !late {
			o.failf("job %q is not swept away", id)
		}
	}
	for _, id := range o.ids() {
		if !there[id] {
			o.say("%s: a sweep up to %d, done %v, removes %q", now, limit, done, id)
			o.remove(id)
		}
	}
}

// damage is that a row is lost which can be made anew, and is.
func (o *anyOrder) damage() {
	k := o.s.Keys
	var may []kv.KeyValue
	for _, row := range o.db.Pairs() {
		for _, space := range []interface{ Contains([]byte) bool }{
			k.Jobs.Ready, k.Jobs.Waiting, k.Jobs.Parked, k.Jobs.Owned, k.Jobs.Changed, k.Jobs.Count, k.Index, k.Tally,
			k.Count, k.Weights, k.Expire,
		} {
			if space.Contains(row.Key) {
				may = append(may, row)
			}
		}
	}
	if len(may) == 0 || !o.one(3) {
		return
	}
	row := may[o.draw(len(may))]
	o.say("lost is %q", row.Key)
	o.do1(func(tx kv.Tx) error { tx.Clear(row.Key); return nil })
	for _, f := range o.findings() {
		o.mend(&f)
	}
	for _, f := range o.findings() {
		o.failf("a check still finds %s: %s", f.Key, f.What)
	}
}
