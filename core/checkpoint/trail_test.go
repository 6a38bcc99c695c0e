package checkpoint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTrailKeeps pins which of a run's own checkpoints stay.
func TestTrailKeeps(t *testing.T) {
	for count, want := range map[int64]string{
		1: "[1]", 2: "[2 1]", 3: "[3 2 1]", 4: "[4 3 2]", 5: "[5 4 3 2]", 8: "[8 7 6 4]", 9: "[9 8 7 6 4]",
		12: "[12 11 10 8 4]", 13: "[13 12 11 10 8]",
	} {
		trail := NewTrail(nil)
		for n := int64(1); n <= count; n++ {
			trail.Add(Entry{}, "none")
		}
		if got := fmt.Sprint(trail.numbers); got != want {
			t.Errorf("after %d: %s, want %s", count, got, want)
		}
	}
}

// TestTrailLeavesRoom: a run of any length leaves half of the log to the runs before.
func TestTrailLeavesRoom(t *testing.T) {
	trail := &Trail{count: 1 << 40, base: make([]Entry, MaxHistory)}
	for k, step := trail.count, int64(1); k > 0; k -= step { // all that were ever worth keeping
		if trail.stays(k) {
			trail.own, trail.numbers = append(trail.own, Entry{SessionID: fmt.Sprint(k)}), append(trail.numbers, k)
		}
		for age := trail.count - k; step*4 < age; {
			step *= 2
			k &^= step - 1
		}
	}
	if len(trail.own) <= maxOwn {
		t.Fatalf("only %d", len(trail.own))
	}
	all := trail.Add(Entry{SessionID: "new"}, fmt.Sprint(trail.numbers[len(trail.numbers)-1]))
	if oldest := trail.numbers[len(trail.numbers)-1]; oldest > 1<<39 {
		t.Errorf("the one that both logs have is not there; the oldest is %d", oldest)
	}
	if len(trail.own) != maxOwn || len(all) != MaxHistory || all[0].SessionID != "new" ||
		all[maxOwn-1].SessionID == "" || all[maxOwn].SessionID != "" {
		t.Errorf("%d own ones of %d: %v", len(trail.own), len(all), trail.numbers)
	}
}

func TestTrail(t *testing.T) {
	base := []Entry{entry("old2", "2"), entry("old1", "1")}
	trail := NewTrail(base)
	var written [][]Entry
	for n := 1; n <= 1000; n++ {
		written = append(written, trail.Add(entry(fmt.Sprint("s", n), fmt.Sprint(100+n)), ""))
		all := written[n-1]
		if len(all) > MaxHistory || all[0].SessionID != fmt.Sprint("s", n) || n > 1 &&
			all[1].SessionID != fmt.Sprint("s", n-1) {
			t.Fatalf("checkpoint %d writes %v", n, all)
		}
		if tail := all[len(all)-2:]; !slices.Equal(tail, base) {
			t.Fatalf("checkpoint %d forgot the runs before: %v", n, tail)
		}
	}
	// A target that is restored to any earlier checkpoint finds a common one at most about as far back
	// again as the restore went.
	last := written[999]
	source := Log{SessionID: last[0].SessionID, SourceLastSeq: last[0].RecordedSeq, History: last}
	for n := 1; n < 1000; n++ {
		then := written[n-1]
		target := Log{SessionID: then[0].SessionID, SourceLastSeq: then[0].RecordedSeq, History: then}
		start, _ := Compare(source, target, all)
		var common int
		fmt.Sscan(string(start.RecordedSeq), &common)
		common -= 100
		if back, again := 1000-n, n-common; common > n || again > 2*back+2 {
			t.Errorf("restored %d checkpoints back, the next common one is %d before that", back, again)
		}
	}
}

// TestTrailOfShortLogs: where a server takes no more than 16 checkpoints, the log of a run that writes many still
// reaches as far back as the first one did, and is seldom too long.
func TestTrailOfShortLogs(t *testing.T) {
	var base []Entry
	for n := range MaxHistory {
		base = append(base, entry(fmt.Sprint("old", n), fmt.Sprint(MaxHistory-n)))
	}
	trail, refused := NewTrail(base), 0
	for n := 1; n <= 1000; n++ {
		all := trail.Add(entry(fmt.Sprint("s", n), fmt.Sprint(100+n)), fmt.Sprint("s", n-1))
		for ; len(all) > 16; refused++ {
			all = trail.Thin(all)
		}
		for age := 1; 4*age < n; age *= 2 {
			within := func(e Entry) bool {
				k, err := strconv.Atoi(strings.TrimPrefix(e.SessionID, "s"))
				return err == nil && n-4*age <= k && k <= n-age
			}
			if !slices.ContainsFunc(all, within) {
				t.Fatalf("after %d it has none that is %d to %d back: %v", n, age, 4*age, all)
			}
		}
		if oldest := all[len(all)-1].SessionID; oldest != "old49" && oldest != "old48" {
			t.Fatalf("after %d the oldest is %s", n, oldest)
		}
	}
	if refused > 10 {
		t.Errorf("the log was too long %d times", refused)
	}
}

// TestThin: each time that a history is thinned it keeps its newest checkpoint in front, the one behind it, the agreed
// one, one of the two oldest and of any three in a row, and two at least; later histories go on from that.
func TestThin(t *testing.T) {
	for n := 3; n <= MaxHistory; n++ {
		var base []Entry
		for i := range n - 1 {
			base = append(base, Entry{SessionID: fmt.Sprint(i + 1)})
		}
		for agreed := 1; agreed < n; agreed++ {
			trail, common := NewTrail(base), base[agreed-1]
			before := trail.Add(Entry{SessionID: "0"}, common.SessionID)
			for len(before) > 2 {
				h := trail.Thin(before)
				stays := func(e Entry) bool { return slices.Contains(h, e) }
				spread := len(h) < len(before) && h[0] == before[0] && stays(common)
				for i := 2; i < len(before); i++ {
					spread = spread && slices.ContainsFunc(before[i-2:i+1], stays)
				}
				spread = spread && (stays(before[1]) || before[len(before)-1] == common)
				if !spread || len(h) < 2 || len(h) > 2 && !slices.ContainsFunc(before[len(before)-2:], stays) {
					t.Fatalf("of %v, with %d agreed, it keeps %v", before, agreed, h)
				}
				before = h
			}
			if next := trail.Add(Entry{SessionID: "new"}, ""); len(next) != 3 {
				t.Fatalf("the next log has %d checkpoints", len(next))
			}
		}
	}
}

// TestAgreed: what both logs have and the trail does is the checkpoint to go on from, whatever another run has written.
func TestAgreed(t *testing.T) {
	log := func(sessions string) (l Log) {
		for _, s := range sessions {
			l.History = append(l.History, Entry{SessionID: string(s)})
		}
		l.SessionID = l.Newest().SessionID
		return l
	}
	trail := NewTrail(log("dba").History)
	trail.Add(Entry{SessionID: "e"}, "")
	for logs, want := range map[[2]string]string{
		{"dba", "dba"}: "d", {"dba", "edba"}: "d", {"dba", "xba"}: "b", {"xdba", "xdba"}: "d", {"ea", "eda"}: "e",
		{"x", "dba"}: "", {"", "dba"}: "", {"dba", ""}: "",
	} {
		if got := trail.Agreed(log(logs[0]), log(logs[1])); got != want {
			t.Errorf("%q: %q, want %q", logs, got, want)
		}
	}
}

// TestAgreedBehindFullHistory: the checkpoint that both logs have stays also where others have written as many behind
// it as a history takes: it may be the last of the history that the run begins with.
func TestAgreedBehindFullHistory(t *testing.T) {
	base := make([]Entry, MaxHistory)
	for i := range base {
		base[i].SessionID = fmt.Sprint("base", i)
	}
	last := base[MaxHistory-1].SessionID
	trail := NewTrail(base)
	for i := range 3 {
		newest := Entry{SessionID: fmt.Sprint("own", i)}
		got := trail.Add(newest, last)
		if len(got) != MaxHistory || got[0] != newest || got[MaxHistory-1].SessionID != last {
			t.Errorf("checkpoint %d: %d entries, from %v to %v", i, len(got), got[0], got[MaxHistory-1])
		}
		if got := trail.Add(newest, ""); got[MaxHistory-1].SessionID == last {
			t.Errorf("checkpoint %d keeps the oldest one without need", i)
		}
	}
}
