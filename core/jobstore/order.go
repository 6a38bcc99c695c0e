package jobstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

// Sharing is how capacity is shared between accounts. It is stored, so that all nodes go by the same
// settings.
type Sharing struct {
	Policy        schedule.Policy     // scheduling_policy
	Forgetting    schedule.Forgetting // usage_interval, usage_coeff; see Follow
	PriorityCoeff int64               // priority_coeff, in millionths; 0 for auto
	// Shares of accounts ([replicator.shares]); all others have schedule.DefaultShares.
	Shares map[string]int64
	// Seed is what simulations have policies draw lots by; see schedule.Order.
	Seed uint64
	// Periods are priority_interval and growth_interval, and interval where usage_interval is another; see Follow.
	Periods schedule.Periods
}

// Follow has the periods that are not set follow interval. usage is usage_interval, 0 if it is not set.
func (c *Sharing) Follow(interval, usage time.Duration) {
	c.Forgetting.Interval, c.Periods.Rotation = cmp.Or(usage, interval), 0
	if c.Forgetting.Interval != interval {
		c.Periods.Rotation = interval
	}
}

// DefaultSharing holds CouchDB's defaults, but for the coefficient that follows the queue.
func DefaultSharing() Sharing {
	return Sharing{Forgetting: schedule.Forgetting{Interval: time.Minute, Coeff: 500_000}}
}

// order returns the order that is in force while nothing is stored.
func (c Sharing) order() schedule.Order {
	o := schedule.Order{
		Policy: c.Policy, Forgetting: c.Forgetting, PriorityCoeff: c.PriorityCoeff, Seed: c.Seed, Periods: c.Periods,
	}
	o.Decay.HalfLife = o.HalfLife(0, 0)
	return o
}

// Order reads the order in force.
func (s *Store) Order(r kv.Reader) (schedule.Order, error) {
	b, err := r.Get(s.Keys.Order)
	if err != nil || b == nil {
		return s.Config.Sharing.order(), err
	}
	var o schedule.Order
	if err := json.Decode(b, &o); err != nil {
		return o, fmt.Errorf("%w: order of jobs: %w", jobs.ErrCorrupt, err)
	}
	return o, nil
}

func encodeOrder(o schedule.Order) []byte {
	b, err := json.Encode(o)
	if err != nil {
		panic("jobstore: " + err.Error()) // plain numbers and strings
	}
	return b
}

func (k Keys) setOrder(tx kv.Tx, o schedule.Order) { tx.Set(k.Order, encodeOrder(o)) }

// Share puts settings in force on all nodes. Waiting jobs stay where they are: if the policy changes, those
// that were queued under the old one go first, in its order. The clock of decay shows the same before and
// after.
func (s *Store) Share(tx kv.Tx, c Sharing, now instant.Time) error {
	old, err := s.Order(tx)
	if err != nil {
		return err
	}
	o := old
	o.Policy, o.Forgetting, o.PriorityCoeff = c.Policy, c.Forgetting, c.PriorityCoeff
	o.Seed, o.Periods = c.Seed, c.Periods
	if o.Policy != old.Policy {
		o.Epoch++
		o.Round = schedule.Round{} // over at once
	}
	if half := o.HalfLife(0, 0); o.PriorityCoeff != 0 && half != o.Decay.HalfLife {
		o = o.Retimed(now, half)
	}
	s.Keys.setOrder(tx, o)
	return s.setShares(tx, c.Shares)
}

// setShares writes what differs. An account that is not named has the default.
func (s *Store) setShares(tx kv.Tx, shares map[string]int64) error {
	stored, err := s.storedShares(tx)
	if err != nil {
		return err
	}
	for _, account := range slices.Sorted(maps.Keys(stored)) {
		if _, named := shares[account]; !named {
			tx.Clear(s.Keys.Shares.Pack(account))
		}
	}
	for _, account := range slices.Sorted(maps.Keys(shares)) {
		if stored[account] != shares[account] {
			tx.Set(s.Keys.Shares.Pack(account), encodeNumber(shares[account]))
		}
	}
	return nil
}

// storedShares reads the shares of all accounts that do not have the default.
func (s *Store) storedShares(r kv.Reader) (map[string]int64, error) {
	rows, err := r.GetRange(s.Keys.Shares.Range(), kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	stored := map[string]int64{}
	for _, row := range rows {
		var account string
		if err := s.Keys.Shares.Scan(row.Key, &account); err != nil {
			return nil, fmt.Errorf("%w: shares %x: %w", jobs.ErrCorrupt, row.Key, err)
		}
		stored[account] = kv.Counter(row.Value)
	}
	return stored, nil
}

// Tune changes the half-life of priorities, if the clock of decay is still the one that the caller saw:
// another node may have been faster. If a coefficient was fixed by configuration meanwhile, its half-life
// is kept.
func (s *Store) Tune(tx kv.Tx, seen schedule.Decay, halfLife time.Duration, now instant.Time) error {
	o, err := s.Order(tx)
	if err != nil || o.Decay != seen {
		return err
	}
	if o.PriorityCoeff != 0 {
		halfLife = o.HalfLife(0, 0)
	}
	s.Keys.setOrder(tx, o.Retimed(now, halfLife))
	return nil
}

// EndRound begins the next round, unless another node was faster (see schedule.Round). Jobs of an earlier epoch
// go first anyway.
func (s *Store) EndRound(tx kv.Tx, seen schedule.Round, now instant.Time) error {
	o, err := s.Order(tx)
	if err != nil || o.Round != seen {
		return err
	}
	var ends [2]int64
	for i := range ends {
		head, err := s.Jobs.Head(tx.Snapshot(), 1, i == 1)
		if err != nil || len(head) == 0 {
			return err
		}
		place, err := placeOf(head[0])
		if err != nil {
			return err
		}
		if place.Epoch == o.Epoch {
			ends[i] = place.Key
		}
	}
	o.Round = o.NextRound(now, ends[0], ends[1])
	s.Keys.setOrder(tx, o)
	return nil
}

// fastClock is how far ahead of the clock a place in the queue must lie for a clock to have been wrong that gave it.
// The clocks of nodes differ by less as a rule. Where they differ by more, jobs change places in the queue, no more.
const fastClock = 10 * time.Minute

// outrun begins another epoch if the policy orders jobs by time, and the last job in the queue has a time to come,
// which a clock gave that was ahead. The job would wait until then, behind all jobs that come. In a new epoch the jobs
// that wait now go before those that come, in their order.
func outrun(s *Store, tx kv.Tx, now instant.Time) error {
	o, err := s.Order(tx.Snapshot())
	if err != nil || o.Needs() != schedule.NeedsTime {
		return err
	}
	last, err := s.Jobs.Head(tx.Snapshot(), 1, true)
	if err != nil || len(last) == 0 {
		return err
	}
	place, err := placeOf(last[0])
	if err != nil || place.Epoch != o.Epoch || instant.Time(place.Key) <= now.Add(fastClock) {
		return nil // a row of which no place can be read must not end all sweeps; a check tells of it
	}
	if o, err = s.Order(tx); err != nil { // which other changes of the order conflict with
		return err
	}
	o.Epoch++
	s.Keys.setOrder(tx, o)
	return nil
}
