package world

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/decide"
	"couchrelay/sim/engine"
)

// TestLine: what travels on a line shares it in equal parts, and what is given up leaves its part to the others.
func TestLine(t *testing.T) {
	type rig struct {
		*line
		ctx context.Context // of the first load
		*engine.Process
	}
	widen := func(r rig) { r.setRate(0) }
	narrow := func(r rig) { r.setRate(50) }
	giveUp := func(r rig) { r.ctx.(*engine.Context).Cancel() }
	kill := func(r rig) { r.engine.Kill(r.Process) }
	pause := func(r rig) { r.engine.Pause(r.Process, time.Minute) }
	for name, c := range map[string]struct {
		rate  int
		loads []int // bytes; the first is that of a process
		later func(rig)
		want  []string
	}{
		"wide":     {0, []int{1000, 500}, nil, []string{"0 at 0s", "1 at 0s"}},
		"empty":    {100, []int{0}, nil, []string{"0 at 0s"}},
		"alone":    {100, []int{250}, nil, []string{"0 at 2.5s"}},
		"shared":   {100, []int{300, 100}, nil, []string{"1 at 2s", "0 at 4s"}},
		"together": {3, []int{1, 1, 1}, nil, []string{"0 at 1s", "1 at 1s", "2 at 1s"}},
		"uneven":   {7, []int{1, 2}, nil, []string{"0 at 285.715ms", "1 at 428.572ms"}},
		"widened":  {100, []int{300, 100}, widen, []string{"0 at 1s", "1 at 1s"}},
		"narrowed": {100, []int{300}, narrow, []string{"0 at 5s"}},
		"given up": {100, []int{300, 100}, giveUp, []string{"0 ends at 1s", "1 at 1.5s"}},
		"killed":   {100, []int{300, 100}, kill, []string{"1 at 1.5s"}},
		"paused":   {100, []int{300}, pause, []string{"0 at 1m1s"}},
	} {
		e := engine.New(0)
		p := &engine.Process{Name: "n1"}
		r := rig{&line{engine: e, rate: c.rate}, e.NewContext(p, 0), p}
		var got []string
		for i, bytes := range c.loads {
			owner, ctx := p, r.ctx
			if i > 0 {
				owner, ctx = nil, context.Background()
			}
			e.Go(owner, "load", func() {
				verb := "at"
				if r.carry(ctx, bytes) != nil {
					verb = "ends at"
				}
				got = append(got, fmt.Sprint(i, " ", verb, " ", e.Now().Sub(0)))
			})
		}
		if c.later != nil {
			e.After(time.Second, nil, "later", func() { c.later(r) })
		}
		e.Run(instant.Never, nil)
		if !slices.Equal(got, c.want) || len(r.loads) > 0 {
			t.Errorf("%s: arrived %q, want %q; %d are left", name, got, c.want, len(r.loads))
		}
	}
}

// TestNarrow: a line is narrow until the last fault that made it so is over, or the world is healed.
func TestNarrow(t *testing.T) {
	w := New(Default(), decide.New(1))
	p, s := w.nodes[0], w.net.servers[0]
	narrow := func(want bool, after string) {
		t.Helper()
		if got := w.net.Narrow(p.Process, s); got != want {
			t.Errorf("narrow: %v, want %v after %s", got, want, after)
		}
	}
	play := func(d time.Duration) { w.Engine.Run(w.Engine.Now().Add(d), nil) }
	w.net.narrow(p, s, 128, time.Minute)
	play(30 * time.Second)
	w.net.narrow(p, s, 64, 2*time.Minute)
	play(time.Minute)
	narrow(true, "the end of the first fault")
	play(time.Minute)
	narrow(false, "the end of the second")
	w.net.narrow(p, s, 128, time.Minute)
	w.net.heal()
	narrow(false, "the healing")
}
