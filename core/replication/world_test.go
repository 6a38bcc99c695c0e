package replication

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// world drives one run after the other between a source and a target. Requests complete in any order, late, not at
// all, or with their answer lost.
type world struct {
	t      *testing.T
	dbs    [2]*database
	now    instant.Time
	plan   Plan
	run    *Run
	flying []Call
	kept   map[uint64][]peer.DocRev
	open   *openAnswer
	before map[string][]string // leafs of the source when the run began
	calls  []string            // every call, in order
	end    *End
	told   []report // every Progress of the run
	// fault decides what goes wrong with a call; it may be nil.
	fault func(Call) fault
	// answer makes a call fail with what it returns; it may be nil.
	answer func(Call) *peer.Failure
	// reply answers a call in place of the databases, unless it returns nil; it may be nil.
	reply func(Call) *peer.Reply
	// rows replaces the source's changes feed; it may be nil.
	rows       func(peer.ReadChanges) peer.Changes
	filter     string // text of the filter function
	filterRev  string
	identified string // id that the run last claimed
	maxWrite   int    // documents that the target takes in one request, 0 for any
	tooLarge   string // document that it takes in none
	since      int64  // changes up to here are not wanted
	vanished   bool   // the source has none of the revisions that it announced
	steps      int

	bodies
	listing
	oddities
}

// bodies are the sizes of documents.
type bodies struct {
	docSize int // bytes of a document
	// attachments names documents that FetchDocs does not carry.
	attachments map[string]bool
	// inline has documents that FetchDocs carries only with their attachments, and their sizes then.
	inline map[string]int
}

// openAnswer is what is left of the answer that is being read.
type openAnswer struct {
	peer.Changes
	end peer.Seq // LastSeq of its last part
}

// report is a Progress, and when it came.
type report struct {
	at   instant.Time
	info Info
}

type fault uint8

const (
	works  fault = iota
	fails        // 503 before it took effect
	loses        // it takes effect, the answer is lost
	breaks       // half of it takes effect
)

// newWorld has an empty source, and a target that was written to before.
func newWorld(t *testing.T) *world {
	w := &world{
		t: t, dbs: [2]*database{newDatabase(), newDatabase()}, now: instant.Seconds(1_700_000_000),
		bodies:  bodies{docSize: 100, attachments: map[string]bool{}, inline: map[string]int{}},
		listing: listing{refuses: map[string]bool{}, list: map[peerRev]*entry{}, begins: true},
		plan: Plan{
			Created: instant.Seconds(1_600_000_000), List: checkpoint.List{Job: "job"},
			IDs: func(string) IDs { return IDs{Bases: []string{"four", "three"}} },
			Options: Options{
				UseCheckpoints: true, UseBulkGet: true, Workers: 3, BatchSize: 4, Connections: 6, Retries: 5,
				CheckpointInterval: 5 * time.Second, ProgressInterval: time.Second,
			},
		},
	}
	w.dbs[peer.Target].write("another", "1-a")
	return w
}

// begin starts a new run on the same databases, as after a crash of the process.
func (w *world) begin() {
	w.plan.Seed++
	w.plan.Listed, w.plan.List.Changes, w.plan.ListSaved = w.others+int64(len(w.list)), w.changes, w.saved
	if w.left > w.saved[peer.Target] {
		w.plan.ListSaved = [2]int64{w.left, w.left} // as jobstore.Record has it
	}
	if w.plan.Reset {
		w.plan.ListSaved = [2]int64{} // as NewPlan has it
	}
	w.run, w.end, w.told, w.asks = New(w.plan), nil, nil, nil
	w.open, w.flying, w.kept, w.before = nil, nil, map[uint64][]peer.DocRev{}, maps.Clone(w.dbs[peer.Source].leafs)
	w.step(Begin{})
}

func (w *world) step(ev Event) {
	if w.steps++; w.steps > 200_000 {
		w.t.Fatalf("no end in sight; calls: %v", w.calls[max(0, len(w.calls)-20):])
	}
	effects := w.run.Step(w.now, ev)
	w.checkListed()
	w.checkPage(effects)
	for _, e := range effects {
		switch e := e.(type) {
		case Identify:
			w.identified = e.ID
			if e.Base != w.plan.IDs(w.run.opener.filter.Code).Bases[0] {
				w.t.Errorf("identified with the base %q", e.Base)
			}
			w.claimed()
		case Call:
			w.calls = append(w.calls, e.Op.String())
			w.flying = append(w.flying, e)
		case Cancel:
			i := slices.IndexFunc(w.flying, func(c Call) bool { return c.ID == e.ID })
			if i < 0 {
				w.t.Fatalf("call %d is canceled, and is not under way: %v", e.ID, w.calls)
			}
			w.flying = slices.Delete(w.flying, i, i+1)
		case Release:
			delete(w.kept, e.ID)
		case GivesWay:
			w.step(Stop{})
		case Refused, ReadRefused:
			w.asks = append(w.asks, e)
		case Progress:
			w.told = append(w.told, report{w.now, e.Info})
			w.saves(e.Info)
		case End:
			w.end = &e
			w.ends(&e)
			if len(w.flying) > 0 {
				w.t.Errorf("ended with %v under way", w.flying)
			}
		}
	}
}

// wakeEarly wakes the run shortly before its deadline. It must not act then: nobody else wakes it, so it would have
// slept through what it does.
func (w *world) wakeEarly(deadline instant.Time) {
	if deadline-1 <= w.now {
		return
	}
	if effects := w.run.Step(deadline-1, Wake{}); len(effects) > 0 {
		w.t.Fatalf("before its deadline %s the run does %v", deadline, effects)
	}
}

// proceed completes one call, or lets time pass when there is none.
func (w *world) proceed(choose func(n int) int) {
	ready := make([]int, 0, len(w.flying))
	for i, c := range w.flying {
		if r, ok := c.Op.(peer.ReadChanges); ok && r.Wait {
			if w.dbs[peer.Source].seq <= numberOf(r.Since) {
				continue
			}
		}
		ready = append(ready, i)
	}
	if len(w.asks) > 0 && !w.deaf && choose(len(ready)+1) == 0 {
		w.answerAsk()
		return
	}
	if len(ready) == 0 {
		at := w.run.Deadline()
		if at == instant.Never {
			w.t.Fatalf("nothing under way and no deadline; calls: %v", w.calls)
		}
		w.wakeEarly(at)
		w.now = max(w.now, at)
		w.step(Wake{})
		return
	}
	i := ready[choose(len(ready))]
	c := w.flying[i]
	w.flying = slices.Delete(w.flying, i, i+1)
	w.now = w.now.Add(10 * time.Millisecond)
	reply := w.perform(c)
	exchange := fmt.Sprintf("%#v %#v", c.Op, reply)
	w.step(Reply{ID: c.ID, Reply: reply})
	if after := fmt.Sprintf("%#v %#v", c.Op, reply); after != exchange {
		w.t.Fatalf("the run wrote into what it had sent or was answered:\n%s\n%s", exchange, after)
	}
}

// but chooses the first call that does not match, unless there is no other.
func (w *world) but(matches func(Call) bool) func(n int) int {
	return func(n int) int {
		if at := slices.IndexFunc(w.flying, matches); at == 0 && n > 1 {
			return 1
		}
		return 0
	}
}

func (w *world) perform(c Call) peer.Reply {
	f := works
	if w.fault != nil {
		f = w.fault(c)
	}
	if w.answer != nil {
		if failure := w.answer(c); failure != nil {
			return peer.Reply{Failure: failure}
		}
	}
	if w.reply != nil {
		if reply := w.reply(c); reply != nil {
			return *reply
		}
	}
	if f != works {
		defer delete(w.kept, c.ID)
	}
	down := &peer.Failure{Kind: peer.Status, Status: 503, Method: "X", URL: "http://x/"}
	switch f {
	case fails:
		return peer.Reply{Failure: down}
	case loses:
		w.apply(c, false)
		w.open = nil
		return peer.Reply{Failure: &peer.Failure{Kind: peer.Broken, Method: "X", URL: "http://x/"}}
	case breaks:
		reply := w.apply(c, true)
		switch reply.Result.(type) {
		case peer.Changes, peer.Copied:
		default:
			reply.Result = nil
		}
		reply.Failure = &peer.Failure{Kind: peer.Broken, Method: "X", URL: "http://x/"}
		return reply
	}
	return w.apply(c, false)
}

// apply carries an operation out; half does only a part of it.
func (w *world) apply(c Call, half bool) peer.Reply {
	source, target := w.dbs[peer.Source], w.dbs[peer.Target]
	part := func(n int) int {
		if half {
			return n / 2
		}
		return n
	}
	switch op := c.Op.(type) {
	case peer.Open:
		return peer.Reply{Result: peer.Opened{UpdateSeq: seqOf(w.dbs[op.Side].seq),
			InstanceStartTime: w.dbs[op.Side].start}}
	case peer.Create:
		return peer.Reply{Result: peer.Created{}}
	case peer.Commit:
		return peer.Reply{Result: peer.Committed{InstanceStartTime: w.dbs[op.Side].start}}
	case peer.CountPending:
		return peer.Reply{Result: peer.Pending{Count: int64(len(source.changes(numberOf(op.Since))))}}
	case peer.FindRev:
		lacks := func(rev string) bool { return !source.has(op.ID, rev) }
		return peer.Reply{Result: peer.RevFound{Found: !slices.ContainsFunc(op.Revs, lacks)}}
	case peer.ReadNewest:
		return peer.Reply{Result: source.newest()}
	case peer.GetLocal:
		doc, found := w.dbs[op.Side].local[op.ID]
		return peer.Reply{Result: peer.Local{Found: found, Rev: fmt.Sprint("0-", doc.rev), Body: doc.body}}
	case peer.PutLocal:
		return w.putLocal(op)
	case peer.ReadChanges:
		return peer.Reply{Result: w.readChanges(op, half)}
	case peer.DiffRevs:
		return peer.Reply{Result: w.diff(op)}
	case peer.FetchDocs:
		return peer.Reply{Result: w.fetch(c.ID, op, part(len(op.Docs)))}
	case peer.GetFilter:
		return peer.Reply{Result: peer.Filter{Code: w.filter, Rev: w.filterRev}}
	case peer.WriteDocs:
		last := op.Docs[len(op.Docs)-1]
		if w.maxWrite > 0 && len(op.Docs) > w.maxWrite || len(op.Docs) == 1 &&
			w.kept[last.Fetch][last.Index].ID == w.tooLarge {
			return peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: 413, Error: "too_large"}}
		}
		if w.inline[w.kept[last.Fetch][last.Index].ID] > 0 && w.isOdd() {
			return peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: 412, Error: "missing_stub"}}
		}
		return peer.Reply{Result: w.writeDocs(target, op.Docs[:part(len(op.Docs))])}
	case peer.CopyDoc:
		return peer.Reply{Result: w.copyDoc(source, target, op, part(len(op.Revs)))}
	}
	w.t.Fatalf("unknown operation %v", c.Op)
	return peer.Reply{}
}

// readChanges goes on with the answer that is open, or begins one.
func (w *world) readChanges(op peer.ReadChanges, half bool) peer.Changes {
	if w.rows != nil {
		return w.rows(op)
	}
	if w.open == nil || w.open.LastSeq != op.Since || op.Wait {
		d := w.dbs[peer.Source]
		rest := peer.Changes{Rows: w.selects(d.changes(numberOf(op.Since))), LastSeq: op.Since}
		w.open = &openAnswer{rest, seqOf(max(d.seq, numberOf(op.Since)))}
	}
	n := min(op.Limit, len(w.open.Rows))
	got := peer.Changes{Rows: w.open.Rows[:n], LastSeq: w.open.end, End: n == len(w.open.Rows), Pending: -1}
	w.open.Rows = w.open.Rows[n:]
	if !got.End {
		got.LastSeq = got.Rows[n-1].Seq
		w.open.LastSeq = got.LastSeq
	} else {
		w.open, got.Pending = nil, 0
	}
	if half {
		w.open = nil
		return peer.Changes{Rows: got.Rows[:n/2], Pending: -1}
	}
	return got
}

func (w *world) diff(op peer.DiffRevs) peer.Diff {
	var d peer.Diff
	for _, doc := range op.Docs {
		m := peer.DocMissing{ID: doc.ID, Ancestors: w.dbs[peer.Target].leafs[doc.ID]}
		for _, rev := range doc.Revs {
			if !w.dbs[peer.Target].has(doc.ID, rev) && !w.refuses[doc.ID] {
				m.Missing = append(m.Missing, rev)
			}
		}
		if w.refuses[doc.ID] {
			m.Missing = doc.Revs
		}
		if len(m.Missing) > 0 {
			d.Docs = append(d.Docs, m)
		}
	}
	return d
}

func (w *world) isOdd() bool { return w.odd != nil && w.odd() }

func (w *world) fetch(id uint64, op peer.FetchDocs, n int) peer.Fetched {
	source := w.dbs[peer.Source]
	if n > 1 && w.isOdd() {
		n--
	}
	n = min(n, max(1, op.Budget/w.docSize))
	w.kept[id] = slices.Clone(op.Docs)
	var f peer.Fetched
	room := op.Budget
	for i, d := range op.Docs {
		size := cmp.Or(w.inline[d.ID], w.docSize)
		fate := peer.FetchedDoc{Fate: peer.Taken, Size: size, Rev: source.latest(d.ID, d.Rev)}
		w.kept[id][i].Rev = fate.Rev
		switch {
		case i >= n, room <= 0:
			fate = peer.FetchedDoc{Fate: peer.Left}
		case w.inline[d.ID] > 0 && (!op.Attachments || w.isOdd()):
			fate = peer.FetchedDoc{Fate: peer.Attachments, Size: size}
		case w.attachments[d.ID]:
			fate = peer.FetchedDoc{Fate: peer.Attachments}
		case w.isGone(d.ID, d.Rev) || w.isOdd():
			fate = peer.FetchedDoc{Fate: peer.Missing}
		default:
			room -= size
		}
		f.Docs = append(f.Docs, fate)
	}
	return f
}

func (w *world) writeDocs(target *database, docs []peer.Kept) peer.Written {
	var written peer.Written
	for _, k := range docs {
		body, ok := w.kept[k.Fetch]
		if !ok {
			w.t.Fatalf("write of bodies %d, which were released", k.Fetch)
		}
		d := body[k.Index]
		if w.refuses[d.ID] {
			written.Refused = append(written.Refused, peer.Refusal{ID: d.ID, Rev: d.Rev, Error: "forbidden"})
			continue
		}
		if w.isOdd() {
			written.Refused = append(written.Refused, w.notWritten(d))
			continue
		}
		target.write(d.ID, w.dbs[peer.Source].path(d.ID, d.Rev)...)
	}
	return written
}

// notWritten is what the target says of a document that it could not write. Not all servers name the revision, or even
// the document.
func (w *world) notWritten(d peer.DocRev) peer.Refusal {
	v := peer.Refusal{ID: d.ID, Rev: d.Rev, Error: "internal_server_error"}
	if w.isOdd() {
		v.Rev = ""
	}
	if w.isOdd() {
		v.ID = ""
	}
	return v
}

func (w *world) copyDoc(source, target *database, op peer.CopyDoc, n int) peer.Copied {
	var copied peer.Copied
	for _, asked := range op.Revs[:n] {
		out := peer.CopiedRev{Rev: source.latest(op.ID, asked)}
		switch {
		case w.isGone(op.ID, asked):
			out.Missing = true
		case w.refuses[op.ID]:
			out.Refused = &peer.Refusal{ID: op.ID, Rev: out.Rev, Status: 403, Error: "forbidden"}
		case len(op.Since) > 0 && w.isOdd():
			out.Refused = &peer.Refusal{ID: op.ID, Rev: out.Rev, Status: 412, Error: "missing_stub"}
		case w.isOdd():
			out.Refused = &peer.Refusal{ID: op.ID, Rev: out.Rev, Status: 409, Error: "conflict"}
		case w.vanished || w.isOdd():
			out.Missing, out.Rev = true, asked
		default:
			target.write(op.ID, source.path(op.ID, out.Rev)...)
			copied.Bytes += int64(w.docSize)
		}
		copied.Revs = append(copied.Revs, out)
	}
	return copied
}

// checkCompleted: a one-shot that says it completed has brought over what was there when it began.
func (w *world) checkCompleted() {
	if w.end.Cause != Completed || w.undead {
		return
	}
	for id, leafs := range w.before {
		for _, rev := range leafs {
			if w.wanted(id) && !w.dbs[peer.Target].has(id, rev) && !w.lists(id, rev) && !w.isSpared(id, rev) {
				w.t.Fatalf("completed without %s %s", id, rev)
			}
		}
	}
}

// wanted says whether a document has to arrive.
func (w *world) wanted(id string) bool {
	return w.dbs[peer.Source].at[id] > w.since && !w.refuses[id] && id != w.tooLarge
}

// uncovered is a document changed up to seq that the target lacks a leaf of.
func (w *world) uncovered(seq int64) string {
	for id, at := range w.dbs[peer.Source].at {
		for _, rev := range w.dbs[peer.Source].leafs[id] {
			lacks := !w.dbs[peer.Target].has(id, rev) && w.list[peerRev{id, rev}] == nil && !w.isSpared(id, rev)
			if at <= seq && w.wanted(id) && lacks {
				return id + " " + rev
			}
		}
	}
	return ""
}

func (w *world) runToEnd(choose func(n int) int) End {
	for w.end == nil {
		w.proceed(choose)
	}
	return *w.end
}

func first(int) int { return 0 }

func (w *world) fill(n int) {
	for i := range n {
		w.dbs[peer.Source].write(fmt.Sprint("doc", i), "1-a")
	}
}

// edit writes a document of the source: a new one, a new revision of a leaf, or a conflict.
func (w *world) edit(draw func(int) int) {
	source := w.dbs[peer.Source]
	id := fmt.Sprint("doc", draw(30))
	path := []string{fmt.Sprint(len(source.parent[id])+1, "-e")}
	if leafs := source.leafs[id]; len(leafs) > 0 && draw(3) > 0 {
		path = append(path, source.path(id, leafs[0])...)
	}
	source.write(id, path...)
}
