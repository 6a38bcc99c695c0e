package schedule

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Policy is an order in which jobs get slots, by its place in the table of policies.
type Policy uint8

// Policies that services have.
const (
	FairShare Policy = iota // by recent use for shares, as CouchDB has it
	FIFO                    // by the end of the last turn
	Tags                    // turn by turn, as shares say
)

// policies are all policies. One of your own is a file with its Rules, and a line here: with inService, if it
// keeps what couchrelay promises of waits, and else for simulations only.
var policies = []policy{
	FairShare: {"fairshare", fairShare{}, true},
	FIFO:      {"fifo", fifo{}, true},
	Tags:      {"tags", tags{}, true},
	{"stride", stride{}, false},
	{"lottery", lottery{}, false},
	{"eevdf", eevdf{}, false},
}

type policy struct {
	name      string
	rules     Rules
	inService bool
}

// Policies are the names of the policies that services have, in their order.
func Policies() []string { return names(true) }

// Simulated are the names of the policies that only simulations have, to compare with the others.
func Simulated() []string { return names(false) }

func names(inService bool) (list []string) {
	for _, p := range policies {
		if p.inService == inService {
			list = append(list, p.name)
		}
	}
	return list
}

func (p Policy) String() string { return policies[p].name }

func (p Policy) rules() Rules { return policies[p].rules }

// InService reports whether services have the policy, and not only simulations.
func (p Policy) InService() bool { return policies[p].inService }

// ParsePolicy finds a policy by its name.
func ParsePolicy(name string) (Policy, error) {
	for i, p := range policies {
		if p.name == name {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("must be one of %s", strings.Join(append(Policies(), Simulated()...), ", "))
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
	// Epoch counts the changes of the policy, how often keys were outrun that a wrong clock had given, and how often
	// the clock of Decay began anew. Keys of different epochs cannot be compared: jobs that were queued in the epoch
	// before go first. Not negative, and only grows.
	Epoch int64
	// Key orders the jobs of an epoch, the lowest first: a key of Decay (FairShare), the end of the last
	// turn in microseconds (FIFO) or a tag (policies that need tails). A tag is not negative.
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
	Usage  int64 // microseconds of slots (NeedsUsage); see Forgetting.Usage
	Tail   int64 // the tag that its next job gets (NeedsTail); see Order.Tail
	// Name is the account's name, by which policies draw lots; known where it pays (Enter and Settle, with
	// NeedsTail).
	Name string
	// Excess is by how much the weights of its jobs exceed DefaultWeight each, all together. It may be negative.
	Excess int64
	// Floor is the least tag that is given out (NeedsTail); it is no more than Tail.
	Floor int64
	// Weight is that of the job that is placed; 0 is DefaultWeight.
	Weight int64
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
	// Seed is what policies draw lots by. Only simulations have one.
	Seed uint64 `json:",omitempty"`
	// Periods are those that are not as long as Forgetting.Interval.
	Periods Periods `json:",omitzero"`
	// Round bounds waits (NeedsTail).
	Round Round `json:",omitzero"`
}

// Periods are the times at which RFC 017 leaves usage (Forgetting.Interval, its t1), priority values and slots
// as they are. CouchDB and the RFC's defaults have one interval for all.
type Periods struct {
	Rotation time.Duration // between two rotations (interval); 0 is Forgetting.Interval
	Priority time.Duration // of PriorityCoeff (priority_interval, t2); 0 is Rotation
	// Growth is how long a job runs until its value has grown by usage * jobs / shares^2, and what a new job
	// costs (growth_interval, t3); 0 is Rotation.
	Growth time.Duration
}

func (o Order) rotation() time.Duration { return cmp.Or(o.Periods.Rotation, o.Forgetting.Interval) }

func (o Order) priority() time.Duration { return cmp.Or(o.Periods.Priority, o.rotation()) }

func (o Order) growth() time.Duration { return cmp.Or(o.Periods.Growth, o.rotation()) }

// defaultPriorityCoeff is CouchDB's default, and the least that auto stands for.
const defaultPriorityCoeff = 980_000

// HalfLife is the half-life that priority values should have while so many jobs are ready and so many give
// way in an interval. Under auto it stays as it is within wide bounds, since every change takes a write
// that all nodes read.
func (o Order) HalfLife(ready int64, churn int) time.Duration {
	if o.PriorityCoeff != 0 {
		return HalfLife(o.PriorityCoeff, o.priority())
	}
	floor := HalfLife(defaultPriorityCoeff, o.priority())
	least := LeastHalfLife(ready, churn, o.rotation())
	now := o.Decay.HalfLife
	if now >= max(floor, least) && now <= max(floor, 5*(least/2)) {
		return now
	}
	return boundHalfLife(max(floor, 3*(least/2)))
}
