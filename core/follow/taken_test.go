package follow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
)

// TestDocumentsAreTaken: documents count as far as they are as their rows announce. From one that is older on the feed
// is read again, after a pause if it is the first; one that is newer waits until the database is known to have the
// newest change, and is then taken with what was announced, but only one at once.
func TestDocumentsAreTaken(t *testing.T) {
	for name, c := range map[string]struct {
		revs          string // of a, b and c, which are announced as 2-x each
		sure          bool
		docs, rows    string // taken, and still to be read
		through       peer.Seq
		again, proved bool   // the feed is read again; documents wait for proof
		last, ahead   string // newest change, if another one
		ends          bool
	}{
		"all as announced":     {revs: "2-x 2-x 2-x", docs: "a b c", through: "9"},
		"fewer than asked for": {revs: "2-x", docs: "a", rows: "b c", through: "9"},
		"the second is older":  {revs: "2-x 1-x 2-x", docs: "a", through: "5", again: true},
		"the first is older":   {revs: "1-x 2-x 2-x", through: "4", again: true},
		"the first is missing": {revs: "- 2-x 2-x", through: "4", again: true},
		"the first is another": {revs: "2-y 2-x 2-x", through: "4", again: true},
		"the first is newer":   {revs: "3-y 2-x 2-x", rows: "a b c", through: "9", proved: true},
		"the second is newer":  {revs: "2-x 3-y 2-x", docs: "a", rows: "b c", through: "9", proved: true},
		"it is, and was proved": {
			revs: "2-x 3-y 2-x", sure: true, docs: "a b>2-x c", through: "9", last: "b", ahead: "b",
		},
		"two are newer": {
			revs: "3-y 2-x 3-y", sure: true, docs: "a>2-x b", through: "6", again: true, last: "a", ahead: "a",
		},
		"none came": {revs: "", rows: "a b c", through: "9", ends: true},
	} {
		r := reading()
		in := &r.in
		in.through, in.end, in.wait, in.behind = "9", true, true, 3
		for i, id := range []string{"a", "b", "c"} {
			in.rows = append(in.rows, peer.Change{Seq: peer.Seq(fmt.Sprint(5 + i)), ID: id, Revs: []string{"2-x"}})
		}
		var got []peer.DocRead
		for i, rev := range strings.Fields(c.revs) {
			id := in.rows[i].ID
			d := peer.DocRead{ID: id, Rev: strings.Trim(rev, "-"), Body: []byte(bodyX), TooLarge: id == "c"}
			got = append(got, d)
		}
		in.fetched(got, c.sure)
		var docs, rows, ahead []string
		for i, d := range in.docs {
			text := d.ID
			if d.Announced != "" {
				text += ">" + d.Announced
			}
			docs = append(docs, text)
			if d.Rev != got[i].Rev || string(d.Body) != bodyX || d.Seq != peer.Seq(fmt.Sprint(5+i)) ||
				(d.Refusal != "") != (d.ID == "c") {
				t.Errorf("%s: taken is %+v of %+v", name, d, got[i])
			}
		}
		for _, row := range in.rows {
			rows = append(rows, row.ID)
		}
		for _, m := range in.proof.ahead {
			ahead = append(ahead, m.ID)
		}
		const all = "docs %v, rows %v, through %s, again %v, proved %v, ahead %v, ends %v"
		is := fmt.Sprintf(all, docs, rows, in.through, in.behind == -1, len(in.proof.docs) > 0, ahead, r.ended)
		want := fmt.Sprintf(all, strings.Fields(c.docs), strings.Fields(c.rows), c.through, c.again, c.proved,
			strings.Fields(c.ahead), c.ends)
		if is != want || in.end == c.again || in.wait == c.again || c.last != "" && in.last.ID != c.last {
			t.Errorf("%s: %s, want %s; end %v, wait %v, last %s", name, is, want, in.end, in.wait, in.last)
		}
		first := c.again && c.docs == ""
		if pauses := in.pause > r.w.now; pauses != first || in.flush != first || (in.reads.stale == 1) != first {
			t.Errorf("%s: pauses %v, stores how far it is %v, in vain %d times", name, pauses, in.flush, in.reads.stale)
		}
	}
}

// TestReadInVain: a document that is not to be had is waited for ever longer, and then left out, and operators are told
// which. More than ten in a row end the run.
func TestReadInVain(t *testing.T) {
	r := reading()
	in := &r.in
	for n := range maxUnread + 1 {
		for i := range maxStale + 1 {
			if r.ended || len(in.docs) > 0 {
				t.Fatalf("it is left out after %d times", i)
			}
			in.rows = []peer.Change{{Seq: "5", ID: "d", Revs: []string{"2-x", "1-y"}}, {Seq: "6", ID: "e"}}
			in.through, in.end, in.wait = "9", true, true
			in.fetched([]peer.DocRead{{ID: "d"}}, false)
			if pause := in.pause.Sub(r.w.now); i < maxStale && pause != 500*time.Millisecond<<i {
				t.Errorf("pause %d is %s", i, pause)
			}
			r.w.now = in.pause
		}
		if n == maxUnread {
			break
		}
		left := Incoming{Seq: "5", ID: "d", Announced: "2-x 1-y", Unread: true}
		if len(in.docs) != 1 || fmt.Sprint(in.docs[0]) != fmt.Sprint(left) || len(in.rows) > 0 || in.through != "5" ||
			in.end || in.wait || r.odd[n] != "d" || !r.job.Missing || r.unread.Error != "missing_doc" {
			t.Fatalf("left out are %+v, then %v from %s, %+v", in.docs, in.rows, in.through, r)
		}
		in.docs = nil
	}
	if !r.ended || r.error != "missing_doc" || !strings.Contains(r.reason, `revision 2-x of`) ||
		!strings.Contains(r.reason, `document "d"`) {
		t.Errorf("ended %v: %s, %s", r.ended, r.error, r.reason)
	}
	r = reading()
	for range 3 * maxStale { // it is late each time, and comes
		for _, rev := range []string{"1-x", "2-x"} {
			r.in.rows = []peer.Change{{Seq: "5", ID: "d", Revs: []string{"2-x"}}}
			r.in.fetched([]peer.DocRead{{ID: "d", Rev: rev}}, false)
			r.in.docs = nil
		}
	}
	if r.ended {
		t.Error("a document that is late again and again ends the run")
	}
}

// TestApplied: how far a run knows the job to be once documents are in the mirror, all of them or a part.
func TestApplied(t *testing.T) {
	mark := peer.Mark{ID: "b", Rev: "1-b"}
	for name, c := range map[string]struct {
		n             int
		atEnd, told   bool
		since, stored peer.Seq
		last          bool // the newest change is known
		left          int
		goal          peer.Seq
		current       bool // operators are told that all is known
	}{
		"all":                     {n: 2, since: "9", stored: "9", last: true, goal: "30"},
		"all there is":            {n: 2, atEnd: true, since: "9", stored: "9", last: true, current: true},
		"all there is once more":  {n: 2, atEnd: true, told: true, since: "9", stored: "9", last: true},
		"a part":                  {n: 1, since: "5", stored: "5", last: true, left: 1, goal: "30"},
		"a part of all there is":  {n: 1, atEnd: true, since: "5", stored: "5", last: true, left: 1, goal: "30"},
		"nothing of it":           {n: 0, since: "4", stored: "4", left: 2, goal: "old"},
		"nothing of all there is": {n: 0, atEnd: true, since: "4", stored: "4", left: 2, goal: "old"},
	} {
		r := reading()
		in := &r.in
		r.job.Since, r.job.Goal, r.job.Errors = "4", "old", 3
		in.asking, in.flush, in.told = true, true, c.told
		in.docs = []Incoming{{Seq: "5", ID: "a"}, {Seq: "6", ID: "b"}}
		q := Apply{Docs: in.docs, Since: "9", Goal: "30", Last: mark, AtEnd: c.atEnd}
		in.applied(q, Applied{N: c.n, Due: c.n == 1})
		if in.since != c.since || in.stored != c.stored || (r.job.Last == mark) != c.last || len(in.docs) != c.left ||
			r.job.Goal != c.goal || in.asking || in.flush != (c.left > 0) {
			t.Errorf("%s: since %s, stored %s, last %v, %d left, goal %q, asking %v, flush %v", name, in.since,
				in.stored, r.job.Last, len(in.docs), r.job.Goal, in.asking, in.flush)
		}
		if known := c.n > 0; r.job.Since != c.stored || (r.job.Before == "4") != known {
			t.Errorf("%s: the job is at %s, and its last change behind %q", name, r.job.Since, r.job.Before)
		}
		told := len(r.w.out) == 1
		if told != c.current || in.told != (c.current || c.told) || (r.job.Errors == 0) != told {
			t.Errorf("%s: told %v, %d errors", name, r.w.out, r.job.Errors)
		}
		if (r.out.retry != 0) != (c.n == 1) {
			t.Errorf("%s: states that are due are looked for at %d", name, r.out.retry)
		}
	}
}

// TestErrorsOfALongRun: a run that fails after a long time begins with short pauses, though it has not got through.
func TestErrorsOfALongRun(t *testing.T) {
	for ran, want := range map[time.Duration]int{time.Minute: 4, time.Hour: 1} {
		r := reading()
		r.job.Errors = 3
		r.w.now = r.began.Add(ran)
		r.end("timeout", "why")
		r.advance()
		ask, _ := r.w.out[len(r.w.out)-1].(Ask)
		if q, is := ask.Request.(Release); !is || q.Errors != want {
			t.Errorf("after %s: %+v, want %d errors", ran, r.w.out, want)
		}
	}
}

// TestLeftovers: documents that the feed did not bring are asked for until the database has said of each that it is not
// there, or has answered it each time; then it is taken as it is.
func TestLeftovers(t *testing.T) {
	r := reading()
	in := &r.in
	in.through, r.job.Reconciling = "9", true
	in.asking = true
	in.swept(Sweep{}, Swept{After: "a", Unread: []string{"b", "c", "d"}})
	if in.asking || !r.job.Reconciling || in.left.after != "a" || len(in.left.unread) != 3 {
		t.Fatalf("swept: %+v", in.left)
	}
	there := func(id string) peer.DocRead { return peer.DocRead{ID: id, Rev: "1-x", Body: []byte(bodyX)} }
	in.confirm([]peer.DocRead{there("b"), {ID: "c"}}) // an answer may have a part
	if fmt.Sprint(in.left.unread, in.left.absent) != "[d] [c]" || in.pause > r.w.now {
		t.Fatalf("after the first answer: %+v", in.left)
	}
	in.confirm([]peer.DocRead{{ID: "d", Rev: "2-x", Deleted: true}})
	if fmt.Sprint(in.left.unread, in.left.absent) != "[b] [c d]" || in.pause.Sub(r.w.now) != 500*time.Millisecond {
		t.Fatalf("after the second: %+v, pause %s", in.left, in.pause.Sub(r.w.now))
	}
	for n := 1; n < maxMissed; n++ {
		if len(in.docs) > 0 {
			t.Fatalf("taken after %d answers", n)
		}
		in.confirm([]peer.DocRead{there("b")})
	}
	if len(in.docs) != 1 || in.docs[0].ID != "b" || in.docs[0].Rev != "1-x" || in.docs[0].Seq != "9" ||
		in.last.ID != "z" || len(in.proof.ahead) != 1 || in.proof.ahead[0].ID != "b" || len(in.left.unread) > 0 {
		t.Errorf("taken: %+v, last %s, %+v", in.docs, in.last, in.left)
	}
	in.swept(Sweep{}, Swept{Whole: true})
	if r.job.Reconciling || len(in.left.absent) > 0 {
		t.Errorf("at the end: %+v", in.left)
	}
	r = reading()
	in = &r.in
	in.through = `"9-g1"`
	ids, revs := []string{"a", "b", "c", "d", "e", "f"}, []string{"", "1-x", "2-y", "2-x", "3-x", "1-y"}
	in.swept(Sweep{}, Swept{Unread: ids, Announced: map[string]string{
		"a": "2-x 1-y", "b": "2-x 1-y", "c": "2-x 1-y", "d": "2-x 1-y", "e": "2-x 1-y", "f": "2-x 1-y",
	}})
	var got []peer.DocRead
	for i, id := range ids {
		got = append(got, peer.DocRead{ID: id, Rev: revs[i], Deleted: id == "b" || id == "e"})
	}
	in.confirm(got)
	if fmt.Sprint(r.odd, in.left.absent, in.left.unread) != "[a b c f] [e] [d]" || r.unread.Error != "missing_doc" {
		t.Errorf("of those that were announced left out are %v, and then %+v", r.odd, in.left)
	}
	for _, n := range []int{0, 3} {
		r := reading()
		r.in.left.unread = []string{"b", "c"}
		if r.in.confirm(make([]peer.DocRead, n)); !r.ended || r.error != "malformed_response" {
			t.Errorf("an answer of %d documents to a question of 2 is taken", n)
		}
	}
}

// TestStatesOfOtherDocuments: an answer about none of the documents whose states are to be written, or about more, is
// told, and the states stay due.
func TestStatesOfOtherDocuments(t *testing.T) {
	for _, n := range []int{0, 3} {
		r := reading()
		out := &r.out
		out.states = make([]State, 2)
		if out.read(peer.DocsRead{Docs: make([]peer.DocRead, n)}); out.states != nil || !out.skipped {
			t.Errorf("of %d documents: %+v", n, out)
		}
		if note := fmt.Sprint(r.w.out); !strings.Contains(note, "malformed_response") {
			t.Errorf("of %d documents: %s", n, note)
		}
	}
}

// TestSearch: a change that the database knows is looked for no more, and one that it does not know is looked for a few
// times more, as a node may lag behind, before the database counts as put back.
func TestSearch(t *testing.T) {
	r := reading()
	in := &r.in
	in.proof.due = []peer.Mark{{ID: "a"}, {ID: "b"}}
	in.rows = []peer.Change{{Seq: "5", ID: "d", Revs: []string{"2-x"}}}
	in.proof.docs = []peer.DocRead{{ID: "d", Rev: "3-y", Body: []byte(bodyX)}}
	in.proved(false)
	first := in.pause.Sub(r.w.now)
	in.proved(true)
	if len(in.proof.due) != 1 || in.proof.due[0].ID != "b" || len(in.docs) > 0 || first != 500*time.Millisecond {
		t.Errorf("after the first was found: %+v, pause %s", in.proof, first)
	}
	if in.proved(true); len(in.proof.due) > 0 || len(in.docs) != 1 || len(in.rows) > 0 || len(in.proof.docs) > 0 {
		t.Errorf("after both were found: %+v, taken %+v", in.proof, in.docs)
	}
	r = reading()
	in = &r.in
	in.proof.due, in.rows, in.end, in.wait, in.told = []peer.Mark{{ID: "a"}}, make([]peer.Change, 1), true, true, true
	in.docs, in.proof.docs, in.proof.ahead = make([]Incoming, 1), make([]peer.DocRead, 1), make([]peer.Mark, 1)
	in.left = leftover{after: "m", unread: []string{"n"}, absent: []string{"o"}, reads: 1}
	r.job.Instance, r.job.Last = "7", peer.Mark{ID: "a"}
	for n := range maxMissed {
		if in.asking {
			t.Fatalf("given up after %d times", n)
		}
		in.proved(false)
	}
	in.unfound()
	left := len(in.rows) + len(in.docs) + len(in.proof.docs) + len(in.proof.ahead)
	begins := left == 0 && !in.end && !in.wait && !in.told
	if len(r.w.asks) != 1 || r.w.asks[0].req != (Opened{r.Held, "7", r.job.Last}) || !begins {
		t.Errorf("asked for is %v; %+v", r.w.asks, in)
	}
	in.noted(Noted{Job{Epoch: 1, Reconciling: true}})
	if l := in.left; l.after != "" || len(l.unread)+len(l.absent) > 0 || l.reads != 0 || in.asking {
		t.Errorf("documents of the database before are left to be asked for: %+v", l)
	}
}

// TestExpiredInParts: a worker whose jobs are given back in several transactions asks for the next one until all are.
// Before that it neither leaves nor forgets the other worker.
func TestExpiredInParts(t *testing.T) {
	for _, name := range []string{"me", "other"} {
		w := New(Config{Worker: "me"})
		w.name, w.lease, w.left = "me", live, []string{"other"}
		for i, whole := range []bool{false, false, true} {
			w.asks = nil
			w.answered(&ask{req: Expire{Worker: name}}, Expired{Whole: whole})
			goesOn := w.lease == live && len(w.left) == 1 && len(w.asks) == 1
			if goesOn == whole || whole && len(w.asks) > 0 {
				t.Errorf("%s after part %d: lease %v, left %v, asks %v", name, i, w.lease, w.left, w.asks)
			}
		}
	}
}
