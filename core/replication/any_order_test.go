package replication

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// To look for more than the tests do: go test ./core/replication -run AnyOrder -orders 1000
var (
	firstOrder = flag.Uint64("first-order", 0, "the first order of each kind that TestAnyOrder plays")
	orders     = flag.Uint64("orders", 18, "the order before which it ends")
)

// disorder is what may happen to a replication besides runs, kills and edits.
type disorder struct {
	names    string // the names of the jobs, which share the checkpoints
	skips    bool   // documents may be left out for good
	both     bool   // the source may be put back together with the target
	readOnly bool   // the source stores no logs
	more     bool   // what any_more_test.go has
	rest     bool   // what any_rest_test.go has
	couch    bool   // CouchDB's replicator runs in between
	cut      int    // a proxy takes no logs with more checkpoints; 0 for any
	kinds    kinds  // what any_kinds_test.go has
}

// TestAnyOrder has users edit documents, targets refuse some for a while, operators change on_refusal, order attempts,
// make jobs anew and put databases back to backups, and runs end or be killed, in any order. In the end all documents
// come, the lists are empty, and a further run reads nothing again. What the list of a job lost with the job was left
// out for good, so jobs that leave out documents are not made anew.
func TestAnyOrder(t *testing.T) {
	for name, d := range map[string]disorder{
		"one job":               {names: "a", skips: true},
		"both put back":         {names: "a", skips: true, both: true},
		"two jobs":              {names: "ab"},
		"two jobs, both back":   {names: "ab", both: true},
		"no logs on the source": {names: "a", skips: true, readOnly: true},
		"no logs, two jobs":     {names: "ab", both: true, readOnly: true},
		"two that skip":         {names: "ab", skips: true, both: true},
		"three, short logs":     {names: "abc", both: true, cut: 4},
		"CouchDB's, too":        {names: "a", skips: true, both: true, couch: true},
		"more":                  {names: "a", skips: true, both: true, more: true, cut: 3},
		"more, two jobs":        {names: "ab", both: true, more: true},
		"more, no logs":         {names: "ab", both: true, readOnly: true, more: true},
		"rest":                  {names: "a", skips: true, both: true, rest: true},
		"rest, two jobs":        {names: "ab", both: true, more: true, rest: true},
		"rest, no logs":         {names: "a", both: true, readOnly: true, more: true, rest: true},
		"rest, CouchDB's, too":  {names: "a", skips: true, both: true, couch: true, rest: true},
		"attached":              {names: "a", skips: true, both: true, rest: true, kinds: attaching + moody},
		"moody, two jobs":       {names: "ab", both: true, more: true, kinds: attaching + moody + giveUp},
		"moody, no logs":        {names: "ab", both: true, readOnly: true, more: true, kinds: moody + giveUp},
		"chosen":                {names: "a", both: true, rest: true, kinds: chosen + giveUp},
		"purged":                {names: "a", skips: true, both: true, rest: true, kinds: purged + giveUp},
		"older":                 {names: "a", skips: true, both: true, rest: true, kinds: older},
		"all":                   {names: "ab", both: true, more: true, rest: true, kinds: "acpomf"},
	} {
		t.Run(name, func(t *testing.T) {
			var o *order
			seed := *firstOrder
			defer func() {
				if t.Failed() {
					t.Logf("seed %d: %q", seed, o.told)
				}
			}()
			for ; seed < *orders; seed++ {
				if o = newOrder(t, d, seed); !o.plays() {
					t.FailNow()
				}
			}
		})
	}
}

// order is one sequence of such events.
type order struct {
	*shared
	disorder
	*rand.Rand
	odds
	made    int // revisions and orders so far
	backups [][2]*database
	former  *world   // a run that was killed, and may go on
	told    []string // what has happened
	why     string   // why the next run may begin anew; empty if it may not
}

func newOrder(t *testing.T, d disorder, seed uint64) *order {
	o := &order{shared: newShared(t), disorder: d, Rand: rand.New(rand.NewPCG(seed, 7)), why: "it is the first"}
	o.odds = odds{choices: map[string]choice{}, were: map[string]choice{}, purges: [2]map[peerRev]bool{{}, {}},
		moods: map[string]*mood{}, lost: map[peerRev]bool{}, covers: peer.Zero}
	o.as("a")
	o.answer, o.elsewhere, o.reply = o.refusesLog, o.listsElsewhere, o.feels
	o.exact = true
	o.beginsWith(d.kinds)
	return o
}

// plays plays the events, and reports whether all has come in the end.
func (o *order) plays() bool {
	for range 10 + o.IntN(30) {
		o.happens()
	}
	clear(o.bad)
	clear(o.moods)
	o.plan.OnRefusal, o.plan.UseCheckpoints, o.fault = spec.RetryRefused, true, nil
	o.odd = nil
	from := ""
	for range 3 {
		for _, job := range o.names {
			o.as(string(job))
			o.made++
			o.demand, o.now = instant.Time(o.made), o.now.Add(12*time.Hour)
			from = o.completes(40)
			o.say("at last job %c runs from %s, lists %d: %v", job, from, len(o.list), o.end)
		}
	}
	if from == "0" && !(o.readOnly && len(o.names) > 1 && o.listsGone()) {
		o.say("the last run begins anew")
		return false
	}
	return o.hasAll() && !o.t.Failed()
}

func (o *order) say(format string, a ...any) { o.told = append(o.told, fmt.Sprintf(format, a...)) }

// happens is one event.
func (o *order) happens() {
	id := fmt.Sprint("doc", 1+o.IntN(4))
	job := string(o.names[o.IntN(len(o.names))])
	switch r := o.IntN(20); {
	case o.kinds != "" && o.IntN(4) == 0:
		o.happensOfKinds(id, job)
	case o.rest && o.IntN(3) == 0:
		o.happensAtLast(id, job)
	case r < 3:
		o.edits(id)
	case r < 4:
		o.made++
		o.dbs[peer.Source].write(fmt.Sprint("new", o.made), "1-a")
		o.say("a new document")
	case r < 7:
		o.bad[id] = true
		o.say("%s is refused", id)
	case r < 9:
		delete(o.bad, id)
		o.say("%s is taken", id)
	case r < 10 && o.skips:
		o.plan.OnRefusal = []spec.OnRefusal{spec.SkipRefused, spec.RetryRefused}[o.IntN(2)]
		o.say("on_refusal is %s", o.plan.OnRefusal)
	case r < 14:
		o.runsToItsEnd(job)
	case r < 16:
		o.isKilled(job)
	case r < 18:
		o.backups = append(o.backups, [2]*database{o.dbs[peer.Source].backup(), o.dbs[peer.Target].backup()})
		o.say("backup %d", len(o.backups)-1)
	case r < 19 && len(o.backups) > 0:
		o.putBack(o.IntN(len(o.backups)))
	case o.couch:
		o.couchRuns()
	case o.more && o.IntN(3) > 0:
		o.happensToo()
	case (!o.skips || o.kinds != "") && o.IntN(3) == 0:
		o.as(job)
		o.forgets()
		o.changes += int64(o.IntN(10))
		o.why = "it was made anew"
		o.say("job %s is made anew", job)
	}
}

func (o *order) edits(id string) {
	source := o.dbs[peer.Source]
	o.made++
	rev := fmt.Sprintf("%d-%c", 1+o.made, 'a'+o.IntN(3))
	path := []string{rev}
	if leaves := source.leafs[id]; len(leaves) > 0 {
		path = append(path, source.path(id, leaves[0])...)
	}
	source.write(id, path...)
	o.say("%s is edited: %s", id, rev)
}

// completes has a run end by itself, with answers in any order, and returns where it began.
func (o *order) completes(batch int) string {
	o.plan.BatchSize, o.plan.CheckpointInterval, o.calls = batch, 5*time.Second, nil
	for o.begin(); o.end == nil; {
		o.proceed(o.IntN)
	}
	if o.end.Cause != Completed {
		o.say("it ended with %v", o.end)
	}
	if o.plan.Crashes++; o.end.Cause != Crashed {
		o.plan.Crashes = 0
	}
	o.steps = 0
	o.ended()
	return o.feedStart()
}

func (o *order) runsToItsEnd(job string) {
	if o.as(job); o.IntN(4) == 0 {
		o.made++
		o.demand = instant.Time(o.made)
		o.say("all is to be tried")
	}
	o.now = o.now.Add(time.Duration(o.IntN(3)) * time.Hour)
	from := o.completes([]int{2, 7, 40}[o.IntN(3)])
	o.say("job %s runs from %s, has %d listed, state %d, saved %v", job, from, len(o.list), o.changes, o.saved)
}

func (o *order) isKilled(job string) {
	o.as(job)
	o.plan.BatchSize = []int{2, 7, 40}[o.IntN(3)]
	o.plan.CheckpointInterval = []time.Duration{time.Nanosecond, 5 * time.Second}[o.IntN(2)]
	o.begin()
	for n := o.IntN(60); n > 0 && o.end == nil; n-- {
		o.proceed(o.IntN)
	}
	killed := o.end == nil
	if killed {
		former := *o.world
		o.former = &former
	}
	o.why = "it was killed"
	o.say("job %s is killed: %t, has %d listed, state %d, saved %v", job, killed, len(o.list), o.changes, o.saved)
}

// putBack puts the target back to a backup, or both databases.
func (o *order) putBack(n int) {
	if o.former != nil && (o.former.run.sides[0].logRev == "" || o.former.run.sides[1].logRev == "" ||
		o.former.run.commits.busy()) {
		o.former = nil // nothing tells it that its databases are others
	}
	o.dbs[peer.Target] = o.backups[n][peer.Target].backup()
	o.why = "the target was put back"
	both := o.both && o.IntN(2) == 0
	if both {
		o.dbs[peer.Source] = o.backups[n][peer.Source].backup()
	}
	o.say("the target is put back to %d, and the source: %t", n, both)
}
