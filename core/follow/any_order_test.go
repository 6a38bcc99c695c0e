package follow_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/replication"

	"pgregory.net/rapid"
)

// TestAnyOrder has users write, with and without states, delete and write again, while jobs end and operators have them
// run again. Each operation takes effect at one time, and its answer comes at another one, or does not. Workers are
// killed, feeds bring rows again, nodes lag behind, databases are made anew. Nothing is written over what a user wrote,
// no document has its job run twice, and in the end each document has the state of its job.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "") }
		d := []disorder{{}, {retries: true}, {retries: true}, {retries: true, cluster: true}, {anew: true}}[draw(5)]
		newOrder(rt, d, draw).play()
	})
}

// disorder is what may happen besides writes, ends of jobs, and lost answers.
type disorder struct {
	retries bool // operators have jobs run again
	cluster bool // the feed brings rows again, and reads lag behind
	anew    bool // the database is deleted and made anew
}

// order is one sequence of events.
type order struct {
	*world
	disorder
	draw    func(n int) int
	calm    bool
	silent  bool                // the feed is
	answers map[flight]func()   // by what has taken effect: its answer
	late    []func()            // requests whose senders do not wait for them any more
	retried map[string]bool     // documents whose jobs operators have had run again
	users   map[string]*wrote   // by document
	was     map[string][]string // all that documents have been
	lags    []*couch            // as nodes had the database
	n       int                 // events so far
	told    []string
}

// flight names an operation, or a transaction if run is 0.
type flight struct {
	k       *worker
	run, id uint64
}

// wrote is what the last user of a document has written.
type wrote struct {
	body  string // but for the state; empty if it is deleted
	state string // with it, if that is terminal
	n     int    // when the document lost its state, or got another body
	fresh bool   // no earlier document had this body, and this is the only write with it
	known bool   // the job has ended since, and knew the document
	ended []int  // when jobs of this body have ended
	retry bool   // an operator has had the job run again since
}

func newOrder(t fataler, d disorder, draw func(n int) int) *order {
	o := &order{
		world: newWorld(t), disorder: d, draw: draw, answers: map[flight]func(){}, users: map[string]*wrote{},
		retried: map[string]bool{}, was: map[string][]string{},
	}
	o.couch.clustered = d.cluster
	o.couch.counts = draw(2) == 0
	o.store.Pages = follow.Pages{Read: 1 + draw(3), Look: 1 + draw(3), Send: 1 + draw(3), Sweep: 1 + draw(3)}
	o.fault = func(op peer.Op) fault {
		if _, writes := op.(peer.EditDocs); !o.calm && (writes || draw(16) == 0) {
			return []fault{"", "", "", lost, lost, lost, refused, conflicts, failsSome, leavesOut}[draw(10)]
		}
		return ""
	}
	return o
}

func (o *order) say(format string, a ...any) {
	o.told = append(o.told, fmt.Sprintf("%d "+format, append([]any{o.n}, a...)...))
}

func (o *order) failf(format string, a ...any) {
	o.t.Helper()
	o.t.Fatalf("%s\n%s", fmt.Sprintf(format, a...), strings.Join(o.told, "\n"))
}

// play plays the events, and judges what became of them.
func (o *order) play() {
	o.start()
	o.settle(2 * time.Second)
	for range 10 + o.draw(100) {
		o.silent = o.draw(2) == 0
		for range o.draw([]int{2, 10, 20, 60}[o.draw(4)]) {
			o.n++
			o.work()
		}
		o.n++
		o.happens()
		o.check()
	}
	o.calm = true
	for _, f := range o.late {
		f()
	}
	o.deliver()
	o.settle(12 * time.Minute)
	ops, written := len(o.ops), o.couch.seq
	o.settle(6 * time.Minute)
	if n := len(o.ops) - ops; n > 20 || o.couch.seq != written {
		o.failf("it does not come to rest: %d operations, %d writes", n, o.couch.seq-written)
	}
	o.judge()
}

// deliver has all answers come.
func (o *order) deliver() {
	for _, k := range o.workers {
		for _, a := range slices.Clone(k.asks) {
			if f := o.answers[flight{k, 0, a.ID}]; f != nil {
				f()
			}
		}
		for _, c := range slices.Clone(k.calls) {
			if f := o.answers[flight{k, c.Run, c.ID}]; f != nil {
				f()
			}
		}
	}
}

// work has one thing happen that workers wait for.
func (o *order) work() {
	var may []func()
	for _, k := range o.workers {
		for _, a := range k.asks {
			f := flight{k, 0, a.ID}
			if deliver := o.answers[f]; deliver != nil && o.draw(8) > 0 {
				may = append(may, deliver)
			} else {
				may = append(may, func() { o.commit(f, a) })
			}
		}
		for _, c := range k.calls {
			f := flight{k, c.Run, c.ID}
			if deliver := o.answers[f]; deliver != nil {
				may = append(may, deliver)
			} else if feed, is := c.Op.(peer.ReadChanges); !is || !o.silent && o.brings(feed) {
				may = append(may, func() { o.serve(f, c) })
			}
		}
	}
	if n := len(may); n > 0 && o.draw(10) > 0 {
		may[o.draw(n)]()
	} else if o.pass(tick); n == 0 {
		o.leap(o.now.Add(5 * time.Second))
	}
}

// brings reports whether a request for the feed is answered at once.
func (o *order) brings(feed peer.ReadChanges) bool {
	return !feed.Wait || len(o.couch.changes(feed).Rows) > 0
}

// commit carries a transaction out, perhaps once more.
func (o *order) commit(f flight, a follow.Ask) {
	result, err := kv.Run(context.Background(), o.db, func(tx kv.Tx) (follow.Result, error) {
		return follow.Perform(tx, o.store, a.Request, o.now)
	})
	answer := follow.Answer{ID: a.ID, Result: result}
	if err != nil {
		answer = follow.Failed(a.ID, err)
	} else if o.draw(12) == 0 {
		answer = follow.Answer{ID: a.ID, Outcome: follow.StoreDown, Text: "lost"}
	}
	o.say("%s: %s %v", a.Request, answer.Outcome, err)
	o.answers[f] = func() {
		delete(o.answers, f)
		f.k.asks = slices.DeleteFunc(f.k.asks, func(is follow.Ask) bool { return is.ID == a.ID })
		o.say("answer to %s", a.Request)
		f.k.tell(answer)
	}
}

// serve has the server carry an operation out.
func (o *order) serve(f flight, c follow.Call) {
	op, wrong := c.Op, o.fault(c.Op)
	reply := peer.Reply{Failure: &peer.Failure{Kind: peer.TimedOut}}
	feed, feeds := op.(peer.ReadChanges)
	couch := o.couch
	_, writes := op.(peer.EditDocs)
	switch {
	case writes && wrong == lost && o.draw(2) == 0:
		o.late = append(o.late, func() { o.carryOut(op, "", "late ") })
	case o.cluster && feeds && !feed.Wait && o.draw(6) == 0:
		feed.Since = peer.Zero
		op = feed
		reply = couch.answer(op, wrong)
	case o.cluster && !writes && !feeds && len(o.lags) > 0 && o.draw(6) == 0:
		reply = o.lags[o.draw(len(o.lags))].answer(op, wrong)
	default:
		reply = o.carryOut(op, wrong, "")
	}
	o.say("%v: %s", op, fmt.Sprintf("%v%+v", wrong, reply))
	o.answers[f] = func() {
		delete(o.answers, f)
		i := slices.IndexFunc(f.k.calls, func(is follow.Call) bool { return is.Run == c.Run && is.ID == c.ID })
		if i < 0 {
			return // it was canceled
		}
		f.k.calls = slices.Delete(f.k.calls, i, i+1)
		o.say("reply to %v", op)
		f.k.tell(follow.Reply{Run: c.Run, ID: c.ID, Reply: reply})
	}
}

// carryOut carries an operation out, and looks what was written.
func (o *order) carryOut(op peer.Op, wrong fault, how string) peer.Reply {
	before := maps.Clone(o.couch.docs)
	reply := o.couch.answer(op, wrong)
	for id, d := range o.couch.docs {
		if d != before[id] {
			o.say("%s%s is %s %s", how, id, d.rev(), d.body)
			o.was[id] = append(o.was[id], d.body)
		}
	}
	return reply
}

// happens is an event that workers did not ask for.
func (o *order) happens() {
	id := string("aaab"[o.draw(4)])
	u := o.users[id]
	switch r := o.draw(24); {
	case r < 3, u == nil, u.body == "":
		o.writes(id)
	case r < 14:
		o.ends(id)
	case r < 17:
		o.pass([]time.Duration{250 * time.Millisecond, 4 * time.Second, 31 * time.Second, 11 * time.Minute}[o.draw(4)])
	case r < 18 && o.draw(4) == 0:
		o.killed(o.workers[0])
	case r < 19:
		for _, k := range o.workers {
			o.say("cut")
			k.cut()
		}
	case r < 20 && len(o.late) > 0:
		f := o.late[0]
		o.late = o.late[1:]
		f()
	case r < 23 && o.cluster && o.draw(2) == 0:
		o.lags = append(o.lags, o.couch.backup())
	case r < 23 && o.anew && o.draw(4) == 0:
		o.madeAnew()
	case o.draw(3) == 0:
		o.say("quiet")
		o.deliver()
		o.calm = true
		o.settle(10 * time.Second)
		o.calm = false
	default:
		o.pass(tick)
	}
}

// killed ends a worker. What it has asked for may still take effect.
func (o *order) killed(k *worker) {
	o.say("kill")
	for _, a := range k.asks {
		o.late = append(o.late, func() {
			o.say("late %s", a.Request)
			_, _ = kv.Run(context.Background(), o.db, func(tx kv.Tx) (follow.Result, error) {
				return follow.Perform(tx, o.store, a.Request, o.now)
			})
		})
	}
	for _, c := range k.calls {
		if _, writes := c.Op.(peer.EditDocs); writes && o.answers[flight{k, c.Run, c.ID}] == nil {
			o.late = append(o.late, func() { o.carryOut(c.Op, "", "late ") })
		}
	}
	o.kill(k)
	o.do(func(tx kv.Tx) error {
		leases, err := o.store.Queue.Leases(tx)
		for _, l := range leases {
			if _, e := o.store.Queue.Expire(tx, l.Worker, nil, follow.MaxDatabases); e != nil {
				err = e
			}
		}
		return err
	})
	maps.DeleteFunc(o.answers, func(f flight, _ func()) bool { return f.k == k })
	o.start()
}

func (o *order) madeAnew() {
	o.say("anew")
	o.couch.instance += "'"
	o.couch.docs, o.couch.known = map[string]*document{}, map[string]bool{}
	o.couch.seq = 0
	clear(o.users)
	o.late = nil
}

// writes has a user write a document.
func (o *order) writes(id string) {
	u, body, state := o.users[id], "", ""
	if d := o.couch.docs[id]; d != nil && !d.deleted {
		body, state = parted(d.body)
	}
	before, again := state, false
	fresh := fmt.Sprintf(`{"source":"http://a/x","target":"http://b/%s%d"}`, id, o.n)
	if o.draw(12) == 0 {
		fresh = fmt.Sprintf(`{"source":"http://a/x%d"}`, o.n)
	}
	is := wrote{n: o.n}
	switch r := o.draw(16); {
	case body == "" && r < 12, r < 5:
		body, state, is.fresh = fresh, "", true
	case r < 7 && body != "":
		body, is.fresh = fresh, true
	case r < 10 && body != "":
		state = ""
	case r < 11 && body != "":
	case r < 13 && body != "":
		s := []string{"completed", "failed", "error", "triggered"}[o.draw(4)]
		state = fmt.Sprintf(`"_replication_state":%q,"_replication_state_time":"t%d"`, s, o.n)
	case r < 14 && len(o.was[id]) > 0:
		body, state = parted(o.was[id][o.draw(len(o.was[id]))])
		again = true
	case body != "":
		body, state = "", ""
	default:
		return
	}
	is.body = body
	text := joined(body, state)
	o.write(id, text)
	o.say("user writes %s: %s %s", id, o.couch.docs[id].rev(), text)
	if u != nil && u.body == body && body != "" {
		is.ended = u.ended
		if before == state || before == "" {
			is.n = u.n
		}
		is.retry = u.retry && state == before
	}
	is.retry = is.retry || again && o.retried[id]
	if strings.Contains(state, "completed") || strings.Contains(state, "failed") {
		is.state = state
	}
	if text != "" {
		o.was[id] = append(o.was[id], text)
	}
	o.users[id] = &is
}

// ends has the job of a document end.
func (o *order) ends(id string) {
	state, _ := o.job(id)
	if u := o.users[id]; state.Terminal() && o.retries {
		err := o.retry(id)
		o.say("retry %s: %v", id, err)
		if u != nil && err == nil {
			u.known, u.retry, u.n, o.retried[id] = false, true, o.n, true
		}
	}
	if state != jobstore.Pending {
		return
	}
	o.now = o.now.Add(time.Second) // states have their times
	body, _ := parted(o.mirrored(id))
	fails := o.draw(3) > 0
	o.endJob(id, fails)
	state, _ = o.job(id)
	o.say("the job of %s is %s: %s", id, state, body)
	if u := o.users[id]; u != nil && u.body == body && state.Terminal() {
		u.ended = append(u.ended, o.n)
		u.known = u.fresh
	}
}

func (o *order) endJob(id string, fails bool) {
	_, jobID := o.job(id)
	o.batch++
	o.do(func(tx kv.Tx) error {
		if err := o.relay.Jobs.Register(tx, "node", nil); err != nil {
			return err
		}
		got, err := o.relay.Accept(tx, "node", "node", jobs.Demand{Batch: o.batch, Max: 100, Window: 100}, o.now)
		if err != nil {
			return err
		}
		for _, work := range got.Work {
			held := o.relay.Owned(tx, work.JobID, work.Lock, o.now)
			switch {
			case work.JobID != jobID:
				err = held.Requeue(nil, jobstore.Turn{})
			case fails:
				err = held.Fail(trouble, jobstore.Turn{})
			default:
				err = held.Complete(replication.End{Cause: replication.Completed}, jobstore.Turn{})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
