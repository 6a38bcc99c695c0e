package checkpoint

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"

	"pgregory.net/rapid"
)

func entry(session string, seq string) Entry {
	return Entry{SessionID: session, RecordedSeq: peer.Seq(seq), EndSeq: peer.Seq(seq), StartSeq: "0"}
}

// logOf is a log whose head is the newest of entries, written as "session@seq".
func logOf(entries ...string) Log {
	var l Log
	for _, e := range entries {
		session, seq, _ := strings.Cut(e, "@")
		l.History = append(l.History, entry(session, seq))
	}
	if len(l.History) > 0 {
		l.SessionID, l.SourceLastSeq = l.History[0].SessionID, l.History[0].RecordedSeq
	}
	return l
}

// all has all checkpoints count, whatever they rely on.
func all(List) bool { return true }

func TestCompare(t *testing.T) {
	headOnly := Log{SessionID: "a", SourceLastSeq: "7"}
	ahead, foreign := logOf("a@5"), logOf("a@5")
	ahead.SourceLastSeq, foreign.SessionID = "9", "b"
	for _, c := range []struct {
		name           string
		source, target Log
		start          peer.Seq
		history        int
	}{
		{"both absent", Log{}, Log{}, "0", 0},
		{"target absent", logOf("a@5"), Log{}, "0", 0},
		{"equal heads", logOf("b@9", "a@5"), logOf("b@9", "a@5"), "9", 2},
		{"equal heads without history", headOnly, headOnly, "7", 0},
		{"target one behind", logOf("b@9", "a@5"), logOf("a@5"), "5", 1},
		{"source one behind", logOf("a@5"), logOf("b@9", "a@5"), "5", 1},
		{"forked after a", logOf("c@9", "a@5"), logOf("b@8", "a@5"), "5", 1},
		{"nothing in common", logOf("c@9", "d@5"), logOf("b@8", "a@5"), "0", 0},
		{"one session at two sequences", logOf("b@9", "a@5"), logOf("b@7", "a@5"), "5", 1},
		{"one session at two sequences, no more", logOf("b@9"), logOf("b@7"), "0", 0},
		{"older entries of one session differ", logOf("c@9", "b@4"), logOf("d@8", "b@6"), "0", 0},
		{"heads ahead of their histories", ahead, ahead, "9", 1},
		{"heads of another session than their histories", foreign, foreign, "5", 1},
		{"a head of another session than its history", foreign, logOf("b@5"), "5", 1},
		{"string sequences", logOf(`b@"9-x"`), logOf(`b@"9-x"`), `"9-x"`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			start, history := Compare(c.source, c.target, all)
			if start.RecordedSeq != c.start || len(history) != c.history {
				t.Errorf("start %v with %d entries, want %s with %d", start, len(history), c.start, c.history)
			}
		})
	}
}

// TestCompareIsCommon: whatever the logs, the start is the beginning or a checkpoint that both hold.
func TestCompareIsCommon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("%c@%d", rapid.IntRange('a', 'd').Draw(t, "session"),
				rapid.IntRange(1, 4).Draw(t, "seq"))
		}), 0, 6)
		source, target := logOf(gen.Draw(t, "source")...), logOf(gen.Draw(t, "target")...)
		start, history := Compare(source, target, all)
		if start.RecordedSeq == peer.Zero {
			return
		}
		if len(history) == 0 || history[0] != start {
			t.Fatalf("history %v does not begin at %v", history, start)
		}
		if !contains(source.History, history[0]) || !contains(target.History, history[0]) {
			t.Fatalf("%v is not in both logs", history[0])
		}
	})
}

func TestEncodeParse(t *testing.T) {
	log := Log{SessionID: "s", SourceLastSeq: `"12-abc"`, History: []Entry{{
		SessionID: "s", StartTime: "Thu, 07 Nov 2013 09:42:17 GMT", EndTime: "Thu, 07 Nov 2013 09:42:18 GMT",
		StartSeq: "0", EndSeq: `"12-abc"`, RecordedSeq: `"12-abc"`,
		Counters: Counters{1, 2, 3, 4, 5, 6, 7},
	}}}
	body := log.Encode(false)
	want := `{"session_id":"s","source_last_seq":"12-abc","replication_id_version":4,"history":[{"session_id":"s",` +
		`"start_time":"Thu, 07 Nov 2013 09:42:17 GMT","end_time":"Thu, 07 Nov 2013 09:42:18 GMT","start_last_seq":0,` +
		`"end_last_seq":"12-abc","recorded_seq":"12-abc","missing_checked":1,"missing_found":2,"docs_read":3,` +
		`"docs_written":4,"doc_write_failures":5,"bulk_get_docs":6,"bulk_get_attempts":7}]}`
	if string(body) != want {
		t.Errorf("encoded\n%s\nwant\n%s", body, want)
	}
	back, err := Parse(body)
	if err != nil || !reflect.DeepEqual(back, log) {
		t.Errorf("parsed %+v, %v", back, err)
	}
	head := `"start_time":"Thu, 07 Nov 2013 09:42:17 GMT","end_time":"Thu, 07 Nov 2013 09:42:18 GMT",` +
		`"docs_read":3,"docs_written":4,"doc_write_failures":5,"history"`
	if flat := string(log.Encode(true)); !strings.Contains(flat, head) {
		t.Errorf("flat form is %s", flat)
	}
}

// TestWholeLog: a log is read again as it was written, with all that other programs do not know.
func TestWholeLog(t *testing.T) {
	last := Change{peer.MarkOf("d", "1-a", nil), "9"}
	log := Log{
		SessionID: "s", SourceLastSeq: "3", InstanceStart: "5", Mark: "m",
		History: []Entry{
			{SessionID: "s", StartSeq: "1", EndSeq: "2", RecordedSeq: "3", List: List{"j", 7}, State: List{"j", 7}},
			{SessionID: "r", StartSeq: "1", EndSeq: "1", RecordedSeq: "1", State: List{"k", 8}},
		},
		ReadOnly: &ReadOnly{SessionID: "r", InstanceStart: "6", Last: last},
	}
	body := log.Encode(true)
	if back, err := Parse(body); err != nil || !reflect.DeepEqual(back, log) {
		t.Errorf("%s is read as %+v, %v", body, back, err)
	}
	for _, member := range []string{`"instance_start_time":"5"`, `"mark":"m"`, `"unfinished":true`} {
		if !strings.Contains(string(body), member) {
			t.Errorf("no %s in %s", member, body)
		}
	}
}

// TestEmpty: a log with anything that a run may begin from is not empty.
func TestEmpty(t *testing.T) {
	for _, c := range []struct {
		log   Log
		empty bool
	}{
		{Log{}, true}, {Log{Mark: "m", InstanceStart: "5"}, true}, {Log{SessionID: "s"}, false},
		{Log{History: []Entry{{}}}, false}, {Log{ReadOnly: &ReadOnly{}}, false}, {logOf("a@5"), false},
	} {
		if c.log.Empty() != c.empty {
			t.Errorf("%+v is empty: %t", c.log, !c.empty)
		}
	}
}

// TestList: a log tells of each checkpoint which list it relies on, and with what state of its writer's list it was
// written. Of one of an earlier release all rely on its list, which the very first did not name.
func TestList(t *testing.T) {
	log := logOf("c@9", "b@7", "a@5")
	log.History[0].List, log.History[1].List = List{"j", 7}, List{"k", 3}
	body := string(log.Encode(false))
	log.History[0].State, log.History[1].State = List{"j", 7}, List{"k", 3}
	if got := string(log.Encode(false)); got != body {
		t.Errorf("a list is told twice: %s", got)
	}
	if !strings.Contains(body, `"unfinished":true,"list":{"job":"j","changes":7},"history"`) {
		t.Errorf("encoded %s", body)
	}
	if back, err := Parse([]byte(body)); err != nil || !reflect.DeepEqual(back, log) {
		t.Errorf("%s is read as %+v, %v", body, back, err)
	}
	of := logOf("c@9", "a@5").Encode(false)
	for list, want := range map[string]List{
		`"list":{"job":"j","changes":7},`: {"j", 7}, ``: unnamed,
		`"list":true,`: unnamed, `"list":{"changes":7,"job":5},`: unnamed,
	} {
		old := strings.Replace(string(of), `"history"`, `"unfinished":true,`+list+`"history"`, 1)
		back, err := Parse([]byte(old))
		if err != nil || want == (List{}) || back.Newest().List != want || back.History[1].List != want ||
			back.History[1].State != want {
			t.Errorf("%s is read as %+v, %v", old, back, err)
		}
	}
	for list, before := range map[List]bool{{"j", 6}: true, {"j", 7}: false, {"k", 6}: false, {}: false} {
		if list.Before(log.Newest().List) != before {
			t.Errorf("%+v is before %+v: %v", list, log.Newest().List, !before)
		}
	}
	if strings.Contains(string(of), `"list"`) {
		t.Errorf("a log that relies on no list names one: %s", of)
	}
}

func TestParseRefusesWhatIsNoLog(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `{"session_id":5}`, `{"history":{}}`, `{"history":[5]}`, `{"history":[{"session_id":[]}]}`,
	} {
		if _, err := Parse([]byte(body)); err == nil {
			t.Errorf("%q was taken for a log", body)
		}
	}
	log, err := Parse([]byte(`{"_id":"_local/x","other":1}`))
	if err != nil || log.SourceLastSeq != peer.Zero || log.SessionID != "" {
		t.Errorf("an empty log reads as %+v, %v", log, err)
	}
}

// TestSeqsAreText: a server that stores JSON its own way still has the checkpoint that the other one has.
func TestSeqsAreText(t *testing.T) {
	written := logOf(`s@"12-<&>/é"`).Encode(false)
	if !strings.Contains(string(written), `"source_last_seq":"12-<&>/é"`) {
		t.Errorf("written as %s", written)
	}
	rewritten := strings.NewReplacer("<", `\u003C`, "&", `\u0026`, "/", `\/`, "é", `\u00e9`, ":",
		" : ").Replace(string(written))
	source, err := Parse(written)
	target, errRewritten := Parse([]byte(rewritten))
	start, _ := Compare(source, target, all)
	if err != nil || errRewritten != nil || start.RecordedSeq != `"12-<&>/é"` {
		t.Errorf("%s and %s have %v in common; %v %v", written, rewritten, start, err, errRewritten)
	}
}

func TestEncodeEmpty(t *testing.T) {
	want := `{"session_id":"","source_last_seq":0,"replication_id_version":4,"history":[]}`
	for _, flat := range []bool{false, true} {
		if got := string(Log{}.Encode(flat)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestMark: an empty log keeps its mark. A member of that name that another program wrote is none.
func TestMark(t *testing.T) {
	body := string(Log{Mark: "m"}.Encode(false))
	for member, want := range map[string]string{`"m"`: "m", `5`: "", `null`: ""} {
		back, err := Parse([]byte(strings.Replace(body, `"mark":"m"`, `"mark":`+member, 1)))
		if err != nil || back.Mark != want || !back.Empty() {
			t.Errorf("of %s the mark %s is read as %+v, %v", body, member, back, err)
		}
	}
}

func TestCountersMax(t *testing.T) {
	a, b := Counters{1, 20, 3, 40, 5, 60, 7}, Counters{10, 2, 30, 4, 50, 6, 70}
	want := Counters{10, 20, 30, 40, 50, 60, 70}
	for _, got := range []Counters{a.Max(b), b.Max(a), want.Max(Counters{}), (Counters{}).Max(want)} {
		if got != want {
			t.Errorf("%+v", got)
		}
	}
}

// TestReadOnlyMark: the mark of a run without logs on the source is read again as it was written, however short its
// sequence is. Of one that is not whole nothing is taken.
func TestReadOnlyMark(t *testing.T) {
	for _, seq := range []string{"5", "12", `"5-a"`, `[1,"x"]`} {
		mark := `{"session_id":"s","instance_start_time":"1","last_id":"d","last_rev":"1-a","last_seq":` + seq + `}`
		got := readOnly([]byte(mark))
		if got == nil || got.SessionID != "s" || got.InstanceStart != "1" || got.Last.ID != "d" ||
			got.Last.Rev != "1-a" || string(got.wire().LastSeq) != seq {
			t.Errorf("%s: %+v", seq, got)
		}
		if wire := got.wire(); wire.LastRev != "1-a" || len(wire.LastOthers) > 0 {
			t.Errorf("%s: written as %+v", seq, wire)
		}
		for _, lacks := range []string{"last_id", "last_rev", "last_seq"} {
			if got := readOnly([]byte(strings.Replace(mark, lacks, "x", 1))); got != nil {
				t.Errorf("without %s: %+v", lacks, got)
			}
		}
	}
}

// TestReadOnlyMarkOfLeaves: the mark keeps the leaves of its document, the winning one where earlier releases have it.
// Of more leaves than one request may ask for it keeps the first.
func TestReadOnlyMarkOfLeaves(t *testing.T) {
	leaves := make([]string, 80)
	for i := range leaves {
		leaves[i] = fmt.Sprintf("1-%d", i)
	}
	for _, n := range []int{1, 2, 51, 80} {
		mark := peer.MarkOf("d", leaves[0], leaves[1:n])
		of := &ReadOnly{Last: Change{mark, `"5-a"`}, Newest: mark}
		body := Log{SessionID: "s", ReadOnly: of}.Encode(false)
		log, err := Parse(body)
		if err != nil || *log.ReadOnly != *of {
			t.Fatalf("%d leaves are written as %s, and read as %+v, %v", n, body, log.ReadOnly, err)
		}
		if asks := log.ReadOnly.Last.Find(); asks.ID != "d" || !slices.Equal(asks.Revs, leaves[:min(n, 51)]) {
			t.Errorf("%d leaves are asked for by %v", n, asks)
		}
		if has := strings.Contains(string(body), `"last_rev":"1-0"`); !has {
			t.Errorf("earlier releases do not read %s", body)
		}
	}
	for seq, at := range map[peer.Seq]peer.Seq{"5": "5", `"5-a"`: "", `"5"`: "", "[5]": ""} {
		if asks := (Change{peer.MarkOf("d", "1-0", nil), seq}).Find(); asks.At != at {
			t.Errorf("the change at %s is looked for at %q", seq, asks.At)
		}
	}
	long := `{"last_id":"d","last_rev":"1-0","last_others":["` + strings.Join(leaves[1:], `","`) + `"],"last_seq":5}`
	if asks := readOnly([]byte(long)).Last.Find(); len(asks.Revs) != 51 {
		t.Errorf("a log of another program has the run ask for %d revisions", len(asks.Revs))
	}
	for _, none := range []string{``, `,"newest_id":"n"`, `,"newest_rev":"1-0"`} {
		got := readOnly([]byte(`{"last_id":"d","last_rev":"1-0","last_seq":5` + none + `}`))
		if got == nil || got.Newest != (peer.Mark{}) {
			t.Errorf("a mark with%s is read as %+v", none, got)
		}
	}
	if got := readOnly([]byte(`{"last_id":"d","last_rev":"1-0","last_others":7,"last_seq":5}`)); got != nil {
		t.Errorf("a mark that is not whole is read as %+v", got)
	}
}

// TestLongHistories: of logs with 200,000 entries only the newest are read and compared: comparing each entry of
// one log with each of the other would take an hour.
func TestLongHistories(t *testing.T) {
	const many = 200_000
	logs := [2]Log{}
	for i, session := range []string{"a", "b"} {
		entry := `{"session_id":"` + session + `","recorded_seq":1},`
		body := `{"session_id":"top","source_last_seq":9,"history":[` + strings.Repeat(entry, many) + `{}]}`
		log, err := Parse([]byte(body))
		if err != nil || len(log.History) != MaxHistory || log.History[MaxHistory-1].SessionID != session {
			t.Fatalf("%v, %d entries", err, len(log.History))
		}
		logs[i] = log
	}
	if start, history := Compare(logs[0], logs[1], all); start.RecordedSeq != "9" || len(history) != MaxHistory {
		t.Errorf("begins at %v with %d entries", start, len(history))
	}
	logs[1].SessionID = "other"
	if start, _ := Compare(logs[0], logs[1], all); start.RecordedSeq != peer.Zero {
		t.Errorf("begins at %v", start)
	}
}

// TestHas: a checkpoint is in a log whether the log has a history or, as of some programs, its newest one alone.
func TestHas(t *testing.T) {
	for _, log := range []Log{logOf("b@9", "a@5"), {SessionID: "a", SourceLastSeq: "5"}} {
		if !log.Has("a") || log.Has("c") || log.Has("") {
			t.Errorf("%+v has a: %v, c: %v", log, log.Has("a"), log.Has("c"))
		}
	}
}
