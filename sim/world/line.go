package world

import (
	"context"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/engine"
)

// line carries so many bytes in a second, which all that travels on it shares in equal parts. So nothing on it is ever
// silent, however long it takes.
type line struct {
	engine *engine.Engine
	rate   int // bytes in a second; 0 for a line that carries everything at once
	loads  []*load
	moved  instant.Time // up to when the loads have moved
	plan   int          // grows with every change, so that an arrival that was planned before is recognised as stale
}

// load is what is on its way.
type load struct {
	left   int64 // in millionths of a byte: a line carries its rate of them in a microsecond
	arrive func()
}

// carry has bytes travel. The error is that of the context, whose end takes the rest from the line.
func (l *line) carry(ctx context.Context, bytes int) error {
	if l.rate == 0 || bytes == 0 {
		return nil
	}
	one := &load{left: int64(bytes) * 1_000_000}
	defer func() { l.drop(one) }() // also when the process is killed
	return l.engine.Await(ctx, func(wake func()) {
		one.arrive = wake
		l.move()
		l.loads = append(l.loads, one)
		l.replan()
	})
}

func (l *line) drop(one *load) {
	if i := slices.Index(l.loads, one); i >= 0 {
		l.move()
		l.loads = slices.Delete(l.loads, i, i+1)
		l.replan()
	}
}

// setRate makes the line narrower or wider. With 0 everything arrives.
func (l *line) setRate(rate int) {
	l.move()
	l.rate = rate
	l.replan()
}

// move has the loads move up to now.
func (l *line) move() {
	now := l.engine.Now()
	for _, one := range l.loads {
		one.left -= int64(l.rate) * now.Sub(l.moved).Microseconds() / int64(len(l.loads))
	}
	l.moved = now
}

// replan has all arrive that is through, and plans when the next load is.
func (l *line) replan() {
	l.plan++
	rest := l.loads[:0]
	for _, one := range l.loads {
		if l.rate == 0 || one.left <= 0 {
			one.arrive()
		} else {
			rest = append(rest, one)
		}
	}
	clear(l.loads[len(rest):])
	l.loads = rest
	if len(rest) == 0 {
		return
	}
	least := slices.MinFunc(rest, func(a, b *load) int { return int(min(1, max(-1, a.left-b.left))) }).left
	rate := int64(l.rate)
	plan, due := l.plan, time.Duration((least*int64(len(rest))+rate-1)/rate)*time.Microsecond
	l.engine.After(due, nil, "line", func() {
		if l.plan == plan {
			l.move()
			l.replan()
		}
	})
}
