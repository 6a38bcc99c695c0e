package jobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/schedule"

	"pgregory.net/rapid"
)

// TestAnyOrder has users write documents and send requests, operators give orders, workers take jobs, end them, stand
// still and vanish, and databases be deleted and made again, in any order. Commits are late, or repeated. After each
// event the store says what a twin of plain values says. In the end each job that may run is run, and when all
// documents are deleted nothing is left.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := newAnyOrder(t, rt)
		for range 10 + o.draw([]int{10, 50, 150}[o.draw(3)]) {
			o.event()
		}
		o.settle()
		o.clear()
	})
}

// anyOrder is one sequence of events.
type anyOrder struct {
	*bench
	*twin
	rt      *rapid.T
	works   []Work // that workers have taken, also of runs that have ended
	workers []string
	given   []*given
	made    int // of things with names of their own
	batches map[string]uint64
	nested  bool
	told    []string
}

func newAnyOrder(t *testing.T, rt *rapid.T) *anyOrder {
	o := &anyOrder{
		bench: newBench(t), rt: rt, batches: map[string]uint64{},
		twin: &twin{
			dbs: map[string]*twinDB{}, jobs: map[string]*twinJob{}, rights: map[string]string{},
			holds: map[string]Hold{}, lifted: map[string]bool{}, dropped: map[string]bool{}, waits: true,
		},
	}
	o.dbs["_replicator"] = &twinDB{instance: tuple.UUID{1}, docs: map[string][]*twinLeaf{}}
	o.workers = []string{"w"}
	c := &o.s.Config
	o.waits = o.draw(5) > 0
	c.DuplicatesWait, c.MaxRefused, c.MaxHistory = o.waits, 2, []int{1, 3, 20}[o.draw(3)]
	o.policy = schedule.Policy(o.draw(len(schedule.Policies())))
	c.Sharing.Policy = o.policy
	o.s.Functions = keeping{}
	if o.one(4) {
		o.bench.put("_design/d", `{"validate_doc_update":"f"}`, admin)
		o.silent = instancePrefix(tuple.UUID{1})
	}
	o.s.Jobs.Incarnation = get(o.bench, func(tx kv.Tx) (int64, error) { return o.s.Keys.Jobs.Incarnate(tx) })
	return o
}

// keeping is an engine whose functions keep the states of jobs out of documents.
type keeping struct{}

func (keeping) Validate(a Asked) *docs.Error {
	if bytes.Contains(a.User, []byte(`"replicator"`)) {
		return docs.Forbidden("no states")
	}
	return nil
}

func (o *anyOrder) draw(n int) int { return rapid.IntRange(0, n-1).Draw(o.rt, "") }

func (o *anyOrder) one(n int) bool { return o.draw(n) == 0 }

func (o *anyOrder) say(format string, a ...any) { o.told = append(o.told, fmt.Sprintf(format, a...)) }

func (o *anyOrder) failf(format string, a ...any) {
	o.rt.Helper()
	o.rt.Fatalf("%s\n%s", fmt.Sprintf(format, a...), strings.Join(o.told, "\n"))
}

// event has one thing happen.
func (o *anyOrder) event() {
	o.now++
	all := o.kinds()
	names := slices.Sorted(maps.Keys(all))
	all[names[o.draw(len(names))]]()
	if o.nested {
		o.do1(func(tx kv.Tx) error { o.compareDocs(tx); return nil })
	} else {
		o.compare()
	}
	for _, g := range o.given {
		if g.job == nil {
			g.job = o.jobs[g.id]
		}
	}
}

// kinds are all that may happen.
func (o *anyOrder) kinds() map[string]func() {
	return map[string]func(){
		"write": o.write, "write again": o.write, "more": o.write, "branch": o.branch, "delete": o.deleteDoc,
		"several": o.several, "repeat": o.repeat, "repeat again": o.repeat, "wrong clock": o.wrongClock,
		"older":   o.older,
		"discard": o.discard, "unreadable": o.unreadable, "unreadable too": o.unreadable,
		"drop": o.drop, "request": o.request, "withdraw": o.withdraw,
		"pause": o.pause, "resume": o.resume, "retry": o.retry, "retry again": o.retry, "reset": o.reset,
		"cancel": o.cancel,
		"hold":   o.hold, "lift": o.lift, "share": o.share, "time": o.time,
		"accept": o.accept, "accept more": o.accept, "accept all": o.accept,
		"run": o.run, "run on": o.run, "runs": o.run, "run more": o.run, "run once more": o.run,
		"vanish": o.vanish, "promote": o.promote, "promote again": o.promote, "sweep": o.sweep, "damage": o.damage,
	}
}

// do carries out a transaction. Its commit may come after another event, and it may be repeated once it has committed.
// late reports whether another event came between its reads and its commit.
func do[T any](o *anyOrder, again bool, f func(kv.Tx) (T, error)) (result T, late bool, err error) {
	if !o.nested && o.one(4) {
		result, late = doLate(o, f)
	}
	if !late {
		result, err = kv.Run(context.Background(), o.db, f)
	}
	if err == nil && again && o.one(3) {
		before := o.db.Hash()
		_, err := kv.Run(context.Background(), o.db, f)
		if err != nil && !errors.Is(err, jobs.ErrHalt) {
			o.failf("repeated: %v", err)
		}
		if o.db.Hash() != before {
			o.failf("the repetition changed the store")
		}
	}
	return result, late, err
}

// doLate commits after another event. It is not done if that is in its way, or if there is nothing to commit.
func doLate[T any](o *anyOrder, f func(kv.Tx) (T, error)) (result T, done bool) {
	tx := o.db.Begin(context.Background(), kv.Options{})
	defer tx.Cancel()
	result, err := f(tx)
	if err != nil {
		return result, false
	}
	o.nested = true
	o.say("  meanwhile:")
	o.event()
	o.nested = false
	if err := tx.Commit(); err != nil {
		if !kv.Retryable(err) {
			o.failf("late: %v", err)
		}
		o.say("  which is in its way")
		return result, false
	}
	_, err = tx.Versionstamp()
	return result, err == nil
}

// compare has the store say what the twin says.
func (o *anyOrder) compare() {
	often := !o.one(4)
	o.do1(func(tx kv.Tx) error {
		list, err := o.s.Jobs.List(tx, jobs.Page{Limit: 1 << 20})
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, j := range list {
			seen[j.ID] = true
			o.compareJob(tx, j)
		}
		for _, id := range o.ids() {
			if !seen[id] {
				o.failf("job %q is gone", id)
			}
		}
		o.compareDocs(tx)
		if often {
			return nil
		}
		for repID, id := range o.rights {
			o.compareRight(tx, repID, id)
		}
		return errors.Join(o.s.Jobs.Audit(tx), o.s.Audit(tx))
	})
	if often {
		return
	}
	indexed := get(o.bench, func(tx kv.Tx) (bool, error) { return o.s.Keys.complete(tx) })
	o.compareSums(indexed)
	if o.one(4) {
		for _, f := range o.findings() {
			o.failf("a check finds %s: %s", f.Key, f.What)
		}
	}
}

// compareJob compares a job.
func (o *anyOrder) compareJob(tx kv.Tx, j *jobs.Job) {
	want := o.jobs[j.ID]
	if want == nil {
		o.failf("job %q should not be there: %s", j.ID, j)
	}
	rec, err := decodeRecord(j)
	if err != nil {
		o.failf("%v", err)
	}
	v := rec.View()
	got := fmt.Sprint(j.State == jobs.Running, j.State == jobs.Finished, j.Lot, j.Due, j.Lock, j.Stop, j.Lost,
		v.State, rec.RepID, rec.BaseID, rec.Account(), rec.User, rec.Expires, rec.Listed(), rec.State)
	wants := fmt.Sprint(want.state == Running, want.over(), want.lot, want.due, want.lock, want.stop,
		want.lost, want.view(), want.repID, want.base, want.account(), want.user, want.expires, len(want.listed),
		want.state)
	if !want.over() {
		got += fmt.Sprint(" ", rec.Pause != nil, rec.PausedByDocument, rec.Weight, rec.Reset, rec.ErrorCount)
		wants += fmt.Sprint(" ", want.pause, want.asks.paused, want.asks.weight, want.reset, want.errors)
	}
	if got != wants {
		o.failf("job %q is\n%s, not\n%s", j.ID, got, wants)
	}
	if n := len(rec.History); n > o.s.Config.MaxHistory || want.event != "" && rec.History[0].Type != want.event {
		o.failf("job %q has a history of %+v, and should have %s", j.ID, rec.History, want.event)
	}
	if asked, err := o.s.Keys.retryAsked(tx, j.ID); err != nil || (asked != 0) != want.asked {
		o.failf("of job %q is demanded to try documents again: %s, %v", j.ID, asked, err)
	}
	if rep, err := o.s.Spec(tx, j.ID); err != nil || (rep != nil) != want.runs {
		o.failf("job %q has the replication %v, %v", j.ID, rep, err)
	}
	list, err := o.s.Keys.Refusals(tx, j.ID, "", "", 9)
	if n := len(list); err != nil || n != len(want.listed) {
		o.failf("job %q lists %d refused documents, not %d: %v", j.ID, n, len(want.listed), err)
	}
}

func (o *anyOrder) compareDocs(tx kv.Tx) {
	for name, db := range o.dbs {
		for id := range db.docs {
			o.compareDoc(tx, name, db, id)
		}
	}
}

// compareDoc compares a document with its leaves, whose names the twin learns.
func (o *anyOrder) compareDoc(tx kv.Tx, name string, db *twinDB, id string) {
	in, err := o.s.Docs.Open(tx, name)
	if err != nil {
		o.failf("%v", err)
	}
	all, err := in.OpenRevs([]docs.Wanted{{ID: id}}, false)
	if err != nil {
		o.failf("%v", err)
	}
	opened := all[0]
	if len(opened) != len(db.docs[id]) {
		o.failf("%s/%s has %d leaves, not %d", name, id, len(opened), len(db.docs[id]))
	}
	left := slices.Clone(opened)
	for _, l := range db.docs[id] {
		i := slices.IndexFunc(left, func(d docs.Opened) bool {
			c, err := parseContent(d.Doc.Body)
			return err == nil && d.Doc.Rev.Gen == l.rev.Gen && d.Doc.Deleted == l.deleted &&
				(l.deleted || stateOf(c.body) == string(l.state) && bodyIs(d.Doc.Body, l))
		})
		if i < 0 {
			o.failf("%s/%s has no leaf as %+v: %+v", name, id, l, opened)
		}
		l.rev = left[i].Doc.Rev
		left = slices.Delete(left, i, i+1)
	}
	j := o.jobs[documentJobID(db.instance, id)] // nil if the document is deleted
	w := winner(db.docs[id])
	silent := w.state == "" && instancePrefix(db.instance) == o.silent
	if !w.deleted && !silent && (w.state != "") != j.over() {
		o.failf("document %s/%s says %q, and its job is %s", name, id, w.state, j.state)
	}
}

// bodyIs reports whether a document asks for that, and is of a user.
func bodyIs(body []byte, l *twinLeaf) bool {
	asks := strings.TrimSuffix(l.asks.body(), "}")
	more, is := strings.CutPrefix(string(body), asks)
	return is && (more[0] == '}' || strings.HasPrefix(more, `,"owner`) || strings.HasPrefix(more, `,"_repl`)) &&
		OwnerOf(body) == l.user
}

// compareRight compares which job has the right to run as a replication.
func (o *anyOrder) compareRight(tx kv.Tx, repID, id string) {
	owner, wrong := o.s.JobOf(tx, repID)
	found, _, err := o.s.Find(tx, repID)
	if err = errors.Join(wrong, err); err != nil {
		o.failf("%v", err)
	}
	if o.isDropped(o.jobs[id]) {
		id = ""
	}
	if found != id || id != "" && owner != id {
		o.failf("replication %s is of %q, found is %q, not %q", repID, owner, found, id)
	}
}

// compareSums counts all jobs.
func (o *anyOrder) compareSums(indexed bool) {
	counts, weights, states := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, j := range o.jobs {
		g := groupOf(j.id, j.over())
		if indexed {
			states[string(o.s.Keys.tallyRow("", g, label{byState, string(j.view())}))]++
		}
		if !j.over() && (j.lot == "" || j.state == Running) {
			counts[j.account()]++
			if j.asks.weight != 0 {
				weights[j.account()] += j.asks.weight - schedule.DefaultWeight
			}
		}
	}
	for _, row := range o.db.Pairs() {
		var account, instance, field, value string
		var g int64
		n, want, of := kv.Counter(row.Value), int64(0), false
		k := o.s.Keys
		switch {
		case k.Count.Scan(row.Key, &account) == nil:
			want, of = counts[account], true
			delete(counts, account)
		case k.Weights.Scan(row.Key, &account) == nil:
			want, of = weights[account], true
			delete(weights, account)
		case k.Tally.Scan(row.Key, &instance, &g, &field, &value) == nil && instance == "" && field == byState:
			want, of = states[string(row.Key)], indexed
			delete(states, string(row.Key))
		}
		if of && n != want {
			o.failf("row %q is %d, not %d", row.Key, n, want)
		}
	}
	maps.DeleteFunc(weights, func(_ string, n int64) bool { return n == 0 })
	if len(counts)+len(weights)+len(states) > 0 {
		o.failf("there are no rows for %v, %v, %v", counts, weights, states)
	}
}

// settle has all that may run be run, and all be over.
func (o *anyOrder) settle() {
	o.nested = true // nothing comes between
	for _, h := range slices.Sorted(maps.Keys(o.holds)) {
		o.liftHold(h)
	}
	for _, id := range o.ids() {
		if j := o.jobs[id]; j.asks.paused && !j.over() && !o.isDropped(j) {
			a := j.asks
			a.paused = false
			o.edit(j.database, j.doc, a, "", false)
		}
		if j := o.jobs[id]; j.pause && !o.isDropped(j) {
			o.resumed(o.order("resume", id, Operator.Resume))
		}
		o.now++
	}
	for done := false; !done; {
		done = get(o.bench, func(tx kv.Tx) (bool, error) { return Reindex(tx, o.s, 100) })
	}
	for round := 0; ; round++ {
		o.now = o.now.Add(3 * 24 * time.Hour)
		for _, w := range slices.Clone(o.workers) {
			o.expire(w)
		}
		for range 3 {
			o.sweep()
			o.promote()
		}
		o.acceptSome(jobs.Demand{Max: 100, Window: 100})
		for _, w := range o.works {
			if j := o.jobs[w.JobID]; j != nil && j.lock == w.Lock {
				o.runToItsEnd(w)
			}
		}
		o.works = nil
		left := slices.DeleteFunc(o.ids(), func(id string) bool {
			j := o.jobs[id]
			return j.over()
		})
		if o.compare(); len(left) == 0 {
			break
		}
		if round > 30 {
			o.failf("these jobs are never over: %q", left)
		}
	}
}

// clear deletes all, and wants nothing to be left.
func (o *anyOrder) clear() {
	for _, name := range slices.Sorted(maps.Keys(o.dbs)) {
		for _, id := range slices.Sorted(maps.Keys(o.dbs[name].docs)) {
			for !winner(o.dbs[name].docs[id]).deleted {
				o.edit(name, id, asks{}, "", true)
				o.compare()
			}
		}
	}
	for range 60 {
		o.now = o.now.Add(30 * 24 * time.Hour)
		o.sweep()
		o.promote()
	}
	o.compare()
	if len(o.jobs) > 0 {
		o.failf("jobs are left: %q", o.ids())
	}
	k := o.s.Keys
	for _, row := range o.db.Pairs() {
		for _, space := range []tuple.Subspace{
			k.Spec, k.Claim, k.Expire, k.Dropped, k.Held, k.Lifted, k.Refused, k.Retry, k.Index, k.Usage,
			k.Jobs.Job, k.Jobs.Ready, k.Jobs.Waiting, k.Jobs.Parked, k.Jobs.Owned, k.Jobs.Changed,
		} {
			if space.Contains(row.Key) {
				o.failf("left is %q: %q", row.Key, row.Value)
			}
		}
		counts := k.Tally.Contains(row.Key) || k.Count.Contains(row.Key) || k.Weights.Contains(row.Key)
		if n := kv.Counter(row.Value); counts && n != 0 {
			o.failf("left is %q: %d", row.Key, n)
		}
	}
	if n := get(o.bench, func(tx kv.Tx) (jobs.Counts, error) { return o.s.Jobs.Counts(tx) }); n != (jobs.Counts{}) {
		o.failf("counted are %+v", n)
	}
}
