package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"

	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	e := New(0)
	var log []string
	say := func(s string) func() { return func() { log = append(log, fmt.Sprint(e.Now().Unix(), s)) } }
	e.After(2*time.Second, nil, "", say("c"))
	e.After(time.Second, nil, "", say("a"))
	e.After(time.Second, nil, "", say("b"))
	e.After(9*time.Second, nil, "", say("late"))
	if left := e.Run(instant.Seconds(5), nil); !left || e.Now() != instant.Seconds(5) {
		t.Error(left, e.Now())
	}
	if want := []string{"1a", "1b", "2c"}; !slices.Equal(log, want) {
		t.Error(log)
	}
}

func TestQueueIsAHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var times []instant.Time
		for i, at := range rapid.SliceOf(rapid.Int64Range(0, 20)).Draw(t, "times") {
			q.push(event{at: instant.Time(at), order: uint64(i)})
			times = append(times, instant.Time(at))
		}
		slices.Sort(times)
		last := event{}
		for _, want := range times {
			got := q.pop()
			if got.at != want || got.at == last.at && got.order < last.order {
				t.Fatalf("popped %v after %v, want time %v", got, last, want)
			}
			last = got
		}
	})
}

func TestCoroutines(t *testing.T) {
	e := New(0)
	var log []string
	for _, name := range []string{"x", "y"} {
		e.Go(nil, "start", func() {
			for range 3 {
				log = append(log, fmt.Sprint(name, e.Now().Unix()))
				if err := e.Sleep(context.Background(), time.Second); err != nil {
					t.Error(err)
				}
			}
		})
	}
	e.Run(instant.Never, nil)
	if want := []string{"x0", "y0", "x1", "y1", "x2", "y2"}; !slices.Equal(log, want) {
		t.Error(log)
	}
}

// TestCoroutineIsUsedAgain has a second task wait in the coroutine of the first, of which a wake-up comes
// late.
func TestCoroutineIsUsedAgain(t *testing.T) {
	e := New(0)
	var late func()
	var first, second any
	ctx := e.NewContext(nil, time.Second)
	e.Go(nil, "", func() {
		first = e.Self()
		_ = e.Await(ctx, func(wake func()) { late = wake })
	})
	e.Run(instant.Seconds(2), nil)
	woken := false
	e.Go(nil, "", func() {
		second = e.Self()
		_ = e.Await(context.Background(), func(func()) {})
		woken = true
	})
	e.Run(instant.Seconds(3), nil)
	late()
	e.Run(instant.Seconds(4), nil)
	if first != second || woken {
		t.Errorf("one coroutine: %v; woken: %v", first == second, woken)
	}
	e.Close()
	if len(e.coroutines) > 0 {
		t.Error("a coroutine without a task is left")
	}
}

func TestPauseAndKill(t *testing.T) {
	e := New(0)
	p := &Process{Name: "p"}
	ticks, cleaned := 0, false
	e.Go(p, "start", func() {
		defer func() { cleaned = true }()
		for {
			_ = e.Sleep(context.Background(), time.Second)
			ticks++
		}
	})
	e.Run(instant.Seconds(3), nil)
	if ticks != 3 {
		t.Fatal(ticks)
	}
	e.Pause(p, 10*time.Second)
	e.Run(instant.Seconds(12), nil)
	if ticks != 3 {
		t.Errorf("a paused process ticked %d times", ticks-3)
	}
	e.Run(instant.Seconds(14), nil)
	if ticks != 5 {
		t.Errorf("%d ticks after the pause", ticks)
	}
	e.Kill(p)
	if !cleaned {
		t.Error("not unwound")
	}
	e.Run(instant.Seconds(99), nil)
	if ticks != 5 {
		t.Error("a dead process ticks")
	}
	lived := false
	e.After(0, p, "", func() { lived = true })
	e.Run(instant.Seconds(100), nil)
	if !lived {
		t.Error("no next life")
	}
}

// What waited for the end of a pause comes at once when that ends early, in its order and before what is
// planned then.
func TestResume(t *testing.T) {
	e := New(0)
	p, q := &Process{Name: "p"}, &Process{Name: "q"}
	var got []string
	plan := func(d time.Duration, owner *Process, name string) {
		e.After(d, owner, "", func() { got = append(got, fmt.Sprint(name, " at ", e.Now().Unix())) })
	}
	for i := range 8 {
		plan(time.Duration(8-i)*time.Second, p, fmt.Sprint("p", i))
	}
	plan(2*time.Second, q, "q")
	e.Pause(p, time.Minute)
	e.Pause(q, 30*time.Second)
	e.Run(instant.Seconds(5), nil)
	e.Resume(p)
	plan(0, p, "new")
	e.Run(instant.Seconds(99), nil)
	want := []string{
		"p7 at 5", "p6 at 5", "p5 at 5", "p4 at 5", "p3 at 5", "new at 5", "p2 at 6", "p1 at 7", "p0 at 8", "q at 30",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestContextEnds(t *testing.T) {
	e := New(0)
	var errs []error
	ctx, limited := e.NewContext(nil, 0), e.NewContext(nil, 3*time.Second)
	e.Go(nil, "", func() { errs = append(errs, e.Await(ctx, func(func()) {})) })
	e.Go(nil, "", func() { errs = append(errs, e.Sleep(limited, time.Hour)) })
	e.Go(nil, "", func() { errs = append(errs, e.Sleep(e.NewContext(nil, time.Hour), time.Second)) })
	e.After(2*time.Second, nil, "", ctx.Cancel)
	e.Run(instant.Seconds(10), nil)
	if want := []error{nil, context.Canceled, context.DeadlineExceeded}; !slices.Equal(errs, want) {
		t.Error(errs)
	}
	e.Go(nil, "", func() { errs = append(errs, e.Sleep(ctx, time.Second)) })
	e.Run(instant.Seconds(10), nil)
	if errs[3] != context.Canceled {
		t.Error(errs[3])
	}
}

func TestHash(t *testing.T) {
	run := func(name string, at time.Duration, note uint64) uint64 {
		e := New(0)
		e.After(at, nil, name, func() { e.Note(note) })
		e.Run(instant.Never, nil)
		return e.Hash()
	}
	one := run("a", time.Second, 1)
	if one != run("a", time.Second, 1) {
		t.Error("equal runs differ")
	}
	for _, other := range []uint64{run("b", time.Second, 1), run("a", 2*time.Second, 1), run("a", time.Second, 2)} {
		if other == one {
			t.Error("different runs do not differ")
		}
	}
}

func BenchmarkEvents(b *testing.B) {
	e := New(0)
	var tick func()
	n := 0
	tick = func() {
		if n++; n < b.N {
			e.After(time.Duration(n%7)*time.Millisecond, nil, "tick", tick)
		}
	}
	for range 100 {
		e.After(0, nil, "tick", tick)
	}
	e.Run(instant.Never, nil)
}
