package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"couchrelay/sim/workload"
)

const small = `# A small one.
seeds = 1..3
[workload]
jobs = 4
[sweep]
max_churn = 1, 2, 3
workload/accounts = 1, 2
`

// begin plans an experiment whose file has a text.
func begin(t *testing.T, text string) (p *Plan, out string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.ini")
	e, err := Parse(path, text)
	if err != nil {
		t.Fatal(err)
	}
	p, err = e.Plan("couchsim sweep x.ini", DefaultLimit)
	if err != nil {
		t.Fatal(err)
	}
	return p, filepath.Join(dir, "x.results.jsonl")
}

// sums is a run that only computes with what it was given.
func sums(_ context.Context, s *Setup, w *workload.Workload, seed uint64) (Values, error) {
	v := Values{
		"a": Number(math.Sqrt(float64(seed)) + float64(s.Settings.Node.MaxChurn)), "b": Number(len(w.Jobs)),
		"nothing": Number(math.NaN()),
	}
	for i, a := range w.Accounts {
		v["share/"+a.Name] = Number(1 / float64(i+3))
	}
	return v, nil
}

// files are what the files of a sweep have.
func files(t *testing.T, out string) string {
	t.Helper()
	var all strings.Builder
	results, runs, summaries := Files(out)
	for _, path := range []string{results, runs, summaries} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// Results do not depend on the number of cores or on the order in which runs end, and are read as they were written.
func TestSameBytes(t *testing.T) {
	p, out := begin(t, small)
	if _, err := p.Run(t.Context(), out, Options{Workers: 1, Play: sums}); err != nil {
		t.Fatal(err)
	}
	want := files(t, out)
	for _, workers := range []int{2, 5, 0} {
		if _, err := p.Run(t.Context(), out, Options{Workers: workers, Play: sums, Restart: true}); err != nil {
			t.Fatal(err)
		}
		if files(t, out) != want {
			t.Errorf("%d workers write otherwise", workers)
		}
	}
	r, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := r.Write(&again); err != nil || !strings.HasPrefix(want, again.String()) {
		t.Errorf("%v: is read as\n%s", err, &again)
	}
	if len(r.Runs) != 18 || len(r.Summaries) != 6 || r.Runs[17].Point != 6 || r.Runs[17].Seed != 3 ||
		r.Runs[17].Metrics["b"] != 8 || r.Runs[17].Settings["max_churn"] != "3" {
		t.Errorf("%+v", r.Runs)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); len(left) != 3 {
		t.Errorf("left are %v", left)
	}
}

// A process that is killed at any byte of what it has written leaves what the next one goes on with, to the same
// results, and no run is played again whose line is complete.
func TestKilledAnywhere(t *testing.T) {
	p, out := begin(t, small)
	const stopAt = 7
	for ended := range stopAt + 1 {
		ctx, stop := context.WithCancel(t.Context())
		n := 0
		_, err := p.resume(ctx, out, "x", Options{Workers: 1, Restart: true, Play: func(ctx context.Context, s *Setup,
			w *workload.Workload, seed uint64) (Values, error) {
			if n == ended {
				stop()
				return nil, ctx.Err()
			}
			n++
			return sums(ctx, s, w, seed)
		}})
		stopped, is := errors.AsType[*Stopped](err)
		if !is || stopped.Done != ended || stopped.Total != 18 || !errors.Is(err, context.Canceled) ||
			!strings.HasSuffix(err.Error(), "; the same command without --restart goes on from there") {
			t.Fatalf("stopped after %d: %v", ended, err)
		}
		stop()
	}
	left, err := os.ReadFile(partial(out))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.resume(t.Context(), out, "x", Options{Workers: 1, Restart: true, Play: sums}); err != nil {
		t.Fatal(err)
	}
	want := files(t, out)
	for at := 0; at <= len(left); at++ {
		near := bytes.IndexByte(left[max(at-2, 0):min(at+2, len(left))], '\n') >= 0
		if !near && at%997 != 0 {
			continue // a place within a line is like any other
		}
		results, runs, summaries := Files(out)
		if err := errors.Join(remove(results, runs, summaries), os.WriteFile(partial(out), left[:at],
			0o644)); err != nil {
			t.Fatal(err)
		}
		var played atomic.Int32
		if _, err := p.resume(t.Context(), out, "x", Options{Workers: 2, Play: func(ctx context.Context, s *Setup,
			w *workload.Workload, seed uint64) (Values, error) {
			played.Add(1)
			return sums(ctx, s, w, seed)
		}}); err != nil {
			t.Fatalf("killed after %d bytes: %v", at, err)
		}
		complete := max(bytes.Count(left[:at], []byte("\n"))-1, 0)
		if int(played.Load()) != 18-complete || files(t, out) != want {
			t.Fatalf("killed after %d bytes: %d runs were played again, and %d were complete", at,
				played.Load(), complete)
		}
	}
	// A kill after the results were written, and before the rest was removed.
	if err := os.WriteFile(partial(out), left, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.resume(t.Context(), out, "x", Options{Play: sums}); err != nil || files(t, out) != want {
		t.Error(err)
	}
}

// What another program, experiment or process has left is not gone on with.
func TestNotResumed(t *testing.T) {
	p, out := begin(t, small)
	fail := errors.New("broken")
	broken := Options{Workers: 1, Play: func(context.Context, *Setup, *workload.Workload, uint64) (Values,
		error) {
		return nil, fail
	}}
	if _, err := p.Run(t.Context(), out, broken); !errors.Is(err, fail) || !strings.HasPrefix(err.Error(),
		"point 1 (max_churn=1, workload/accounts=1), seed 1: ") {
		t.Fatal(err)
	}
	check := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	_, err := p.resume(t.Context(), out, "another", Options{Play: sums})
	check(err, "was begun by another build of couchsim")

	for text, want := range map[string]string{
		strings.Replace(small, "small", "large", 1):         "the text of the experiment is another one",
		strings.Replace(small, "seeds = 1", "seeds = 2", 1): "the seeds is 2..3, and was 1..3",
	} {
		e, err := Parse(p.Header.File, text)
		if err != nil {
			t.Fatal(err)
		}
		other, err := e.Plan("couchsim sweep x.ini", DefaultLimit)
		if err != nil {
			t.Fatal(err)
		}
		_, err = other.Run(t.Context(), out, Options{Play: sums})
		check(err, "x.results.jsonl.partial: is of another experiment: ")
		check(err, want)
	}
	header := p.Header
	p.Header.Build.Version = "v9"
	if err := p.Header.seal(); err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(t.Context(), out, Options{Play: sums})
	check(err, "the program is couchrelay v9, ")
	p.Header = header

	text, _ := os.ReadFile(partial(out))
	for _, damaged := range []string{"{\"run\":{\"point\":7,\"seed\":1}}\n",
		"{\"run\":{\"point\":1,\"seed\":9}}\n", "x\n", "{}\n"} {
		if err := os.WriteFile(partial(out), append(bytes.Clone(text), damaged...), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(t.Context(), out, Options{Play: sums})
		check(err, "line 2 is damaged")
	}
	const twice = "{\"run\":{\"point\":1,\"seed\":1}}\n{\"run\":{\"point\":1,\"seed\":1}}\n"
	if err := os.WriteFile(partial(out), append(bytes.Clone(text), twice...), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(t.Context(), out, Options{Play: sums})
	check(err, "line 3 is damaged")
	if err := os.WriteFile(partial(out), []byte("mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(t.Context(), out, Options{Play: sums})
	check(err, "is not what an interrupted sweep has left")

	if _, err = p.Run(t.Context(), out, Options{Play: sums, Restart: true}); err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(t.Context(), out, Options{Play: sums})
	check(err, "is there already; name another file with -o")
	_, err = p.Run(t.Context(), filepath.Join(t.TempDir(), "a", "x.jsonl"), Options{Play: sums})
	check(err, "x.jsonl: cannot be written (open ")
}

// A second process with the same output is refused while the first one runs.
func TestOneAtATimeOnAFile(t *testing.T) {
	p, out := begin(t, small)
	var once sync.Once
	_, err := p.Run(t.Context(), out, Options{Play: func(ctx context.Context, s *Setup, w *workload.Workload,
		seed uint64) (Values, error) {
		once.Do(func() {
			if _, err := p.Run(ctx, out, Options{Play: sums}); err == nil || !strings.Contains(err.Error(),
				"another process writes it") {
				t.Error(err)
			}
		})
		return sums(ctx, s, w, seed)
	}})
	if err != nil {
		t.Error(err)
	}
}

// A workload is built once for all points that share it, and not kept for longer than these are played.
func TestWorkloadsAreShared(t *testing.T) {
	p, _ := begin(t, small)
	tasks := p.tasks(func(int, uint64) bool { return false })
	stocks := map[*stock]int{}
	for i, task := range tasks {
		if stocks[task.stock]++; stocks[task.stock] > 1 && tasks[i-1].stock != task.stock {
			t.Error("points of one workload are apart")
		}
	}
	if len(tasks) != 18 || len(stocks) != 6 { // two recipes, three seeds
		t.Errorf("%d runs of %d workloads", len(tasks), len(stocks))
	}
	s := tasks[0].stock
	first, err := s.take()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := s.take(); again != first {
		t.Error("is built twice")
	}
	for range 3 {
		s.giveBack()
	}
	if s.w != nil {
		t.Error("is kept")
	}
}

// The runs of a seed have the same workload at all points, and a point's runs have different seeds.
func TestPairedSeeds(t *testing.T) {
	p, _ := begin(t, "seeds = 4..6\n[workload]\njobs = 5\narrival = poisson\n[sweep]\nmax_churn = 1, 2\n")
	var mu sync.Mutex
	seen, workloads := map[string]int{}, map[string]bool{}
	_, err := p.Try(t.Context(), Options{Play: func(_ context.Context, s *Setup, w *workload.Workload,
		seed uint64) (Values, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[fmt.Sprint(seed, w.Jobs)]++
		workloads[fmt.Sprint(w.Jobs)] = true
		return Values{}, nil
	}})
	if err != nil || len(seen) != 3 || len(workloads) != 3 {
		t.Errorf("%v: %d seeds with a workload, %d workloads", err, len(seen), len(workloads))
	}
	for what, n := range seen {
		if n != 2 {
			t.Errorf("%d points have %s", n, what)
		}
	}
}

func TestNoResults(t *testing.T) {
	const header = "{\"header\":{\"format\":1,\"first_seed\":1,\"last_seed\":2,\"points\":1}}\n"
	run := func(point, seed int) string {
		return fmt.Sprintf("{\"run\":{\"point\":%d,\"seed\":%d}}\n", point, seed)
	}
	summary := func(point int) string { return fmt.Sprintf("{\"summary\":{\"point\":%d}}\n", point) }
	for _, c := range [][2]string{
		{"", "is no file of results"},
		{"x", "is no file of results"},
		{"{}\n", "is no file of results"},
		{"{\"header\":{}}\n", "is no file of results"},
		{"{\"header\":{\"format\":2}}\n", "has format 2, and this couchsim reads 1 only"},
		{"{\"program\":\"x\",\"header\":{\"format\":1}}\n",
			"is not complete"},
		{"{\"header\":{\"format\":1,\"first_seed\":1,\"last_seed\":2,\"points\":1}}\n{\"run\":{}}\n",
			"is cut: has 1 of 2 runs and 0 of 1 summaries"},
		{"{\"header\":{\"format\":1}}\n{}\n",
			"line 2: must be a run or a summary"},
		{"{\"header\":{\"format\":1}}\nx\n",
			"line 2: "},
		{header + run(1, 2) + run(1, 1) + summary(1), "is damaged: run 1 is of point 1 and seed 2, and"},
		{header + run(1, 1) + run(1, 1) + summary(1), "is damaged: run 2 is of point 1 and seed 1, and"},
		{header + run(1, 1) + run(1, 2) + summary(2), "is damaged: summary 1 is of point 2"},
	} {
		text, want := c[0], c[1]
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}
