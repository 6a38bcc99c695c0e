package timeline

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/sim/decide"
	"couchrelay/sim/oracle"
	"couchrelay/sim/trial"
	"couchrelay/sim/world"

	"pgregory.net/rapid"
)

// play plays a short run with trouble, watched or not.
func play(watched bool) (*trial.Trial, *Recorder) {
	c := world.Default()
	c.Events = []world.Event{
		{At: time.Minute, What: world.NodeCrash, Whom: "n1", For: 20 * time.Second},
		{At: 2 * time.Minute, What: world.NodePause, Whom: "n2", For: time.Minute},
		{At: 4 * time.Minute, What: world.StoreDown, For: 30 * time.Second},
		{At: 5 * time.Minute, What: world.NodeDrain, Whom: "n2"},
		{At: 6 * time.Minute, What: world.DBRecreated, Whom: "s1/a1"},
	}
	c.Rates["fdb-conflict"], c.Rates["fdb-unknown-landed"] = 50_000, 50_000
	w := trial.New(c, decide.New(decide.Seed(1)))
	var r *Recorder
	if watched {
		r = Record(w)
	}
	w.Run()
	return w, r
}

func TestWatchingChangesNothing(t *testing.T) {
	one, _ := play(false)
	two, _ := play(true)
	if one.Hash() != two.Hash() {
		t.Error("a run that is watched is another run")
	}
}

func TestPage(t *testing.T) {
	w, r := play(true)
	v := &oracle.Violation{ID: "S1", Text: "job " + r.order[0].id + " </script> runs twice",
		At: w.Engine.Now() - 1_000_000, Step: 5}
	var out bytes.Buffer
	if err := r.Write(&out, "a <title>", v); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if external := regexp.MustCompile(`(src|href)=|url\(|@import|fetch\(`).FindString(page); external != "" {
		t.Errorf("the page asks for something outside of it: %s", external)
	}
	if !strings.Contains(page, "a &lt;title&gt;") || strings.Count(page, "</script>") != 2 {
		t.Error("texts are not escaped")
	}
	_, rest, _ := strings.Cut(page, `id="data">`)
	raw, _, _ := strings.Cut(rest, "</script>")
	var d data
	if err := json.Unmarshal([]byte(raw), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Nodes) != 2 || len(d.Jobs) < 8 || d.Violation == nil || d.Healed != 600_000 || d.Violation.At >= d.End ||
		!d.Jobs[0].Blamed && !d.Jobs[len(d.Jobs)-1].Blamed {
		t.Errorf("%d nodes, %d jobs, violation %v, healed %d", len(d.Nodes), len(d.Jobs), d.Violation, d.Healed)
	}
	var faults []string
	for i := 0; i < len(d.Faults); i += 5 {
		faults = append(faults, d.Texts[d.Faults[i+2]]+" "+d.Texts[d.Faults[i+3]])
	}
	for _, want := range []string{"node-pause n2", "fdb-down store", "db-recreated s1/a1"} {
		if !slices.Contains(faults, want) {
			t.Errorf("no %s in %v", want, faults)
		}
	}
	if n1 := d.Nodes[0].Changes; len(n1) < 12 || n1[4] != 60_000 || n1[5] != int64(nodeDown) || n1[8] != 80_000 ||
		n1[9] != int64(nodeUp) {
		t.Errorf("n1 %v", n1)
	}
	var steps [kinds]uint32
	for _, l := range d.Loads {
		for kind, counts := range l.Counts {
			for _, n := range counts {
				steps[kind] += n
			}
		}
	}
	if slices.Contains(steps[:3], 0) || steps[faulted] == 0 {
		t.Errorf("commits, conflicts, unknown results, others, faults: %v", steps)
	}
	runs := 0
	for _, j := range d.Jobs {
		runs += len(j.Runs) / 4
	}
	if runs < 8 {
		t.Errorf("%d runs", runs)
	}
}

// TestThinning: what is drawn together hides no bad state, and every longer stretch shows what holds in it.
// A small scenario may have no jobs and no faults.
func TestPageOfNothing(t *testing.T) {
	c := world.Default()
	c.Jobs, c.Duration, c.Rates = 0, time.Second, nil
	r := Record(trial.New(c, decide.New(decide.Seed(1))))
	if raw, err := json.Marshal(r.data(&oracle.Violation{})); err != nil || strings.Contains(string(raw), "null") {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestThinning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Int64Range(1, 50).Draw(t, "least")
		var list []change
		at := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			at += rapid.Int64Range(0, 60).Draw(t, "wait")
			list = append(list, change{at: at, state: uint8(rapid.IntRange(0, 5).Draw(t, "state"))})
		}
		thin := thinChanges(list, least)
		for i := 2; i < len(thin); i++ {
			if thin[i].at < thin[i-2].at+least {
				t.Fatalf("%v after %v, least %d", thin[i], thin[i-2], least)
			}
		}
		for i, c := range list {
			until := at + 1000
			if i+1 < len(list) {
				until = list[i+1].at
			}
			if shown := stateAt(thin, max(c.at, until-1)); until-c.at > 2*least && shown != c.state {
				t.Fatalf("%v until %d shows as %d in %v", c, until, shown, thin)
			}
		}
		worst := func(list []change) (w uint8) {
			for _, c := range list {
				w = max(w, c.state)
			}
			return w
		}
		if worst(thin) != worst(list) {
			t.Fatalf("the worst of %v is not in %v", list, thin)
		}
	})
}

func stateAt(list []change, at int64) (state uint8) {
	for _, c := range list {
		if c.at <= at {
			state = c.state
		}
	}
	return state
}

func TestManyChangesAreFew(t *testing.T) {
	r := &Recorder{}
	for range 200 {
		j := &job{}
		for at := int64(0); at < 6*3600_000; at += 20_000 {
			j.changes = append(j.changes, change{at: at, state: jobRunning}, change{at: at + 10_000, state: jobPending})
			j.runs = append(j.runs, span{from: at, to: at + 10_000, node: int(at / 20_000 % 3)})
		}
		r.order = append(r.order, j)
	}
	least, n := r.least(6*3600_000), 0
	for _, j := range r.order {
		n += len(thinChanges(j.changes, least)) + len(thinRuns(j.runs, least, 6*3600_000))
	}
	if n > maxChanges || n < maxChanges/10 {
		t.Errorf("%d entries, %d ms apart", n, least)
	}
}
