package follow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
)

// reading is a run in the midst of its feed, with one worker.
func reading() *run {
	r := &run{w: New(Config{Worker: "me", Pages: Pages{Read: 5}}), job: Job{Goal: "30"}}
	r.w.now = 1_000_000
	r.in = inward{run: r, opened: true, since: "4", stored: "4", through: "4", last: peer.Mark{ID: "z", Rev: "1-z"}}
	r.out.run = r
	return r
}

// TestPollsAtOnce: a server whose long polls do not wait is asked less and less often, until one waits, or brings
// anything.
func TestPollsAtOnce(t *testing.T) {
	r := reading()
	r.job.Goal, r.in.wait = "", true
	op := peer.ReadChanges{Since: "4", Limit: 5, Wait: true}
	pause := func(waited time.Duration, got peer.Changes) time.Duration {
		sent := r.w.now
		r.w.now = r.w.now.Add(waited)
		got.LastSeq, got.End = "4", true
		r.in.pause = 0
		r.in.read(&call{op: op, sent: sent}, op, peer.Reply{Result: got})
		return max(r.in.pause.Sub(r.w.now), 0)
	}
	for range 2 {
		for _, ms := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000} {
			if got := pause(0, peer.Changes{}); got != ms*time.Millisecond {
				t.Fatalf("a pause of %v, want %d ms", got, ms)
			}
		}
		if got := pause(time.Second, peer.Changes{}); got != 250*time.Millisecond {
			t.Errorf("a pause of %v after a long poll that waited", got)
		}
		pause(0, peer.Changes{Skipped: 1})
		pause(0, peer.Changes{})
		pause(0, peer.Changes{Rows: []peer.Change{{Seq: "5", ID: "a", Revs: []string{"1-a"}}}})
	}
}

// TestFeedIsRead: where a run is after an answer of the feed, what it asks for next, and how many changes it knows to
// follow. Rows without documents to be read move it on at once, and so does the end of a feed that had a goal.
func TestFeedIsRead(t *testing.T) {
	row := func(n int, id string, revs ...string) peer.Change {
		return peer.Change{Seq: peer.Seq(fmt.Sprint(n)), ID: id, Revs: revs}
	}
	a, b, later := row(5, "a", "1-a"), row(6, "b", "2-b", "1-x"), row(7, "a", "2-a")
	design, broken := row(8, "_design/d", "1-d"), &peer.Failure{Kind: peer.Broken}
	type place struct {
		since, through peer.Seq
		behind         int64
		end, wait      bool
		flush, pause   bool
		last           string
		ids            string
	}
	for name, c := range map[string]struct {
		waited  bool // the feed was read to its end before
		noGoal  bool
		got     peer.Changes
		failure *peer.Failure
		want    place
	}{
		"a page": {
			got:  peer.Changes{Rows: []peer.Change{a, b}, LastSeq: "6", Pending: 9},
			want: place{since: "4", through: "6", behind: 9, last: "b 2-b 1-x", ids: "[a b]"},
		},
		"a page that does not say where it ends": {
			got:  peer.Changes{Rows: []peer.Change{a, b}, Pending: -1},
			want: place{since: "4", through: "6", behind: -1, last: "b 2-b 1-x", ids: "[a b]"},
		},
		"a page that broke off": {
			got: peer.Changes{Rows: []peer.Change{a}, Pending: 9, End: true}, failure: broken,
			want: place{since: "4", through: "5", behind: -1, last: "a 1-a", ids: "[a]"},
		},
		"a document that changed twice": {
			got:  peer.Changes{Rows: []peer.Change{a, b, later}, LastSeq: "7"},
			want: place{since: "4", through: "7", last: "a 2-a", ids: "[b a]"},
		},
		"the last page": {
			got:  peer.Changes{Rows: []peer.Change{a}, LastSeq: "9", End: true},
			want: place{since: "4", through: "9", end: true, wait: true, last: "a 1-a", ids: "[a]"},
		},
		"the end": {
			got:  peer.Changes{LastSeq: "9", End: true},
			want: place{since: "9", through: "9", end: true, wait: true, flush: true, last: "z 1-z"},
		},
		"the end, which is stored": {
			noGoal: true, got: peer.Changes{LastSeq: "9", End: true},
			want: place{since: "9", through: "9", end: true, wait: true, last: "z 1-z"},
		},
		"a page that has nothing": {
			got:  peer.Changes{LastSeq: "9", Pending: 2},
			want: place{since: "9", through: "9", behind: 2, last: "z 1-z"},
		},
		"design documents alone": {
			noGoal: true, got: peer.Changes{Rows: []peer.Change{design}, LastSeq: "8", Pending: 2},
			want: place{since: "8", through: "8", behind: 2, flush: true, last: "_design/d 1-d"},
		},
		"what is no document": {
			noGoal: true, got: peer.Changes{Rows: []peer.Change{row(5, "_x", "1-a"), row(6, "c")}, LastSeq: "8"},
			want: place{since: "8", through: "8", flush: true, last: "z 1-z"},
		},
		"a long poll": {
			waited: true, got: peer.Changes{Rows: []peer.Change{a}, LastSeq: "5", End: true},
			want: place{since: "4", through: "5", end: true, wait: true, last: "a 1-a", ids: "[a]"},
		},
		"a long poll that is answered at once": {
			waited: true, noGoal: true, got: peer.Changes{LastSeq: "4", End: true},
			want: place{since: "4", through: "4", end: true, wait: true, pause: true, last: "z 1-z"},
		},
		"a long poll that has left all out": {
			waited: true, got: peer.Changes{Skipped: 5, LastSeq: "9", End: true, Pending: 3},
			want: place{
				since: "9", through: "9", behind: 3, end: true, wait: true, flush: true, pause: true, last: "z 1-z",
			},
		},
		"a long poll that has a part": {
			waited: true, got: peer.Changes{Rows: []peer.Change{a}, Skipped: 4, LastSeq: "9", End: true, Pending: 3},
			want: place{since: "4", through: "4", pause: true, last: "z 1-z"},
		},
	} {
		r := reading()
		in := &r.in
		if in.wait = c.waited; c.noGoal {
			r.job.Goal = ""
		}
		in.proof.ahead = []peer.Mark{{ID: "a", Rev: "1-a"}, {ID: "q", Rev: "1-q"}}
		op := peer.ReadChanges{Since: "4", Limit: 5, Wait: c.waited}
		in.read(&call{op: op, sent: r.w.now}, op, peer.Reply{Result: c.got, Failure: c.failure})
		ids := ""
		for _, row := range in.rows {
			ids += " " + row.ID
		}
		if ids != "" {
			ids = "[" + ids[1:] + "]"
		}
		is := place{
			in.since, in.through, in.behind, in.end, in.wait, in.flush, in.pause > r.w.now,
			strings.TrimSpace(in.last.ID + " " + in.last.Rev + " " + in.last.Others), ids,
		}
		if is != c.want || !in.verify || r.ended {
			t.Errorf("%s: %+v, want %+v; verify %v, ended %v", name, is, c.want, in.verify, r.ended)
		}
		ahead := 2
		if strings.Contains(ids, "a") { // its row has come
			ahead = 1
		}
		if n := len(in.proof.ahead); n != ahead || in.proof.ahead[n-1].ID != "q" {
			t.Errorf("%s: looked for are %v", name, in.proof.ahead)
		}
	}
}

// TestWhatIsNext: the next thing that a run does to have all that the feed has in the mirror: first it makes sure of
// the database, then it applies what it has read, reads the documents of the rows that it has, stores how far it is,
// and goes on with the feed.
func TestWhatIsNext(t *testing.T) {
	mark := peer.Mark{ID: "m", Rev: "3-m"}
	row, doc := peer.Change{Seq: "6", ID: "b", Revs: []string{"1-b"}}, Incoming{Seq: "5", ID: "a", Rev: "1-a"}
	everything := func(in *inward) {
		in.proof.due, in.docs, in.proof.docs, in.rows = []peer.Mark{mark}, []Incoming{doc}, make([]peer.DocRead, 1),
			[]peer.Change{row}
		in.left.unread, in.run.job.Reconciling, in.end, in.flush = []string{"u"}, true, true, true
	}
	steps := []func(in *inward){
		func(in *inward) { in.proof.lost, in.verify = true, true },
		func(in *inward) { in.verify = true },
		func(*inward) {},
		func(in *inward) { in.proof.due = nil },
		func(in *inward) { in.proof.due, in.rows = nil, nil },
		func(in *inward) { in.proof.due, in.docs = nil, nil },
		func(in *inward) { in.proof.due, in.docs, in.proof.docs = nil, nil, nil },
		func(in *inward) { in.proof, in.docs, in.rows = proof{}, nil, nil },
		func(in *inward) { in.proof, in.docs, in.rows, in.left.unread = proof{}, nil, nil, nil },
		func(in *inward) { in.proof, in.docs, in.rows, in.run.job.Reconciling = proof{}, nil, nil, false },
		func(in *inward) {
			in.proof, in.docs, in.rows, in.run.job.Reconciling, in.flush = proof{}, nil, nil, false, false
		},
		func(in *inward) {
			in.proof, in.docs, in.rows, in.run.job.Reconciling, in.flush = proof{}, nil, nil, false, false
			in.told = true
		},
	}
	want := []string{
		"opened", "open", "find m", "apply 1 to 5, at end false, behind 8", "apply 1 to 9, at end true, behind 7",
		"apply 0 to 4, at end false, behind 8",
		"read b", "read u", "sweep", "apply 0 to 9, at end true, behind 7", "apply 0 to 9, at end true, behind 7",
		"changes since 4",
	}
	var got []string
	for _, step := range steps {
		r := reading()
		r.in.through, r.in.behind = "9", 7
		everything(&r.in)
		step(&r.in)
		r.in.advance()
		told := ""
		for _, e := range r.w.out {
			told += next(e)
		}
		got = append(got, told)
		before := len(r.w.out)
		if r.in.advance(); len(r.w.out) != before {
			t.Errorf("two things at once: %v", r.w.out)
		}
		r = reading()
		everything(&r.in)
		step(&r.in)
		r.in.pause = r.w.now + 1
		if r.in.advance(); len(r.w.out) > 0 || r.in.deadline() != r.in.pause {
			t.Errorf("in a pause: %v", r.w.out)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("next are\n%q, want\n%q", got, want)
	}
}

// next says in short what a run asks for.
func next(e Effect) string {
	switch e := e.(type) {
	case Ask:
		switch q := e.Request.(type) {
		case Opened:
			return "opened"
		case Sweep:
			return "sweep"
		case Apply:
			return fmt.Sprintf("apply %d to %s, at end %v, behind %d", len(q.Docs), q.Since, q.AtEnd, q.Behind)
		}
	case Call:
		switch op := e.Op.(type) {
		case peer.Open:
			return "open"
		case peer.FindRev:
			return "find " + op.ID
		case peer.ReadDocs:
			return "read " + op.IDs[0]
		case peer.ReadChanges:
			return fmt.Sprintf("changes since %s", op.Since)
		}
	}
	return fmt.Sprintf("%T", e)
}
