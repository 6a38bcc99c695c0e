package loop

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"couchrelay/core/invariant"

	"github.com/benbjohnson/clock"
)

// quietAfterBreach is how long the log says nothing more of an invariant that was reported broken. A job that
// breaks one is tried again and again, and there may be thousands of them.
const quietAfterBreach = time.Minute

// Breaches counts broken invariants and writes them to the log. It is safe for concurrent use.
type Breaches struct {
	logger *slog.Logger
	clock  clock.Clock

	mu   sync.Mutex
	seen map[string]*breach // by the invariant's name
}

// breach is what is known of one invariant that broke.
type breach struct {
	count  int64     // since the process began; only grows
	logged time.Time // when the log had it last
}

// NewBreaches returns a reporter that has seen none.
func NewBreaches(logger *slog.Logger, c clock.Clock) *Breaches {
	return &Breaches{logger: logger, clock: c, seen: map[string]*breach{}}
}

// Report counts a breach and logs it, with the stack and the number of breaches of this invariant so far,
// unless the log had one of the same invariant less than quietAfterBreach ago. It is meant for
// invariant.Guard.
func (b *Breaches) Report(broken *invariant.Broken) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, now := broken.ID.Name(), b.clock.Now()
	s := b.seen[name]
	if s == nil {
		s = &breach{}
		b.seen[name] = s
	}
	s.count++
	if s.count > 1 && now.Sub(s.logged) < quietAfterBreach {
		return
	}
	s.logged = now
	b.logger.Error("invariant_broken", "id", name, "text", broken.Error(), "count", s.count,
		"stack", string(debug.Stack()))
}
