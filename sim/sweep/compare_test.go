package sweep

import (
	"context"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"couchrelay/sim/workload"

	"pgregory.net/rapid"
)

var nan = math.NaN()

func TestIntervals(t *testing.T) {
	for _, c := range []struct {
		values          []float64
		mean, low, high float64
		seeds           int
	}{
		{nil, nan, nan, nan, 0},
		{[]float64{nan, 3}, 3, nan, nan, 1},
		{[]float64{7, 7, nan, 7}, 7, 7, 7, 3},
		{[]float64{0, 10}, 5, 5 - 12.706205*5, 5 + 12.706205*5, 2}, // see tables of Student's t
		{[]float64{1, 2, 3, 4}, 2.5, 2.5 - 3.182446*0.645497, 2.5 + 3.182446*0.645497, 4},
	} {
		i := interval(c.values)
		for k, v := range []float64{c.mean, c.low, c.high} {
			got := float64([]Number{i.Mean, i.Low, i.High}[k])
			if !(math.Abs(got-v) < 1e-5) && !(math.IsNaN(got) && math.IsNaN(v)) {
				t.Errorf("%v: %+v", c.values, i)
			}
		}
		if i.Seeds != c.seeds {
			t.Errorf("%v: %d seeds", c.values, i.Seeds)
		}
	}
	i := Interval{Low: -1, High: 1}
	if i.Excludes(0) || !i.Excludes(2) || !i.Excludes(-2) || (Interval{Low: Number(nan),
		High: Number(nan)}).Excludes(0) {
		t.Error("excludes what it has")
	}
}

// table makes results: the values of metric m at each point, by seed, with an axis x, and y for every second point.
func table(values ...[]float64) *Results {
	r := &Results{Header: Header{Format: Format, First: 1, Last: uint64(len(values[0])), Points: len(values),
		Axes:    []string{"x", "y"},
		Metrics: []Metric{{Name: "m", Unit: "s", Better: "less"}, {Name: "n", Better: "more"}, {Name: "o"}}}}
	for i, row := range values {
		for j, v := range row {
			r.Runs = append(r.Runs, Run{Point: i + 1, Seed: uint64(j + 1), Metrics: Values{"m": Number(v),
				"n": Number(-v * v), "o": 1},
				Settings: map[string]string{"x": strconv.Itoa(i / 2 * 10), "y": []string{"off", "on"}[i%2]}})
		}
	}
	r.finish()
	return r
}

// What seeds have in common drops out of a difference: it is clear where the two means overlap.
func TestPairedDifferences(t *testing.T) {
	r := table([]float64{1, 20, 300, 4000}, []float64{1.5, 20.4, 300.6, 4000.5}, []float64{1.5, 19.5, 300.1, 3999.9})
	list := r.Compare(1, 2)
	d := list[0]
	if d.Metric.Name != "m" || !d.Distinct || math.Abs(float64(d.Minus.Mean)-0.5) > 1e-9 ||
		d.Minus.Low < 0.37 || d.Minus.High > 0.63 || d.A.High < d.B.Low {
		t.Errorf("%+v", d)
	}
	if d := r.Compare(1, 3)[0]; d.Distinct {
		t.Errorf("%+v", d)
	}
	if d := list[2]; d.Distinct || d.Minus.Mean != 0 {
		t.Errorf("%+v", d)
	}
	if d := table([]float64{1, 20}, []float64{1.5, 20.4}).Compare(1, 2)[0]; d.Distinct {
		t.Errorf("two seeds agree in half of all cases: %+v", d)
	}
	gap := table([]float64{1, nan, 3}, []float64{nan, 2, 4})
	if d := gap.Compare(1, 2)[0]; d.Minus.Seeds != 1 || d.Minus.Mean != 1 || d.Distinct {
		t.Errorf("%+v", d)
	}
}

func TestFind(t *testing.T) {
	r := table([]float64{1}, []float64{2}, []float64{3})
	r.Header.Axes = []string{"max_churn", "nodes"}
	for i := range r.Summaries {
		s := r.Summaries[i].Settings
		s["max_churn"], s["nodes"] = s["x"], s["y"]
	}
	for text, want := range map[string]int{"3": 3, "max_churn=10": 3, "max_churn=10.0": 3, "max_churn=0,nodes=on": 2,
		" nodes = off , max_churn = 0": 1} {
		if got, err := r.Find(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"max_churn=0": "max_churn=0: 2 of 3 points are so; the axes are max_churn, nodes",
		"max_churn=7": "max_churn=7: 0 of 3",
		"4":           "4: there is no such point; must be from 1 to 3, or KEY=VALUE",
		"max_churn":   "max_churn: must be KEY=VALUE", "x=3": "x: no such key",
		"nodes=1,nodes=2": "nodes=1,nodes=2: nodes is there twice",
		"seeds=3":         "seeds: all points have the same",
	} {
		if _, err := r.Find(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The front has exactly the points that no other point dominates.
func TestUndominated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.SliceOfN(rapid.Float64Range(0, 5), 2, 2), 1, 12).Draw(t, "points")
		r := table(rows...)
		for i := range r.Summaries { // n independent of m
			r.Summaries[i].Metrics["n"] = Interval{Mean: Number(rapid.IntRange(0, 4).Draw(t, "n"))}
		}
		front, _, err := r.Undominated([]string{"m", "n"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.Summaries {
			m, n, beaten := s.Metrics["m"].Mean, s.Metrics["n"].Mean, false
			for _, o := range r.Summaries {
				om, on := o.Metrics["m"].Mean, o.Metrics["n"].Mean
				beaten = beaten || om <= m && on >= n && (om < m || on > n)
			}
			if beaten == slices.ContainsFunc(front, func(f Summary) bool { return f.Point == s.Point }) {
				t.Fatalf("point %d of %+v: front %+v", s.Point, r.Summaries, front)
			}
		}
	})
	r := table([]float64{1}, []float64{nan})
	if front, left, err := r.Undominated([]string{"m"}); err != nil || len(front) != 1 || left != 1 {
		t.Error(front, left, err)
	}
	for name, want := range map[string]string{"q": "q: no such metric; known are m, n, o",
		"o": "o: neither more nor less of it is better"} {
		if _, _, err := r.Undominated([]string{name}); err == nil || err.Error() != want {
			t.Error(err)
		}
	}
}

func TestSensitivity(t *testing.T) {
	r := table([]float64{1, 3}, []float64{4, 6}, []float64{10, 12}, []float64{14, 16}, []float64{20, 22},
		[]float64{24, 26})
	list, err := r.Sensitivity("m")
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	if e := list[0]; e.Axis != "x" || e.From != "0" || e.To != "20" || e.Change != 19.5 || e.Pairs != 2 ||
		math.Abs(float64(e.Rank)-0.956) > 0.001 {
		t.Errorf("%+v", e)
	}
	if e := list[1]; e.Axis != "y" || e.From != "off" || e.To != "on" ||
		math.Abs(float64(e.Change)-11.0/3) > 1e-9 || e.Pairs != 3 || !math.IsNaN(float64(e.Rank)) {
		t.Errorf("%+v", e)
	}
	if got := ranks([]float64{3, 1, 3, 2}); !slices.Equal(got, []float64{2.5, 0, 2.5, 1}) {
		t.Error(got)
	}
	if _, err := r.Sensitivity("q"); err == nil {
		t.Error("no error")
	}
}

// TestInert: y makes no difference, x does; without two points that differ in it alone nothing is known of an axis.
func TestInert(t *testing.T) {
	r := table([]float64{1, nan}, []float64{1, nan}, []float64{2, 3}, []float64{2, 3})
	if got := r.Inert(); !slices.Equal(got, []string{"y"}) {
		t.Error(got)
	}
	r.Runs[3].Metrics["m"] = 7
	if got := r.Inert(); len(got) > 0 {
		t.Error(got)
	}
	if got := table([]float64{1, 2}).Inert(); len(got) > 0 {
		t.Error(got)
	}
}

// A comparison plays the file as it is, and with each side's settings.
func TestVariants(t *testing.T) {
	e, err := Parse("x.ini",
		"seeds = 1..2\n[replicator]\nmax_churn = 4\n[workload]\njobs = 5\n[sweep]\nnodes = 1, 2\n")
	if err != nil {
		t.Fatal(err)
	}
	side, err := ParsePoint("max_churn=9, workload/jobs=7")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParsePoint("http_connections=5"); err == nil || !strings.Contains(err.Error(), "no effect") {
		t.Error(err)
	}
	stranger, err := ParsePoint("replicator.shares/x/_replicator=9")
	if err != nil || e.Vary([]Point{{}, stranger}) != nil {
		t.Fatal(err)
	}
	if _, err := e.Plan("", 10); err == nil || !strings.Contains(err.Error(), "the workload has no such account") {
		t.Error(err)
	}
	if e.Vary([]Point{side, side}) == nil {
		t.Error("the same twice")
	}
	if err := e.Vary([]Point{{}, side}); err != nil {
		t.Fatal(err)
	}
	p, err := e.Plan("couchsim compare", 10)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Try(t.Context(), Options{Play: sums})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := r.Summaries[0].Metrics["b"].Mean, r.Summaries[1].Metrics["b"].Mean; a != 5 || b != 7 ||
		!slices.Equal(r.Header.Axes, []string{"max_churn", "workload/jobs"}) {
		t.Errorf("%v, %v, %+v", a, b, r.Header)
	}
	again, err := r.Again()
	if err != nil || len(again.Header.Changes(&r.Header)) > 0 {
		t.Error(again, err)
	}
}

// CSV files are read by plain readers, and say of each column what it is.
func TestCSV(t *testing.T) {
	p, out := begin(t, small)
	r, err := p.Run(t.Context(), out, Options{Play: sums})
	if err != nil {
		t.Fatal(err)
	}
	_, runs, summaries := Files(out)
	for path, want := range map[string][]string{
		runs: {"point", "seed", "max_churn", "workload/accounts", "a", "b", "nothing",
			"share/tenant1/_replicator", "share/tenant2/_replicator"},
		summaries: {"point", "max_churn", "workload/accounts", "metric", "unit", "mean", "low", "high", "seeds"},
	} {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		reader := csv.NewReader(file)
		reader.Comment = '#'
		rows, err := reader.ReadAll()
		if err != nil || !slices.Equal(rows[0], want) {
			t.Fatal(rows[0], err)
		}
		file.Close()
		text, _ := os.ReadFile(path)
		for _, part := range []string{"# couchsim sweep x.ini\n", r.Header.Hash,
			"#   # A small one.\n#   seeds = 1..3\n"} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %q", path, part)
			}
		}
		if path == runs {
			if len(rows) != 19 || rows[1][8] != "" || rows[1][6] != "" || rows[18][5] != "8" ||
				rows[18][0] != "6" || rows[18][2] != "3" {
				t.Error(rows)
			}
		} else if len(rows) != 1+6*5 {
			t.Error(len(rows))
		}
	}
}

// What another program computes otherwise is found, and a trace that was changed meanwhile is refused.
func TestReproduce(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "t.jsonl")
	w, err := (&workload.Recipe{}).Build(1)
	if err != nil {
		t.Fatal(err)
	}
	write := func() {
		file, err := os.Create(trace)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteTrace(file); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	write()
	e, err := Parse(filepath.Join(dir, "x.ini"),
		"seeds = 1..2\n[workload]\nfile = t.jsonl\n[sweep]\nmax_churn = 1, 2\n")
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.Plan("couchsim sweep", 10)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "t.results.jsonl")
	if _, err := p.Run(t.Context(), out, Options{Play: sums}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), trace, Options{Play: sums, Restart: true}); err == nil ||
		!strings.Contains(err.Error(), "is a trace that the experiment reads") {
		t.Error(err)
	}
	was, err := Open(out)
	if err != nil || len(was.Header.Inputs) != 1 {
		t.Fatal(was, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "t.csv"), []byte("somebody's\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := was.Again()
	if err != nil || again.Header.Hash != p.Header.Hash {
		t.Fatal(err)
	}
	same, err := again.Try(t.Context(), Options{Play: sums})
	if err != nil || len(same.Differences(was)) > 0 {
		t.Error(same.Differences(was), err)
	}
	other, err := again.Try(t.Context(), Options{Play: func(ctx context.Context, s *Setup, w *workload.Workload,
		seed uint64) (Values, error) {
		v, err := sums(ctx, s, w, seed)
		if delete(v, "b"); seed == 2 {
			v["a"]++
		}
		return v, err
	}})
	list := other.Differences(was)
	if err != nil || len(list) != 6 || !strings.HasPrefix(list[0],
		"point 1, seed 1: b is missing, and was 100") || !strings.HasPrefix(list[1], "point 1, seed 2: a is 3.4") {
		t.Error(list, err)
	}
	w.Jobs[0].Speed *= 2
	write()
	if _, err := was.Again(); err == nil || !strings.HasPrefix(err.Error(), "other traces were played: ") {
		t.Error(err)
	}
}
