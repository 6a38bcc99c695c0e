package follow

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/peer"
)

// TestLeaseCountsFromRequest: a lease whose answer came late ends as early as others see it end.
func TestLeaseCountsFromRequest(t *testing.T) {
	w := New(Config{Worker: "w"})
	w.Step(1, Configure{Jobs: []string{"j"}})
	late := instant.Time(1).Add(20 * time.Second)
	w.Step(late, Answer{ID: 1, Result: Done{}})
	if want := instant.Time(1).Add(ActivityTimeout); w.lease != live || w.ends != want {
		t.Errorf("the lease ends at %s, not %s", w.ends, want)
	}
}

// TestRetreatForgetsBehind: a run that reads changes anew does not know how many more there are behind them.
func TestRetreatForgetsBehind(t *testing.T) {
	r := &run{w: New(Config{Worker: "w"})}
	r.in = inward{run: r, behind: 7, end: true, rows: []peer.Change{{ID: "d", Revs: []string{"2-b"}}}}
	if r.in.retreat(0); r.in.behind != -1 || r.in.end {
		t.Errorf("%d changes follow; at the end: %t", r.in.behind, r.in.end)
	}
}

// TestWhole: a long poll has brought all that changed unless it broke off, or has as many rows as it may have and there
// may be more.
func TestWhole(t *testing.T) {
	rows := func(n int) (list []peer.Change) { return make([]peer.Change, n) }
	for name, c := range map[string]struct {
		rows, skipped int
		pending       int64
		failure       *peer.Failure
		want          bool
	}{
		"fewer rows":           {rows: 4, pending: -1, want: true},
		"as many as it may":    {rows: 5, pending: -1},
		"some were left out":   {rows: 4, skipped: 1, pending: -1},
		"none is to come":      {rows: 5, pending: 0, want: true},
		"others are to come":   {rows: 5, pending: 1},
		"it broke off":         {rows: 4, pending: -1, failure: &peer.Failure{Kind: peer.Broken}},
		"it broke off at last": {rows: 5, pending: 0, failure: &peer.Failure{Kind: peer.Broken}},
	} {
		reply := peer.Reply{Failure: c.failure}
		reply.Result = peer.Changes{Rows: rows(c.rows), Skipped: c.skipped, Pending: c.pending}
		if got := whole(peer.ReadChanges{Limit: 5, Wait: true}, reply); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNewer: a revision is newer than a row if its generation is above that of each leaf.
func TestNewer(t *testing.T) {
	for _, c := range []struct {
		rev    string
		leaves []string
		want   bool
	}{
		{"3-a", []string{"2-b"}, true}, {"3-a", []string{"3-b"}, false}, {"3-a", []string{"3-a"}, false},
		{"3-a", []string{"4-b"}, false}, {"3-a", []string{"2-b", "1-c"}, true}, {"3-a", []string{"2-b", "3-c"}, false},
		{"10-a", []string{"9-b"}, true}, {"", []string{"1-a"}, false}, {"x", []string{"1-a"}, false},
		{"3-a", []string{"x"}, false},
	} {
		if got := newer(c.rev, c.leaves); got != c.want {
			t.Errorf("%s is newer than %q: %v", c.rev, c.leaves, got)
		}
	}
}

// TestIsWinner: a cluster's row names the winner first, and a row of a server that is none may name it anywhere.
func TestIsWinner(t *testing.T) {
	for _, c := range []struct {
		seq  peer.Seq
		rev  string
		want bool
	}{
		{`"7-opaque"`, "2-a", true}, {`"7-opaque"`, "1-b", false}, {`"7-opaque"`, "3-c", false},
		{"7", "2-a", true}, {"7", "1-b", true}, {"7", "3-c", false},
	} {
		row := peer.Change{Seq: c.seq, ID: "d", Revs: []string{"2-a", "1-b"}}
		if got := isWinner(row, c.rev); got != c.want {
			t.Errorf("at %s %s wins: %v", c.seq, c.rev, got)
		}
	}
}

// TestWatched: another worker is given up once this one has seen the same heartbeat for as long as that may be silent,
// not counting the time that this one stood still, or at once if that is over or nobody else can use the store.
func TestWatched(t *testing.T) {
	lease := func(name string, beat byte) jobs.Lease { return jobs.Lease{Worker: name, Beat: [10]byte{beat}} }
	given := func(w *Worker) (names []string) {
		for _, e := range w.out {
			if q, is := e.(Ask); is {
				names = append(names, q.Request.(Expire).Worker)
			}
		}
		w.out = nil
		return names
	}
	w := New(Config{Worker: "me"})
	look := func(after time.Duration, leases ...jobs.Lease) []string {
		w.now = w.now.Add(after)
		w.watched(Watched{Leases: leases})
		return given(w)
	}
	w.now = 1_000_000
	slow := lease("slow", 1)
	slow.Timeout = 2 * ActivityTimeout
	look(0, lease("me", 1), lease("a", 1), lease("b", 1), slow)
	for i := range 4 { // a quarter of the timeout each, and once far more, which counts as much
		after := []time.Duration{scanEvery, time.Hour, scanEvery, scanEvery}[i]
		got := look(after, lease("me", 1), lease("a", byte(2+i)), lease("b", 1), slow)
		if last := i == 3; last != (len(got) == 1 && got[0] == "b") || !last && len(got) > 0 {
			t.Errorf("after look %d %q are given up", i+1, got)
		}
	}
	if got := look(scanEvery, lease("b", 1)); len(got) > 0 || len(w.others) != 1 {
		t.Errorf("%q are given up while that is asked for; %d others are watched", got, len(w.others))
	}
	over := lease("over", 1)
	over.Expired = true
	if got := look(0, over, lease("new", 1)); len(got) != 1 || got[0] != "over" {
		t.Errorf("%q are given up, and one lease is over", got)
	}
	w = New(Config{Worker: "me", Exclusive: true})
	if got := look(0, lease("me", 1), lease("old", 1)); len(got) != 1 || got[0] != "old" {
		t.Errorf("%q are given up where nobody else is", got)
	}
}

// TestJitter: times are drawn from the last quarter.
func TestJitter(t *testing.T) {
	w := New(Config{Worker: "me", Seed: 1})
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := w.jitter(8)
		least, most = min(least, d), max(most, d)
	}
	if least != 6 || most != 8 {
		t.Errorf("%d to %d", least, most)
	}
}

// TestPollEnds: a long poll ends after ten minutes, or at once if all is to be read anew; nothing else does.
func TestPollEnds(t *testing.T) {
	r := &run{w: New(Config{Worker: "me"})}
	r.w.now, r.in.run, r.in.opened = 5_000_000, r, true
	for _, c := range []struct {
		op   peer.Op
		lost bool
		want instant.Time
	}{
		{peer.ReadChanges{Wait: true}, false, instant.Time(3_000_000).Add(10 * time.Minute)},
		{peer.ReadChanges{Wait: true}, true, 5_000_000},
		{peer.ReadChanges{}, true, instant.Never},
		{peer.ReadDocs{}, true, instant.Never},
	} {
		r.in.call, r.in.proof.lost = &call{op: c.op, sent: 3_000_000}, c.lost
		if got := r.in.deadline(); got != c.want {
			t.Errorf("%v, lost %v: %s, want %s", c.op, c.lost, got, c.want)
		}
	}
	r.in.call, r.in.pause = nil, 7_000_000
	if got := r.in.deadline(); got != 7_000_000 {
		t.Errorf("in a pause: %s", got)
	}
	r.in.asking = true
	if got := r.in.deadline(); got != instant.Never {
		t.Errorf("while a request is under way: %s", got)
	}
}

// TestAppliedInPart: an attempt whose answer was lost may have applied the first changes alone. The others are applied
// by the next one.
func TestAppliedInPart(t *testing.T) {
	q := Apply{From: "1", Docs: []Incoming{{Seq: "2"}, {Seq: "3"}, {Seq: "5"}}, Since: "7"}
	for since, want := range map[peer.Seq]int{"1": 0, "2": 1, "3": 2, "5": 3, "7": 3} {
		if got := q.done(&Job{Since: since}); got != want {
			t.Errorf("up to %s %d changes are applied, want %d", since, got, want)
		}
	}
}

// TestMissed: the database counts as put back when it did not know the last change three times in a row, and its feed
// does not have it either; a node that lags behind may say so once or twice.
func TestMissed(t *testing.T) {
	r := &run{w: New(Config{Worker: "w"})}
	r.in.run = r
	for _, found := range []bool{false, false, true, false, false} {
		if r.in.proved(found); r.in.asking {
			t.Fatal("it counts as put back too early")
		}
	}
	if r.in.proved(false); r.in.asking {
		t.Fatal("it counts as put back, and its feed was not searched")
	}
	if r.in.unfound(); !r.in.asking {
		t.Error("it does not count as put back")
	}
}

// unfound answers the search of the feed with one that has no change.
func (in *inward) unfound() {
	in.searched(peer.ReadChanges{}, peer.Reply{Result: peer.Changes{End: true}})
}

// TestFeedIsSearched: a change that the database does not know, or fails on, is looked for in all of the feed behind
// the place before it. Of other changes than the job's last one that place is not known.
func TestFeedIsSearched(t *testing.T) {
	last, ahead := peer.Mark{ID: "d", Rev: "2-d", Others: "1-x"}, peer.Mark{ID: "e", Rev: "1-e"}
	row := func(seq peer.Seq, id string, revs ...string) peer.Change {
		return peer.Change{Seq: seq, ID: id, Revs: revs}
	}
	other, older := row("8", "e", "1-e"), row("9", "d", "1-x")
	whole := row("9", "d", "1-x", "2-d", "1-y")
	status := func(n int) *peer.Failure { return &peer.Failure{Kind: peer.Status, Status: n} }
	for name, c := range map[string]struct {
		of      peer.Mark
		before  peer.Seq
		failure *peer.Failure // of the question for the change
		pages   []peer.Reply
		from    string // places that the feed is read from
		found   bool
		ends    string
	}{
		"at once": {
			of: last, before: "7", failure: status(500), from: "7", found: true,
			pages: []peer.Reply{{Result: peer.Changes{Rows: []peer.Change{other, whole}, LastSeq: "9"}}},
		},
		"in a later part": {
			of: last, before: "7", failure: status(503), from: "7 8 9", found: true, pages: []peer.Reply{
				{Result: peer.Changes{Rows: []peer.Change{other}}, Failure: &peer.Failure{Kind: peer.Broken}},
				{Result: peer.Changes{LastSeq: "9"}},
				{Result: peer.Changes{Rows: []peer.Change{whole}, LastSeq: "9", End: true}},
			},
		},
		"from the begin": {
			of: last, failure: status(403), from: "0", found: true,
			pages: []peer.Reply{{Result: peer.Changes{Rows: []peer.Change{whole}, LastSeq: "9"}}},
		},
		"that was read ahead": {
			of: ahead, before: "7", failure: &peer.Failure{Kind: peer.TimedOut}, from: "0", found: true,
			pages: []peer.Reply{{Result: peer.Changes{Rows: []peer.Change{other}, LastSeq: "8"}}},
		},
		"in vain": {
			of: last, before: "7", failure: status(502), from: "7",
			pages: []peer.Reply{{Result: peer.Changes{Rows: []peer.Change{other, older}, LastSeq: "9", End: true}}},
		},
		"in a feed that fails": {
			of: last, before: "7", failure: status(500), from: "7", ends: "http_request_failed",
			pages: []peer.Reply{{Failure: status(500)}},
		},
		"that nobody may ask for": {of: last, before: "7", failure: status(401), ends: "unauthorized"},
	} {
		r := reading()
		in := &r.in
		r.job.Last, r.job.Before, in.proof.due = last, c.before, []peer.Mark{c.of}
		in.reply(&call{op: c.of.Find()}, peer.Reply{Failure: c.failure})
		from := ""
		for _, page := range c.pages {
			before := len(r.w.out)
			in.advance()
			op := r.w.out[before].(Call).Op.(peer.ReadChanges)
			from += " " + string(op.Since)
			if op.Wait || op.Limit != 5 {
				t.Errorf("%s: asked for is %+v", name, op)
			}
			is := in.call
			in.call = nil
			in.reply(is, page)
		}
		if len(from) > 0 {
			from = from[1:]
		}
		lost := len(r.w.asks) == 1 && r.w.asks[0].req == Opened{r.Held, r.job.Instance, last}
		found := len(in.proof.due) == 0 && !r.ended && !lost
		if from != c.from || found != c.found || r.error != c.ends || lost != (!c.found && c.ends == "") {
			t.Errorf("%s: read from %q, found %v, ended %q, lost %v", name, from, found, r.error, lost)
		}
		if !r.ended && in.proof.at != "" {
			t.Errorf("%s: the search goes on", name)
		}
	}
}
