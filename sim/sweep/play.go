package sweep

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"couchrelay/sim/workload"
)

// Play plays one run and measures it.
type Play func(ctx context.Context, s *Setup, w *workload.Workload, seed uint64) (Values, error)

// task is a run that is to be played.
type task struct {
	point int // from 0
	seed  uint64
	stock *stock
}

// stock is a workload that several runs share. It is built for the first and dropped after the last.
type stock struct {
	build func() (*workload.Workload, error)

	mu   sync.Mutex
	left int // runs that need it still
	w    *workload.Workload
}

func (s *stock) take() (*workload.Workload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		w, err := s.build()
		if err != nil {
			return nil, err
		}
		s.w = w
	}
	return s.w, nil
}

func (s *stock) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		s.w = nil
	}
}

// tasks are the runs that are not done yet. Those of one workload come one after the other.
func (p *Plan) tasks(done func(point int, seed uint64) bool) []task {
	var all []task
	byRecipe := map[string][]int{}
	var recipes []string
	for i, name := range p.recipes {
		if byRecipe[name] == nil {
			recipes = append(recipes, name)
		}
		byRecipe[name] = append(byRecipe[name], i)
	}
	for _, name := range recipes {
		var s *stock
		for seed := p.Header.First; seed <= p.Header.Last; seed++ {
			if s == nil || fileOf(name) == "" { // a trace is the same for all seeds
				s = &stock{build: func() (*workload.Workload, error) { return p.build(byRecipe[name][0], seed) }}
			}
			for _, point := range byRecipe[name] {
				if !done(point, seed) {
					s.left++
					all = append(all, task{point, seed, s})
				}
			}
		}
	}
	return all
}

func (p *Plan) build(point int, seed uint64) (*workload.Workload, error) {
	s, err := p.experiment.Setup(p.Points[point])
	if err != nil {
		return nil, err
	}
	return s.Recipe.Build(seed)
}

// settings are those of a point that differ between points.
func (p *Plan) settings(point int) map[string]string {
	m := map[string]string{}
	for _, v := range p.Points[point] {
		m[v.Key.String()] = v.Value
	}
	return m
}

// run plays a task.
func (p *Plan) run(ctx context.Context, play Play, t task) (Run, error) {
	defer t.stock.giveBack()
	r := Run{Point: t.point + 1, Seed: t.seed, Settings: p.settings(t.point)}
	s, err := p.experiment.Setup(p.Points[t.point])
	if err != nil {
		return r, err
	}
	w, err := t.stock.take()
	if err == nil {
		r.Metrics, err = play(ctx, s, w, t.seed)
	}
	if err != nil {
		return r, fmt.Errorf("point %d (%s), seed %d: %w", r.Point, p.Points[t.point], t.seed, err)
	}
	return r, nil
}

// playAll plays tasks on several cores, and hands each result to keep, one at a time. It returns the first error,
// which is ctx's when that ended.
func (p *Plan) playAll(ctx context.Context, play Play, tasks []task, workers int, keep func(Run) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var mu sync.Mutex // around keep and next
	next := 0
	worker := func() {
		for {
			mu.Lock()
			if next == len(tasks) || ctx.Err() != nil {
				mu.Unlock()
				return
			}
			t := tasks[next]
			next++
			mu.Unlock()
			r, err := p.run(ctx, play, t)
			mu.Lock()
			if err == nil {
				err = keep(r)
			}
			mu.Unlock()
			if err != nil {
				fail(err) // only the first one counts
			}
		}
	}
	var all sync.WaitGroup
	for range min(workers, len(tasks)) {
		all.Go(worker)
	}
	all.Wait()
	return context.Cause(ctx)
}
