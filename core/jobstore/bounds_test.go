package jobstore

import (
	"strings"
	"testing"

	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// TestClip: a text of up to the limit stays as it is, and a longer one is cut there, but not within a character.
func TestClip(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""}, {"a", 0, "..."}, {"abc", 3, "abc"}, {"abcd", 3, "abc..."}, {"abc", 4, "abc"},
		{"äöü", 6, "äöü"}, {"äöü", 5, "äö..."}, {"äöü", 4, "äö..."}, {"äöü", 1, "..."},
	} {
		if got := clip(c.text, c.limit); got != c.want {
			t.Errorf("%q of %d bytes: %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

// TestBoundsOfRecord: each text that servers determine is cut at its own limit, and a longer result is left out.
func TestBoundsOfRecord(t *testing.T) {
	for more := range 2 {
		text := func(n int) string { return strings.Repeat("x", n+more) }
		r := Record{Reason: text(maxReason), Result: json.Raw(text(maxResult))}
		for _, seq := range []*SeqText{&r.Stats.CheckpointedSourceSeq, &r.Stats.SourceSeq, &r.Stats.ThroughSeq} {
			*seq = SeqText(text(maxSeqText))
		}
		r.bound()
		longer, result := 3*more, maxResult*(1-more) // the dots
		if len(r.Reason) != maxReason+longer || len(r.Result) != result {
			t.Errorf("%d more: a reason of %d bytes, a result of %d", more, len(r.Reason), len(r.Result))
		}
		for _, seq := range []SeqText{r.Stats.CheckpointedSourceSeq, r.Stats.SourceSeq, r.Stats.ThroughSeq} {
			if len(seq) != maxSeqText+longer {
				t.Errorf("%d more: a sequence of %d bytes", more, len(seq))
			}
		}
	}
}

// TestBoundsOfHistory: the newest events are kept, first, as many as the limit says and as fit.
func TestBoundsOfHistory(t *testing.T) {
	types := func(r *Record) (all string) {
		for _, e := range r.History {
			all += e.Type
		}
		return all
	}
	for limit, want := range map[int]string{-1: "d", 0: "d", 1: "d", 2: "dc", 3: "dcb", 4: "dcba", 5: "dcba"} {
		r := Record{}
		r.note(limit, Event{Type: "a"}, Event{Type: "b"})
		if r.note(limit, Event{Type: "c"}, Event{Type: "d"}); types(&r) != want {
			t.Errorf("%d events at most: %s, want %s", limit, types(&r), want)
		}
	}
	fill := func(last int) string {
		r := Record{}
		r.note(9, Event{Type: "a"}, Event{Type: "b", Reason: strings.Repeat("x", last)})
		for _, name := range []string{"c", "d", "e"} {
			r.note(9, Event{Type: name, Reason: strings.Repeat("x", 80_000-51)})
		}
		return types(&r)
	}
	rest := maxHistory - 3*80_000 - 51 // an event takes 50 bytes, its type and its reason
	for last, want := range map[int]string{rest - 51: "edcba", rest - 50: "edcb", rest: "edcb", rest + 1: "edc"} {
		if got := fill(last); got != want {
			t.Errorf("%d bytes are left for an event of %d: %s, want %s", rest, last, got, want)
		}
	}
	r := Record{}
	if r.note(1, Event{Reason: strings.Repeat("x", maxReason+1)}); len(r.History[0].Reason) != maxReason+3 {
		t.Errorf("a reason of %d bytes", len(r.History[0].Reason))
	}
}

// TestHoldsAreValid: a hold names a database of replications or a server, and has a reason of up to 1000 bytes.
func TestHoldsAreValid(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		hold  Hold
		valid string // its id, empty if it is refused
	}{
		{Hold{}, ""}, {Hold{Database: "_replicator", Server: "a"}, ""}, {Hold{Database: "a"}, ""},
		{Hold{Database: "_replicator"}, "database:_replicator"},
		{Hold{Database: "a/_replicator", Reason: long}, "database:a/_replicator"},
		{Hold{Database: "_replicator", Reason: long + "x"}, ""},
		{Hold{Server: "DB.example.com", Reason: long}, "server:db.example.com"},
		{Hold{Server: "a", Reason: long + "x"}, ""}, {Hold{Server: "[::1]:5984"}, "server:[::1]:5984"},
		{Hold{Server: "a:80"}, "server:a:80"}, {Hold{Server: "u@a"}, ""}, {Hold{Server: "a/b"}, ""},
		{Hold{Server: "a/"}, ""}, {Hold{Server: "a:x"}, ""}, {Hold{Server: "a:99999"}, ""}, {Hold{Server: "a:"}, ""},
		{Hold{Server: "a b"}, ""}, {Hold{Server: "http://a"}, ""},
	} {
		err := c.hold.Validate()
		if id := c.hold.ID(); (err == nil) != (c.valid != "") || err == nil && id != c.valid {
			t.Errorf("%.40v: %s, %v", c.hold, id, err)
		}
	}
}

// TestHoldsHaveShortNames: whatever a valid hold and a document are called, an accept parks the document's job: a key
// that is too long would end all accepts of all nodes.
func TestHoldsHaveShortNames(t *testing.T) {
	for _, long := range []int{240, 260, 1000, 9000} {
		b := newBench(t)
		name := strings.Repeat("n", long)
		for _, hold := range []Hold{{Server: name}, {Server: name + ":65535"}, {Database: name + "/_replicator"}} {
			err := hold.Validate()
			if valid := long == 240; (err == nil) != valid {
				t.Errorf("a name of %d bytes: %v", len(hold.ID()), err)
			}
			if err == nil {
				b.do1(func(tx kv.Tx) error { _, err := b.by(tx).MakeHold(hold); return err })
			}
		}
		b.put(strings.Repeat("\x00", 4096), `{"source":"http://`+name+`:65535/a","target":"http://h/b"}`, admin)
		if _, parked := b.tryAccept(); long == 240 && parked != 1 {
			t.Errorf("a name of %d bytes: %d jobs are parked", long, parked)
		}
	}
}

// TestStatsTellAll: what a run has counted is what the next one goes on from.
func TestStatsTellAll(t *testing.T) {
	i := replication.Info{ChangesPending: 9, SourceReadOnly: true, ListSaved: [2]int64{8, 9}}
	i.CheckpointedSeq, i.SourceSeq, i.ThroughSeq = "1", "2", "3"
	i.MissingChecked, i.MissingFound, i.DocsRead, i.DocsWritten = 1, 2, 3, 4
	i.DocWriteFailures, i.BulkGetDocs, i.BulkGetAttempts = 5, 6, 7
	s := StatsOf(i)
	if s.Counters() != i.Counters {
		t.Errorf("%+v became %+v", i.Counters, s.Counters())
	}
	if *s.ChangesPending != 9 || s.CheckpointedSourceSeq+s.SourceSeq+s.ThroughSeq != "123" || !s.SourceReadOnly ||
		s.ListSaved != i.ListSaved {
		t.Errorf("%+v", s)
	}
	told := string((&Record{Stats: s}).docStats())
	if strings.Contains(told, "list") {
		t.Errorf("a document is told %s", told)
	}
	if i.ChangesPending = 0; *StatsOf(i).ChangesPending != 0 {
		t.Error("none to come is not told")
	}
	if i.ChangesPending = -1; StatsOf(i).ChangesPending != nil {
		t.Error("an unknown number is told")
	}
}
