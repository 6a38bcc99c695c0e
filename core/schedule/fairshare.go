package schedule

import (
	"time"

	"couchrelay/core/instant"
)

// fairShare orders jobs by their decayed priority values: by how much their accounts used of late, for their
// shares (Kay and Lauder, "A Fair Share Scheduler", 1988; RFC 017). The package comment tells how that works
// without a look at waiting jobs. In the long run accounts get running time in proportion to their shares, as
// long as values are remembered for much of the time that all jobs take to have a turn; see LeastHalfLife.
type fairShare struct{}

func (fairShare) Needs() State { return NeedsUsage }

// Enter places a new job as if it had run for an interval, so that deleting a job and making it again gains
// nothing.
func (fairShare) Enter(o Order, now instant.Time, a Account) (int64, Account) {
	return Key(o.Decay.At(now), a.Growth()), a
}

func (fairShare) Next(o Order, t Turn, ran time.Duration, now instant.Time, a Account) int64 {
	p := t.Place
	if p.Epoch != o.Epoch {
		p.Key = 0
	}
	interval := int64(max(o.growth(), 1))
	growth := mulDiv(a.Growth(), min(int64(max(ran, 0)), interval), interval)
	return Grow(p.Key, o.Decay.At(now), growth)
}

func (fairShare) Settle(o Order, t Turn, now instant.Time, a Account) (int64, Account) {
	if t.Place.Epoch != o.Epoch {
		return o.Decay.At(now), a
	}
	return t.Place.Key, a
}

// GivesWay stops the job first that sorts last.
func (fairShare) GivesWay(a, b Running) int { return b.Place.Compare(a.Place) }
