package login

import (
	"container/list"
	"sync"
	"time"

	"couchrelay/adapters/config"
)

// throttle counts wrong passwords by name and address. The zero throttle is ready.
type throttle struct {
	mu      sync.Mutex
	entries map[guess]*list.Element // of *failures
	recent  list.List               // the last first
}

type guess struct{ name, from string }

// failures are wrong passwords of a name from an address.
type failures struct {
	guess
	n     int
	last  time.Time
	until time.Time // before it, no other password is looked at
}

// firstDelay is that after as many wrong passwords as are free; it doubles with each further one.
const firstDelay = time.Second

// wait returns how long it takes until a password may be tried.
func (t *throttle) wait(c config.Lockout, now time.Time, name, from string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.find(c, now, guess{name, from})
	if f == nil || c.Mode == "off" {
		return 0
	}
	return f.until.Sub(now)
}

// failed counts a wrong password, and returns the delay until the next.
func (t *throttle) failed(c config.Lockout, now time.Time, name, from string) time.Duration {
	if c.Mode == "off" {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g := guess{name, from}
	f := t.find(c, now, g)
	if f == nil {
		if t.entries == nil {
			t.entries = map[guess]*list.Element{}
		}
		for len(t.entries) >= c.Objects {
			t.drop(t.recent.Back())
		}
		f = &failures{guess: g}
		t.entries[g] = t.recent.PushFront(f)
	}
	t.recent.MoveToFront(t.entries[g])
	f.n, f.last = f.n+1, now
	delay := time.Duration(0)
	if over := f.n - c.Threshold; over >= 0 {
		delay = min(firstDelay<<min(over, 20), c.Lifetime)
	}
	f.until = now.Add(delay)
	return delay
}

// forget ends the count of a name from an address.
func (t *throttle) forget(name, from string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entries[guess{name, from}]; e != nil {
		t.drop(e)
	}
}

// find returns what is counted, nil if nothing is or it is too old.
func (t *throttle) find(c config.Lockout, now time.Time, g guess) *failures {
	e := t.entries[g]
	if e == nil {
		return nil
	}
	f := e.Value.(*failures)
	if now.Sub(f.last) > c.Lifetime {
		t.drop(e)
		return nil
	}
	return f
}

func (t *throttle) drop(e *list.Element) {
	delete(t.entries, e.Value.(*failures).guess)
	t.recent.Remove(e)
}
