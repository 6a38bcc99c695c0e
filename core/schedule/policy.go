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
	// FairShare orders jobs by how much their accounts used of late, as CouchDB does (Kay and Lauder, RFC 017).
	FairShare Policy = iota
	// FIFO orders jobs by when they last had a slot, whoever's they are. RFC 016 goes by the last start; but a start that
	// was noted by a clock which was ahead would be later than those of all who run, however long they do.
	FIFO
	// Tags is start-time fair queueing between accounts: what an account gets follows its shares turn by turn,
	// and nothing is remembered of the time when nobody waited.
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
	// Epoch counts the changes of the policy. Keys of different epochs do not compare: whoever was queued
	// under the policy before goes first.
	Epoch int64
	// Key orders the jobs of an epoch, lower first: a key of Decay (FairShare), the end of the last turn (FIFO)
	// or a tag (Tags).
	Key int64
}

// Compare orders places, those that get slots first before others.
func (p Place) Compare(o Place) int {
	return cmp.Or(cmp.Compare(p.Epoch, o.Epoch), cmp.Compare(p.Key, o.Key))
}

// Account is what an account's use of the service means for its jobs.
type Account struct {
	Shares int64 // MinShares to MaxShares
	Jobs   int64 // that are not over
	Usage  int64 // see Forgetting.Usage
	Tail   int64 // Tags: the tag that its next job gets
}

// Bounds of shares, and what an account has that nobody gave any: CouchDB's.
const (
	MinShares     = 1
	MaxShares     = 1000
	DefaultShares = 100
)

// Order is the order in force: a policy with what it goes by.
type Order struct {
	Policy     Policy
	Epoch      int64
	Forgetting Forgetting
	// PriorityCoeff is what is left of a priority value an interval later, in millionths; 0 means that it
	// follows from how long all jobs take to have their turns.
	PriorityCoeff int64
	Decay         Decay
}

// Enter is the place of a new job: under FairShare as if it had run for an interval, so that nothing is
// gained by deleting a job and making it again; under FIFO before all that ever ran.
func (o Order) Enter(now instant.Time, a Account) Place {
	switch o.Policy {
	case FairShare:
		return o.place(Key(o.Decay.At(now), Growth(a.Usage, a.Jobs, a.Shares)))
	case Tags:
		return o.place(a.Tail)
	}
	return o.place(0)
}

// Next is the place of a running job if it stopped now. p is what Next was before, or the place that it had
// when it started, and ran is the time since then.
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

// Cost is by how much running for d while others waited moves the tags of an account: microseconds at 100
// shares.
func Cost(d time.Duration, shares int64) int64 {
	return mulDiv(max(d.Microseconds(), 0), DefaultShares, max(shares, 1))
}

// defaultPriorityCoeff is CouchDB's, and the least that PriorityCoeff 0 stands for.
const defaultPriorityCoeff = 980_000

// HalfLife is the half-life that priority values should have while so many jobs are ready and so many give
// way in an interval. Under PriorityCoeff 0 it stays what it is within wide bounds, since every change
// takes a write.
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
