package follow

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/ejson"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// stated is a document with a state, none if that is empty.
func stated(body, state string) []byte {
	if state == "" {
		return []byte(body)
	}
	return fmt.Appendf(nil, `%s,"_replication_state":%q}`, body[:len(body)-1], state)
}

// TestWhatIsWritten: a state is written over the document that was applied, over the one before it, and over what was
// written before; what has the state by now is noted; all else is left to the feed, which brings it.
func TestWhatIsWritten(t *testing.T) {
	const applied, before, unknown = "2-a", "1-b", "3-c"
	const body, edited = `{"source":"http://a/x"}`, `{"source":"http://a/y"}`
	for _, wanted := range []string{"completed", ""} {
		for _, rev := range []string{applied, before, unknown} {
			for _, is := range []string{"", "completed", "failed", "error"} {
				for _, text := range []string{body, edited} {
					known := rev == applied || rev == before && text == body
					want := ""
					switch {
					case text == edited && rev != applied: // a user wrote it
					case rev == before: // or a node that lags behind has answered: then the write is a conflict
						want = "written"
					case is == wanted && (known || wanted != ""):
						want = "noted"
					case is == wanted: // a user may have written it to have it run again
					case known, is == "failed":
						want = "written"
					}
					if got := outcomeOf(t, wanted, rev, text, is); got != want && (text == body || rev != applied) {
						t.Errorf("%q over %s of %s with state %q: %q, want %q", wanted, rev, text, is, got, want)
					}
				}
			}
		}
	}
}

// outcomeOf is what becomes of a state when the document is read so.
func outcomeOf(t *testing.T, wanted, rev, text, state string) string {
	w := New(Config{Worker: "w"})
	r := &run{w: w}
	r.in.run, r.out.run = r, r
	body, digest, due, _ := split(stated(`{"source":"http://a/x"}`, wanted))
	_, _, sent, _ := split(stated(`{"source":"http://a/x"}`, "failed"))
	r.out.states = []State{{
		ID: "d", Rev: "2-a", Over: []string{"1-b"}, Body: digest, Was: []string{sent},
		Members: stateMembers(body), Digest: due,
	}}
	r.out.read(peer.DocsRead{Docs: []peer.DocRead{{ID: "d", Rev: rev, Body: stated(text, state)}}})
	if len(r.out.states) != 0 {
		t.Errorf("%d states are left", len(r.out.states))
	}
	switch {
	case len(r.out.edits) == 1:
		e := r.out.edits[0]
		_, _, now, err := split(e.body)
		if err != nil || now != due || e.base != rev || r.out.skipped {
			t.Errorf("written is %s over %s (%v), skipped %v", e.body, e.base, err, r.out.skipped)
		}
		return "written"
	case len(r.out.written) == 1:
		if got := r.out.written[0]; got != (Written{"d", "2-a", "2-a", rev, due}) || r.out.skipped {
			t.Errorf("noted is %+v, skipped %v", got, r.out.skipped)
		}
		return "noted"
	case !r.out.skipped:
		t.Errorf("%q over %s with state %q is forgotten", wanted, rev, state)
	}
	return ""
}

// TestStateTakenAway: a later revision without a state is a user's, who wants the job to run again, also if an earlier
// write, which may have arrived, has removed the state. The feed tells.
func TestStateTakenAway(t *testing.T) {
	for rev, edits := range map[string]int{"2-a": 1, "1-b": 1, "3-c": 0} {
		r := &run{w: New(Config{Worker: "w"})}
		r.in.run, r.out.run = r, r
		body, digest, due, _ := split(stated(`{"source":"http://a/x"}`, "failed"))
		r.out.states = []State{{
			ID: "d", Rev: "2-a", Over: []string{"1-b"}, Body: digest, Was: []string{noState},
			Members: stateMembers(body), Digest: due,
		}}
		r.out.read(peer.DocsRead{Docs: []peer.DocRead{{ID: "d", Rev: rev, Body: []byte(`{"source":"http://a/x"}`)}}})
		if len(r.out.edits) != edits || r.out.skipped != (edits == 0) {
			t.Errorf("over %s: %d edits, skipped %v", rev, len(r.out.edits), r.out.skipped)
		}
	}
}

// TestSeen: what changed is prepared once, and how far the mirror was looked at is noted with that.
func TestSeen(t *testing.T) {
	r := &run{w: New(Config{Worker: "w"}), Held: Held{ID: "m"}}
	r.out.run = r
	seen := Seen{Changed: []string{"a", "b"}, Looked: "5-0-0", More: true}
	for range 2 {
		r.out.seen(seen)
	}
	want := Prepare{Held: r.Held, Changed: seen.Changed, Looked: seen.Looked}
	if len(r.w.out) != 1 || !reflect.DeepEqual(r.w.out[0], Ask{1, want}) {
		t.Errorf("asks %v, want %v", r.w.out, want)
	}
}

// TestWhatIsNotWritten: a document that is too large, or gone, is tried again, and what is read of others counts.
func TestWhatIsNotWritten(t *testing.T) {
	r := &run{w: New(Config{Worker: "w"})}
	r.in.run, r.out.run = r, r
	_, digest, _, _ := split([]byte("{}"))
	over := ejson.Member{Name: "_replication_state", Value: ejson.Value{Kind: ejson.String, Text: "completed"}}
	for _, id := range []string{"large", "deleted", "missing", "there", "next"} {
		r.out.states = append(r.out.states, State{
			ID: id, Rev: "1-a", Body: digest, Members: []ejson.Member{over}, Digest: stateDigest([]ejson.Member{over}),
		})
	}
	r.out.alone = true // a request before failed as a whole
	r.out.read(peer.DocsRead{Docs: []peer.DocRead{
		{ID: "large", Rev: "1-a", TooLarge: true}, {ID: "deleted", Rev: "1-a", Deleted: true, Body: []byte("{}")},
		{ID: "missing"}, {ID: "there", Rev: "1-a", Body: []byte("{}")},
	}})
	if len(r.out.edits) != 1 || r.out.edits[0].ID != "there" || len(r.out.written) != 0 || !r.out.skipped {
		t.Errorf("edits %+v, written %+v, skipped %v", r.out.edits, r.out.written, r.out.skipped)
	}
	large := outward{run: r, states: []State{{ID: "large", Rev: "1-a"}}}
	if large.read(peer.DocsRead{Docs: []peer.DocRead{{ID: "large", Rev: "1-a", TooLarge: true}}}); !large.skipped {
		t.Error("a document that is too large is not tried again")
	}
	if len(r.out.states) != 1 || r.out.states[0].ID != "next" || r.out.alone {
		t.Errorf("to be read are %+v; one by one: %v", r.out.states, r.out.alone)
	}
}

// TestEdited: of the answers to edits, each counts for its own document. An error word that no class is known for is
// told as doc_write_failed, and a conflict is left to the feed.
func TestEdited(t *testing.T) {
	for _, c := range []struct {
		answer  peer.EditedDoc
		written bool
		told    string
	}{
		{peer.EditedDoc{ID: "d", Rev: "2-b"}, true, ""},
		{peer.EditedDoc{ID: "d", Error: "conflict"}, false, ""},
		{peer.EditedDoc{ID: "d", Error: "forbidden", Reason: "no"}, false, "forbidden"},
		{peer.EditedDoc{ID: "d", Error: "unknown_word", Reason: "forbidden"}, false, "doc_write_failed"},
		{peer.EditedDoc{ID: "d"}, false, "doc_write_failed"},
	} {
		r := &run{w: New(Config{Worker: "w"})}
		r.in.run, r.out.run = r, r
		r.out.edits = []edit{
			{State: State{ID: "c", Rev: "1-c"}, base: "1-c"},
			{State: State{ID: "d", Rev: "1-a", Digest: "x"}, base: "1-b"},
		}
		r.out.edited(peer.Edited{Docs: []peer.EditedDoc{{ID: "c", Rev: "2-c"}, c.answer}})
		want := []Written{{"c", "1-c", "1-c", "2-c", ""}}
		if c.written {
			want = append(want, Written{"d", "1-a", "1-b", "2-b", "x"})
		}
		told := ""
		for _, e := range r.w.out {
			told += e.(Note).Error
			if text := `the state of document "d" cannot be written: ` + c.answer.Reason; e.(Note).Text != text {
				t.Errorf("%+v is told as %q", c.answer, e)
			}
		}
		if !slices.Equal(r.out.written, want) || told != c.told || r.out.skipped == c.written || len(r.out.edits) > 0 {
			t.Errorf("%+v: written %+v, told %q, skipped %v", c.answer, r.out.written, told, r.out.skipped)
		}
	}
}

// TestEditedOthers: an answer about fewer or more documents than were sent says nothing of any of them.
func TestEditedOthers(t *testing.T) {
	for n := range 4 {
		r := &run{w: New(Config{Worker: "w"})}
		r.in.run, r.out.run = r, r
		r.out.edits = []edit{{State: State{ID: "c", Rev: "1-c"}}, {State: State{ID: "d", Rev: "1-a"}}}
		r.out.edited(peer.Edited{Docs: slices.Repeat([]peer.EditedDoc{{ID: "c", Rev: "2-c"}}, n)})
		if whole := n == 2; len(r.out.written) > 0 != whole || r.out.skipped == whole || len(r.w.out) > 0 == whole {
			t.Errorf("of two states %d are answered: written %+v, told %v", n, r.out.written, r.w.out)
		}
	}
}

// TestStatesWithoutOdd: whichever request about states meets a document that cannot be read, it is repeated without
// that once it has met it maxOdd times in a row, and operators are told.
func TestStatesWithoutOdd(t *testing.T) {
	without := func(q Request) []string {
		return reflect.ValueOf(q).FieldByName("Without").Interface().([]string)
	}
	for _, q := range []Request{Look{}, Prepare{}, Sent{}} {
		w := New(Config{Worker: "w"})
		a := &ask{req: q, run: &run{w: w}}
		for n := range 2 * maxOdd {
			if got := len(without(a.req)); got != n/maxOdd || len(w.out) != got {
				t.Errorf("%T: after %d answers it is without %d, and %d are told", q, n, got, len(w.out))
			}
			a.avoid(w, Answer{Doc: []string{"d", "e"}[n/maxOdd]})
		}
		if got := without(a.req); !slices.Equal(got, []string{"d", "e"}) {
			t.Errorf("%T: it is without %q", q, got)
		}
	}
}

// TestReadsForget: a document that has failed alone, and was read since, is not left out as one beside it fails.
func TestReadsForget(t *testing.T) {
	p, f := &reads{}, &peer.Failure{Kind: peer.TimedOut}
	var got []outcome
	for _, failure := range []*peer.Failure{f, nil, nil} { // alone, about none, alone
		got = append(got, p.judge(p.op([]string{"x"}), failure, 1))
	}
	for _, failure := range []*peer.Failure{f, nil} { // both, about none
		got = append(got, p.judge(p.op([]string{"x", "y"}), failure, 1))
	}
	if want := []outcome{again, unread, taken, again, again}; !slices.Equal(got, want) {
		t.Errorf("the answers mean %v", got)
	}
}

// TestReadsGrow: after a request for documents was split, those that succeed ask for twice as many each time, and at
// last for all.
func TestReadsGrow(t *testing.T) {
	p, ids := &reads{most: 1}, make([]string, 5000)
	var asked []int
	for range 12 {
		op := p.op(ids)
		asked = append(asked, len(op.IDs))
		p.judge(op, nil, 1)
	}
	if want := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 5000, 5000}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v", asked)
	}
}

// TestRefusedEdits: a request that fails as a whole, perhaps for one document, is split, one that fails so for one
// document leaves that out, and any other failure ends the pass.
func TestRefusedEdits(t *testing.T) {
	status := func(n int) *peer.Failure { return &peer.Failure{Kind: peer.Status, Status: n} }
	for _, c := range []struct {
		edits   int
		failure *peer.Failure
		left    int
		atOnce  int
		told    bool
	}{
		{3, status(413), 3, 1, false}, {3, status(500), 3, 1, false}, {1, status(413), 0, 0, true},
		{3, status(503), 3, 1, false}, {3, status(401), 0, 0, true}, {1, status(500), 0, 0, true},
		{3, status(400), 3, 1, false}, {3, status(403), 3, 1, false},
		{3, &peer.Failure{Kind: peer.Status, Status: 403, Error: "forbidden"}, 0, 0, true},
		{3, &peer.Failure{Kind: peer.TimedOut}, 3, 1, false}, {1, &peer.Failure{Kind: peer.TimedOut}, 0, 0, true},
		{3, &peer.Failure{Kind: peer.Unreachable, Status: 500}, 0, 0, true},
	} {
		r := &run{w: New(Config{Worker: "w"})}
		r.in.run, r.out.run = r, r
		r.out.edits, r.out.states, r.out.paging = make([]edit, c.edits), make([]State, 1), true
		r.out.failed(peer.EditDocs{}, c.failure)
		ends := c.left == 0 && c.edits > 1 || c.failure.Status == 401
		n := r.out.atOnce()
		if len(r.out.edits) != c.left || c.left > 0 && n != c.atOnce || (len(r.w.out) > 0) != c.told {
			t.Errorf("%d edits, %+v: %d left, %d at once; told %v", c.edits, c.failure, len(r.out.edits), n, r.w.out)
		}
		if ends == r.out.paging || ends != (len(r.out.states) == 0) || r.out.skipped != c.told {
			t.Errorf("%d edits, %+v: the pass goes on: %v, skipped %v", c.edits, c.failure, r.out.paging, r.out.skipped)
		}
	}
	r := &run{w: New(Config{Worker: "w"})}
	r.in.run, r.out.run = r, r
	r.out.edits, r.out.alone = make([]edit, 3), true
	if r.out.failed(peer.EditDocs{}, status(413)); len(r.out.edits) != 2 || !r.out.alone {
		t.Errorf("one by one: %d are left", len(r.out.edits))
	}
	r.out.failed(peer.ReadDocs{}, status(413))
	if len(r.out.edits) != 0 {
		t.Error("a read that is refused leaves edits")
	}
	for n, left := range map[int]int{503: 0, 500: 20} {
		r.out.edits, r.out.alone, r.out.row = make([]edit, 31), true, 0
		for range maxUnread + 1 {
			r.out.failed(peer.EditDocs{}, status(n))
		}
		if len(r.out.edits) != left {
			t.Errorf("after so many that fail with %d, %d are left", n, len(r.out.edits))
		}
	}
}

// TestProbeForAnother: a request about no document says nothing of one that has come in front since another one failed.
func TestProbeForAnother(t *testing.T) {
	p := reads{}
	p.judge(p.op([]string{"a"}), &peer.Failure{Kind: peer.Status, Status: 500}, 1)
	if probe := p.op([]string{"b"}); len(probe.IDs) > 0 || p.judge(probe, nil, 1) != again {
		t.Errorf("of %v the document in front is passed over", probe.IDs)
	}
}

// TestRowOfFailuresEnds: edits that got through, and a pass that ended, end a row of edits that failed alone. After a
// page was read edits are sent together again.
func TestRowOfFailuresEnds(t *testing.T) {
	r := &run{w: New(Config{Worker: "w"})}
	out := &r.out
	r.in.run, out.run, out.alone = r, r, true
	out.edits, out.row = make([]edit, 2), maxUnread
	if out.edited(peer.Edited{Docs: []peer.EditedDoc{{Rev: "2-b"}}}); out.row != 0 || len(out.edits) != 1 {
		t.Errorf("behind an edit %d have failed, and %d are left", out.row, len(out.edits))
	}
	out.row = maxUnread
	if out.failed(peer.EditDocs{}, &peer.Failure{Kind: peer.Status, Status: 401}); out.row != 0 {
		t.Errorf("behind a pass %d have failed", out.row)
	}
	out.states = make([]State, 2)
	if out.read(peer.DocsRead{Docs: make([]peer.DocRead, 2)}); out.alone {
		t.Error("edits of the next page are sent one by one")
	}
}

// TestStrayPasses: the database is read anew once three passes in a row have met the same document in the same
// revision. A letter and a digit are such a document, and a ! is a state that is not written for another reason.
func TestStrayPasses(t *testing.T) {
	for passes, lost := range map[string]bool{
		"a1 a1 a1": true, "b1 a1,b1 a1,b1": true, "a1 b1 b1 b1": true, "a1,! a1 a1,!": true,
		"a1 a1": false, "a1 a1 a2": false, "a1 a1 b1": false, "a1 a1 - a1": false,
		"a1 ! a1 a1": false, "a1 a1 ! a1": false,
	} {
		r := reading()
		out := &r.out
		r.in.end, r.in.told, out.next = true, true, instant.Never
		for _, pass := range strings.Fields(passes) {
			if r.in.proof.lost {
				t.Errorf("%s: it is read anew before", passes)
			}
			out.passing, out.retry = true, 0
			for _, met := range strings.Split(pass, ",") {
				if met == "!" {
					out.skipped = true
				} else if met != "-" {
					out.skip(met[:1], met[1:])
				}
			}
			out.rest()
		}
		if r.in.proof.lost != lost {
			t.Errorf("%s: read anew: %v", passes, r.in.proof.lost)
		}
	}
}

// TestRest: what a pass has left is tried again after a pause, which what a look leaves does not put off. What
// the feed has brought is tried at once, also if a pass that is under way leaves something.
func TestRest(t *testing.T) {
	r := reading()
	out := &r.out
	out.next, out.passing, out.skipped, out.fails = instant.Never, true, true, 3
	out.rest()
	if pause := out.retry.Sub(r.w.now); out.fails != 4 || pause < 12*time.Second || pause > 16*time.Second {
		t.Errorf("after %d passes the next one comes in %s", out.fails, pause)
	}
	before := out.retry
	r.w.now, out.skipped = r.w.now.Add(time.Second), true
	if out.rest(); out.retry != before || out.deadline() != before {
		t.Errorf("a look puts the next pass off from %s to %s", before, out.retry)
	}
	out.passing, out.skipped = true, true
	if out.again(); out.retry != r.w.now || out.fails != 0 {
		t.Errorf("after %d passes the next one comes at %s", out.fails, out.retry)
	}
	if out.rest(); !out.passing || !out.asking {
		t.Error("what the feed has brought waits for a pause")
	}
	out.asking, out.retry, out.next = false, r.w.now, r.w.now
	if out.rest(); out.passing || !out.asking {
		t.Error("passes that begin at once keep the mirror from being looked at")
	}
	out.asking, out.next = false, r.w.now
	if out.rest(); !out.passing || !out.asking {
		t.Error("looks at a mirror that changes all the time keep passes from beginning")
	}
}

// TestFirstPauseAgain: a pass that has written all states ends a row of failures, so the next one is tried again soon.
func TestFirstPauseAgain(t *testing.T) {
	r := &run{w: New(Config{Worker: "w"})}
	r.in.run, r.out.run = r, r
	out := &r.out
	pass := func(skipped bool) time.Duration {
		out.retry, out.passing, out.skipped, out.next = 0, true, skipped, instant.Never
		out.rest()
		return time.Duration(out.retry) * time.Microsecond
	}
	for range 8 {
		pass(true)
	}
	if wait := pass(true); wait < pauses.Max/2 {
		t.Errorf("after nine failures it waits for %s", wait)
	}
	pass(false)
	if wait := pass(true); wait > 2*pauses.Min {
		t.Errorf("after one failure it waits for %s", wait)
	}
}

// TestLooksGoOn: a run goes on with the changes of its mirror where the one before it has come to.
func TestLooksGoOn(t *testing.T) {
	w := New(Config{Worker: "w", Pages: DefaultPages()})
	w.accepted(Accepted{Jobs: []Taken{{Job: Job{Looked: "7"}}}})
	r := w.runs[0]
	r.in.opened, r.out.retry = true, 0
	r.out.advance()
	if q := w.asks[0].req; !reflect.DeepEqual(q, Look{Looked: "7"}) {
		t.Errorf("asks for %+v", q)
	}
}
