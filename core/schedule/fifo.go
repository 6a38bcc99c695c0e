package schedule

import (
	"time"

	"couchrelay/core/instant"
)

// fifo orders jobs by the end of their last turn, across accounts; new ones go before all that ever ran. RFC
// 016 uses the last start, but a start stamped by a fast clock would keep its job behind every running job for
// as long as they run. It knows neither shares nor weights.
type fifo struct{}

func (fifo) Needs() State { return NeedsTime }

func (fifo) Enter(_ Order, _ instant.Time, a Account) (int64, Account) { return 0, a }

func (fifo) Next(_ Order, _ Turn, _ time.Duration, now instant.Time, _ Account) int64 {
	return int64(now)
}

func (fifo) Settle(_ Order, _ Turn, now instant.Time, a Account) (int64, Account) {
	return int64(now), a
}

func (fifo) GivesWay(_, _ Running) int { return 0 }
