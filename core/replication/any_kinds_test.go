package replication

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/json"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// kinds are events that few orders have, by letter.
type kinds string

const (
	attaching kinds = "a" // documents have attachments
	chosen    kinds = "c" // jobs become other replications: of winners, of some documents, of later changes
	purged    kinds = "p" // databases purge documents
	older     kinds = "o" // a release that knows less of lists runs a job
	moody     kinds = "m" // servers fail on documents in many ways, for a while
	giveUp    kinds = "f" // on_refusal is fail, too
)

// choice is what a replication selects. Others than the zero one have checkpoints of their own.
type choice struct {
	winners bool
	only    string // ids end with one of these digits, or revisions with one of these letters; all if it is empty
	since   int64
}

// choices are what jobs become, few, so that they become again what they were.
var choices = []choice{{}, {winners: true}, {only: "12e"}, {winners: true, only: "bcd"}, {since: 20}, {since: 41}}

// odds are what happens to databases in orders with more kinds.
type odds struct {
	choices map[string]choice // by job
	were    map[string]choice // by job that knows by its next run only that it is another replication
	purges  [2]map[peerRev]bool
	moods   map[string]*mood
	lost    map[peerRev]bool // for good, by a list that is forgotten
	covers  peer.Seq         // the last checkpoint of the last run
}

// as has the world be about another job.
func (o *order) as(job string) {
	o.shared.as(job)
	c := o.choices[job]
	o.plan.IDs = func(string) IDs { return IDs{Bases: []string{c.base(), c.base() + "-older"}} }
	o.plan.ResumedID = ""
	if was, is := o.were[job]; is {
		o.plan.ResumedID = was.base()
	}
	o.claims = func() {
		if was, is := o.were[job]; is && was != c {
			o.forgets()
		}
		delete(o.were, job)
	}
	o.since, o.plan.SinceSeq = c.since, ""
	if c.since > 0 {
		o.plan.SinceSeq = seqOf(c.since)
	}
	o.selected = c.rows
	o.spared = func(id, rev string) bool {
		at := peerRev{id, rev}
		return !c.selects(o.dbs[peer.Source], id, rev) || o.purges[peer.Target][at] || o.lost[at]
	}
}

// base is the id of its checkpoints.
func (c choice) base() string {
	if c == (choice{}) {
		return "four"
	}
	return fmt.Sprint(c)
}

// rows are what the feed has of rows.
func (c choice) rows(all []peer.Change) (rows []peer.Change) {
	for _, row := range all {
		if c.winners {
			row.Revs = []string{winner(row.Revs)}
		}
		if row.Revs = c.leaves(row.ID, row.Revs); len(row.Revs) > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

func (c choice) leaves(id string, revs []string) []string {
	return slices.DeleteFunc(slices.Clone(revs), func(rev string) bool {
		return c.only != "" && !strings.Contains(c.only, id[len(id)-1:]) && !strings.Contains(c.only, rev[len(rev)-1:])
	})
}

func (c choice) selects(source *database, id, rev string) bool {
	if c.winners && winner(source.leafs[id]) != rev {
		return false
	}
	return len(c.leaves(id, []string{rev})) > 0
}

// winner is the leaf that the feed names first.
func winner(leaves []string) string {
	return slices.MaxFunc(leaves, func(a, b string) int {
		var m, n int
		_, _ = fmt.Sscan(a, &m)
		_, _ = fmt.Sscan(b, &n)
		return cmp.Or(m-n, strings.Compare(a, b))
	})
}

// happensOfKinds is an event of one of the kinds.
func (o *order) happensOfKinds(id, job string) {
	switch kind := o.kinds[o.IntN(len(o.kinds))]; kinds(kind) {
	case attaching:
		o.attaches(id)
	case chosen:
		o.becomes(job)
	case purged:
		o.purge(peer.Side(o.IntN(2)), id)
	case older:
		o.olderRuns(job)
	case moody:
		o.changesMood(id)
	case giveUp:
		o.plan.OnRefusal = spec.FailRefused
		o.say("on_refusal is fail")
	}
}

// beginsWith has the documents of some kinds be special from the beginning.
func (o *order) beginsWith(of kinds) {
	for n := range 5 {
		id := fmt.Sprint("doc", n)
		if strings.Contains(string(of), string(attaching)) {
			o.attaches(id)
		}
		if strings.Contains(string(of), string(moody)) && o.IntN(2) == 0 {
			o.changesMood(id)
		}
	}
}

// attaches has a document have attachments, small or large ones, or none.
func (o *order) attaches(id string) {
	delete(o.inline, id)
	delete(o.attachments, id)
	switch n := o.IntN(4); {
	case n == 0:
		o.attachments[id] = true
	case n < 3:
		o.inline[id] = []int{1000, maxInlined * 2}[n-1]
	}
	o.odd = nil
	if o.IntN(2) == 0 {
		o.odd = func() bool { return o.IntN(10) == 0 }
	}
	o.say("%s has attachments: %t, of %d bytes; odd: %t", id, o.attachments[id], o.inline[id], o.odd != nil)
}

// becomes makes another replication of a job: its list is forgotten.
func (o *order) becomes(job string) {
	o.as(job)
	c := choices[o.IntN(len(choices))]
	if c == o.choices[job] {
		return
	}
	was := o.choices[job]
	o.choices[job], o.why = c, "it is another replication"
	if _, is := o.were[job]; !is && o.IntN(2) == 0 {
		o.were[job] = was
	} else if !is {
		o.forgets()
	}
	o.as(job)
	o.say("job %s becomes %v", job, c)
}

// forgets has the present job begin another list. Under skip what the target had refused was left out for good, with
// the revisions before, and what only failed was not.
func (o *order) forgets() {
	for at, row := range o.list {
		for _, rev := range o.dbs[peer.Source].path(at.id, at.rev) {
			if o.skips && (row.Refused || !row.Failed) {
				o.lost[peerRev{at.id, rev}] = true
			}
		}
	}
	clear(o.list)
	o.left, o.saved, o.begins = 0, [2]int64{}, true
}

// purge takes a document out of a database, or its newest leaf. What the target had need not come again.
func (o *order) purge(side peer.Side, id string) {
	d := o.dbs[side]
	if len(d.leafs[id]) == 0 {
		return
	}
	if o.readOnly {
		o.why, o.former = "the last change may be gone", nil
	}
	if side == peer.Source && o.IntN(2) == 0 {
		leaf := d.leafs[id][len(d.leafs[id])-1]
		d.forgetLeaf(id, leaf)
		o.say("the source purges %s %s, and has %v", id, leaf, d.leafs[id])
		return
	}
	for rev := range d.parent[id] {
		o.purges[side][peerRev{id, rev}] = true
	}
	d.forget(id)
	d.seq += int64(o.IntN(2))
	o.say("the %s purges %s", side, id)
}

// forgetLeaf purges a leaf. The one before it is a leaf then, and a change.
func (d *database) forgetLeaf(id, leaf string) {
	before := d.parent[id][leaf]
	delete(d.parent[id], leaf)
	d.leafs[id] = slices.DeleteFunc(slices.Clone(d.leafs[id]), func(rev string) bool { return rev == leaf })
	if before != "" && !slices.Contains(slices.Collect(maps.Values(d.parent[id])), before) {
		d.leafs[id] = append(d.leafs[id], before)
	}
	if len(d.leafs[id]) == 0 {
		d.forget(id)
		return
	}
	d.seq++
	d.at[id] = d.seq
}

// olderRuns has a release run a job that writes, and reads, nothing of the states of lists, nor of what has left them.
// Backups of before would pass for later.
func (o *order) olderRuns(job string) {
	entries := o.IntN(2) == 0
	names := o.IntN(3) > 0
	cut := func(body []byte) []byte { return forgetful(o.t, body, entries, names) }
	reply, answer := o.reply, o.answer
	o.reply = func(c Call) *peer.Reply {
		switch op := c.Op.(type) {
		case peer.PutLocal:
			if f := answer(c); f != nil {
				return &peer.Reply{Failure: f}
			}
			op.Body = cut(op.Body)
			r := o.putLocal(op)
			return &r
		case peer.GetLocal:
			r := o.apply(c, false)
			local := r.Result.(peer.Local)
			if local.Found {
				local.Body = cut(local.Body)
			}
			r.Result = local
			return &r
		}
		return reply(c)
	}
	o.as(job)
	o.left, o.saved, o.why = 0, [2]int64{}, "an older release runs"
	if o.IntN(4) == 0 {
		o.changes = 0
	}
	o.runsToItsEnd(job)
	o.reply, o.left, o.saved, o.backups, o.former = reply, 0, [2]int64{}, nil, nil
	o.say("that was an older release, whose history has lists: %t", entries)
	o.why = "an older release has run"
}

// forgetful is a log as an older release has it.
func forgetful(t testing.TB, body []byte, entries, names bool) []byte {
	var log map[string]json.Raw
	var history []map[string]json.Raw
	if err := json.Decode(body, &log); err != nil {
		t.Fatal(err)
	}
	if err := json.Decode(log["history"], &history); err != nil {
		t.Fatal(err)
	}
	if !entries && !names {
		delete(log, "list")
	}
	for _, e := range history {
		delete(e, "list_state")
		if !entries {
			delete(e, "list")
		}
	}
	var err error
	if log["history"], err = json.EncodeVerbatim(history); err != nil {
		t.Fatal(err)
	}
	if len(history) == 0 {
		log["history"] = json.Raw("[]")
	}
	text, err := json.EncodeVerbatim(log)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// hasAll reports whether the target has all that each job selects, and only what the source does not have any more is
// listed.
func (o *order) hasAll() bool {
	whole := true
	source, target := o.dbs[peer.Source], o.dbs[peer.Target]
	for _, job := range o.names {
		o.as(string(job))
		for _, row := range o.selects(source.changes(o.since)) {
			for _, rev := range row.Revs {
				if !target.has(row.ID, rev) && !o.isSpared(row.ID, rev) {
					whole = false
					o.say("job %c: the target lacks %s %s", job, row.ID, rev)
				}
			}
		}
		for at := range o.list {
			if source.has(at.id, at.rev) {
				whole = false
				o.say("job %c lists %v", job, at)
			}
		}
	}
	return whole
}

// listsGone reports whether a job lists what the source does not have any more. That stays, so checkpoints rely on it.
func (o *order) listsGone() (gone bool) {
	for _, job := range o.names {
		o.as(string(job))
		gone = gone || len(o.list) > 0
	}
	return gone
}
