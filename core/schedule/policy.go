package schedule

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"couchrelay/core/instant"
)

// Policy is an order in which jobs get slots.
type Policy uint8

// Policies.
const (
	// FairShare orders jobs by how much their accounts used of late, as CouchDB does (Kay and Lauder, RFC
	// 017).
	FairShare Policy = iota
	// FIFO orders jobs by the end of their last turn, across accounts. RFC 016 uses the last start, but a
	// start stamped by a fast clock would keep its job behind every running job for as long as they run.
	FIFO
	// Tags is start-time fair queueing between accounts: what an account gets follows its shares turn by
	// turn. Time that was used while no job waited does not count.
	Tags
)

// Policies are the names of all policies, in their order.
var Policies = []string{FairShare: "fairshare", FIFO: "fifo", Tags: "tags"}

func (p Policy) String() string { return Policies[p] }

// ParsePolicy finds a policy by its name.
func ParsePolicy(name string) (Policy, error) {
	for p, known := range Policies {
		if name == known {
			return Policy(p), nil
		}
	}
	return 0, fmt.Errorf("must be one of %s", strings.Join(Policies, ", "))
}

// MarshalText is the policy's name.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText undoes MarshalText.
func (p *Policy) UnmarshalText(name []byte) (err error) {
	*p, err = ParsePolicy(string(name))
	return err
}

// Place is where a job stands in the order.
type Place struct {
	// Epoch counts the changes of the policy. Keys of different epochs cannot be compared: jobs that were
	// queued under the policy before go first. Not negative, and only grows.
	Epoch int64
	// Key orders the jobs of an epoch, the lowest first: a key of Decay (FairShare), the end of the last
	// turn in microseconds (FIFO) or a tag (Tags). A tag is not negative.
	Key int64
}

// Compare orders places; the first in this order gets a slot first.
func (p Place) Compare(o Place) int {
	return cmp.Or(cmp.Compare(p.Epoch, o.Epoch), cmp.Compare(p.Key, o.Key))
}

// Account is what an account's use of the service means for its jobs.
type Account struct {
	Shares int64 // from MinShares to MaxShares
	Jobs   int64 // the number of its jobs that are not over, waiting ones too; not negative
	Usage  int64 // microseconds of slots (FairShare); see Forgetting.Usage
	Tail   int64 // the tag that its next job gets (Tags)
}

// Bounds of shares, and the shares of an account for which none are configured. The default is CouchDB's.
const (
	MinShares     = 1
	MaxShares     = 1000
	DefaultShares = 100
)

// Order is the order in force on all nodes: a policy with its parameters. It is stored as JSON.
type Order struct {
	Policy     Policy
	Epoch      int64 // see Place.Epoch
	Forgetting Forgetting
	// PriorityCoeff is what is left of a priority value an interval later, in millionths (priority_coeff;
	// K2 of Kay and Lauder). 0 is auto: it follows from how long it takes until all jobs have had a turn.
	PriorityCoeff int64
	// Decay is the clock of priority values. Its half-life agrees with PriorityCoeff, unless that is auto.
	Decay Decay
}

// Enter is the place of a new job. Under FairShare it is as if the job had run for an interval, so that
// deleting a job and making it again gains nothing; under FIFO it is before all jobs that ever ran.
func (o Order) Enter(now instant.Time, a Account) Place {
	switch o.Policy {
	case FairShare:
		return o.place(Key(o.Decay.At(now), Growth(a.Usage, a.Jobs, a.Shares)))
	case Tags:
		return o.place(a.Tail)
	}
	return o.place(0)
}

// Next is the place of a running job if it stopped now. p is its place at the last call of Next, or when it
// started, and ran is the time since then. Of a longer time than an interval only an interval counts.
func (o Order) Next(p Place, ran time.Duration, now instant.Time, a Account) Place {
	switch o.Policy {
	case FairShare:
		if p.Epoch != o.Epoch {
			p.Key = 0
		}
		interval := int64(max(o.Forgetting.Interval, 1))
		growth := mulDiv(Growth(a.Usage, a.Jobs, a.Shares), min(int64(max(ran, 0)), interval), interval)
		return o.place(Grow(p.Key, o.Decay.At(now), growth))
	case Tags:
		return o.place(a.Tail)
	}
	return o.place(int64(now))
}

func (o Order) place(key int64) Place { return Place{Epoch: o.Epoch, Key: key} }

// Cost is by how much the tags of an account advance for a turn of which d passed while others waited:
// microseconds for an account of 100 shares, half as many for one of 200.
func Cost(d time.Duration, shares int64) int64 {
	return mulDiv(max(d.Microseconds(), 0), DefaultShares, max(shares, 1))
}

// defaultPriorityCoeff is CouchDB's default, and the least that auto stands for.
const defaultPriorityCoeff = 980_000

// HalfLife is the half-life that priority values should have while so many jobs are ready and so many give
// way in an interval. Under auto it stays as it is within wide bounds, since every change takes a write
// that all nodes read.
func (o Order) HalfLife(ready int64, churn int) time.Duration {
	if o.PriorityCoeff != 0 {
		return HalfLife(o.PriorityCoeff, o.Forgetting.Interval)
	}
	floor := HalfLife(defaultPriorityCoeff, o.Forgetting.Interval)
	least := LeastHalfLife(ready, churn, o.Forgetting.Interval)
	now := o.Decay.HalfLife
	if now >= max(floor, least) && now <= max(floor, 5*(least/2)) {
		return now
	}
	return boundHalfLife(max(floor, 3*(least/2)))
}
