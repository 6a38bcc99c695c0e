package jobstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/schedule"
)

// Jobs belong to accounts, which have shares: the jobs of documents to the account of their replicator
// database, the jobs of requests to the account of their user.

// userAccount begins the names of users' accounts. No database has a colon in its name, so that no user can
// have a database's shares by being called like it.
const userAccount = "user:"

// IsAccount reports whether a name is an account's: a replicator database's, or "user:NAME" for the
// requests of a user, and "user:" for requests without one.
func IsAccount(name string) bool {
	return IsReplicatorDB(name) || strings.HasPrefix(name, userAccount)
}

// Account is the account of the job.
func (r *Record) Account() string {
	if r.Transient() {
		return userAccount + r.User
	}
	return r.Database
}

// Charge stores what jobs used. The store keeps the greatest number that it is given for an account,
// interval and worker, and a worker's numbers only grow, so charges may land twice, late or in any order.
// Charges that are too old to count are removed, and so are those of intervals far ahead, which a wrong
// clock has made.
func (s *Store) Charge(tx kv.Tx, charges []schedule.Charge, now instant.Time) error {
	order, err := s.Order(tx.Snapshot())
	if err != nil {
		return err
	}
	memory := order.Forgetting.Memory()
	for i, c := range charges {
		if i == 0 || c.Account != charges[i-1].Account {
			used := s.Keys.Usage.Sub(c.Account)
			old, ahead := used.Range(), used.Range()
			old.End = used.Pack(int64(now.Add(-memory)))
			ahead.Begin = used.Pack(int64(now.Add(memory)))
			tx.ClearRange(old)
			tx.ClearRange(ahead)
		}
		invariant.Check(c.Used >= 0, usedTime, int(c.Used))
		tx.Max(s.Keys.Usage.Pack(c.Account, int64(c.At), c.Worker), uint64(c.Used))
	}
	return nil
}

// ChargeRow decodes a row of the usage of an account; ok is false for other rows. A cleared row has a nil
// value.
func (s *Store) ChargeRow(key, value []byte) (c schedule.Charge, ok bool) {
	var account, worker string
	var at int64
	if s.Keys.Usage.Scan(key, &account, &at, &worker) != nil {
		return c, false
	}
	return schedule.Charge{Account: account, At: instant.Time(at), Worker: worker, Used: kv.Counter(value)}, true
}

// Charges returns all charges that the store has of an account, in the order of their times.
func (s *Store) Charges(r kv.Reader, account string) ([]schedule.Charge, error) {
	space, at := s.Keys.Usage.Sub(account), int64(0)
	rows, err := r.GetRange(space.Range(), kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	list := make([]schedule.Charge, len(rows))
	for i, row := range rows {
		c := &list[i]
		if err := space.Scan(row.Key, &at, &c.Worker); err != nil {
			return nil, fmt.Errorf("%w: usage row %x", jobs.ErrCorrupt, row.Key)
		}
		c.Account, c.At, c.Used = account, instant.Time(at), kv.Counter(row.Value)
	}
	return list, nil
}

// Accounts reads the shares, jobs and use of accounts, in the order of their names in names. Give a
// snapshot reader, or every charge conflicts, and not too many names: where usage is needed, the charges of each
// are read one after the other.
func (s *Store) Accounts(
	r kv.Reader, names []string, o schedule.Order, now instant.Time,
) ([]schedule.Account, error) {
	keys, floor := make([][]byte, 0, 4*len(names)), int64(0)
	for _, name := range names {
		k := s.Keys
		keys = append(keys, k.Shares.Pack(name), k.Count.Pack(name), k.Weights.Pack(name), k.Tail.Pack(name))
	}
	values, err := r.GetAll(keys)
	if err == nil && o.Needs() == schedule.NeedsTail && len(names) > 0 {
		floor, err = s.floor(r, o)
	}
	if err != nil {
		return nil, err
	}
	list := make([]schedule.Account, len(names))
	for i, name := range names {
		a, row := &list[i], values[4*i:]
		a.Shares, a.Jobs, a.Excess = sharesOf(row[0]), kv.Counter(row[1]), kv.Counter(row[2])
		invariant.Check(a.Jobs >= 0, countsJobs, int(a.Jobs))
		switch o.Needs() {
		case schedule.NeedsUsage:
			charges, err := s.Charges(r, name)
			if err != nil {
				return nil, err
			}
			a.Usage = o.Forgetting.Usage(charges, now)
		case schedule.NeedsTail:
			a.Tail, a.Floor = o.Tail(kv.Counter(row[3]), floor), o.Floor(floor)
		}
	}
	return list, nil
}

func sharesOf(row []byte) int64 {
	if row == nil {
		return schedule.DefaultShares
	}
	return kv.Counter(row)
}

// Turn is how a run counts against its account when it ends.
type Turn = schedule.Turn

// enter counts a new job and finds its place.
func (s *Store) enter(tx kv.Tx, rec *Record, now instant.Time) (schedule.Place, error) {
	account := rec.Account()
	order, err := s.Order(tx.Snapshot())
	if err != nil {
		return schedule.Place{}, err
	}
	list, err := s.Accounts(tx.Snapshot(), []string{account}, order, now)
	if err != nil {
		return schedule.Place{}, err
	}
	a := list[0]
	a.Jobs, a.Excess, a.Weight = a.Jobs+1, a.Excess+rec.excess(), rec.Weight
	s.Keys.count(tx, rec, 1)
	if order.Needs() != schedule.NeedsTail {
		place, _ := order.Enter(now, a)
		return place, nil
	}
	payer, err := s.payer(tx, account, order)
	if err != nil {
		return schedule.Place{}, err
	}
	payer.Weight = rec.Weight
	place, after := order.Enter(now, payer)
	s.Keys.setTail(tx, after)
	return place, nil
}

// leave takes a job that is over, or removed before it was, out of its account's number of jobs. The caller
// has read the job, so that a repetition conflicts or finds nothing to do: the addition itself conflicts
// with nothing and is not idempotent.
func (s *Store) leave(tx kv.Tx, rec *Record) { s.Keys.count(tx, rec, -1) }

// count adds a job to the numbers of its account, or takes it out.
func (k Keys) count(tx kv.Tx, rec *Record, n int64) {
	tx.Add(k.Count.Pack(rec.Account()), n)
	k.addWeight(tx, rec, n*rec.excess())
}

func (k Keys) addWeight(tx kv.Tx, rec *Record, excess int64) {
	if excess != 0 {
		tx.Add(k.Weights.Pack(rec.Account()), excess)
	}
}

// excess is by how much the weight of the job exceeds the default.
func (r *Record) excess() int64 {
	if r.Weight == 0 {
		return 0
	}
	return r.Weight - schedule.DefaultWeight
}

// reweigh gives a job that is not over another weight, from its next turn on. The caller stores the record.
func (k Keys) reweigh(tx kv.Tx, j *jobs.Job, rec *Record, weight int64) {
	before := rec.excess()
	rec.Weight = weight
	if counted(j) {
		k.addWeight(tx, rec, rec.excess()-before)
	}
}

// counted reports whether a job that is not over is one of the numbers of its account.
func counted(j *jobs.Job) bool { return j.Lot == "" || j.State == jobs.Running }

// Demand is an account with its number of jobs that are not over.
type Demand struct {
	Account string
	Jobs    int64
}

// demandPages is how many times as many accounts Demands looks at as it tells: an account that had jobs keeps its row
// for a while.
const demandPages = 10

// Demands reads the demands of the first accounts, up to limit, in the order of their names, and how many jobs
// there are in all. It looks at a bounded number of accounts, and may tell none where many have no jobs. Give a
// snapshot reader: every new job writes a counter.
func Demands(r kv.Reader, s *Store, limit int) (list []Demand, total int64, err error) {
	c, err := s.Jobs.Counts(r)
	if err != nil {
		return nil, 0, err
	}
	at := s.Keys.Count.Range()
	for page := 0; page < demandPages && len(list) < limit; page++ {
		rows, err := r.GetRange(at, kv.RangeOptions{Limit: limit})
		if err != nil {
			return nil, 0, err
		}
		for _, row := range rows {
			d := Demand{Jobs: kv.Counter(row.Value)}
			if err := s.Keys.Count.Scan(row.Key, &d.Account); err != nil {
				return nil, 0, fmt.Errorf("%w: %w", jobs.ErrCorrupt, err)
			}
			if d.Jobs > 0 && len(list) < limit {
				list = append(list, d)
			}
		}
		if len(rows) < limit {
			break
		}
		at.Begin = kv.KeyAfter(rows[len(rows)-1].Key)
	}
	return list, c.Ready + c.Waiting + c.Running, nil
}

// settle charges a run's turn to its account, and returns the place of its job if that is queued again.
func (s *Store) settle(tx kv.Tx, rec *Record, t Turn, now instant.Time) (schedule.Place, error) {
	order, err := s.Order(tx.Snapshot())
	if err != nil {
		return schedule.Place{}, err
	}
	invariant.Check(t.Owed >= 0, owedTime, int(t.Owed))
	if !order.Pays(t) {
		place, _ := order.Settle(t, now, schedule.Account{})
		return place, nil
	}
	payer, err := s.payer(tx, rec.Account(), order)
	if err != nil {
		return schedule.Place{}, err
	}
	payer.Weight = rec.Weight
	place, after := order.Settle(t, now, payer)
	s.Keys.setTail(tx, after)
	return place, nil
}

// payer reads an account whose tail is to move on. The row of the tail is read so that two turns of the account
// that end at the same time conflict, and both count.
func (s *Store) payer(tx kv.Tx, account string, o schedule.Order) (a schedule.Account, err error) {
	floor, err := s.floor(tx.Snapshot(), o)
	if err != nil {
		return a, err
	}
	k := s.Keys
	rows, err := tx.Snapshot().GetAll([][]byte{k.Shares.Pack(account), k.Count.Pack(account), k.Weights.Pack(account)})
	if err != nil {
		return a, err
	}
	tail, err := tx.Get(k.Tail.Pack(account))
	return schedule.Account{
		Name: account, Shares: sharesOf(rows[0]), Jobs: kv.Counter(rows[1]), Excess: kv.Counter(rows[2]),
		Tail: o.Tail(kv.Counter(tail), floor), Floor: o.Floor(floor),
	}, err
}

// setTail stores the tail of an account that has paid, and where its tags began; see floor. Every turn that ends writes
// the latter, by an atomic maximum, which conflicts with nothing.
func (k Keys) setTail(tx kv.Tx, after schedule.Account) {
	invariant.Check(min(after.Tail, after.Floor) >= 0, validTag, int(min(after.Tail, after.Floor)))
	tx.Set(k.Tail.Pack(after.Name), encodeNumber(after.Tail))
	tx.Max(k.Floor, uint64(after.Floor))
}

// floor is the least tag that is given out; see schedule.Order.Tail. It is never less than it was for an account that
// has paid: a job that comes back into the queue with the tag of long ago is the first one that waits. Give a snapshot
// reader.
func (s *Store) floor(r kv.Reader, o schedule.Order) (int64, error) {
	head, err := s.Jobs.Head(r, 1, false)
	if err != nil {
		return 0, err
	}
	first, err := placesOf(head)
	if err != nil {
		return 0, err
	}
	rows, err := r.GetAll([][]byte{s.Keys.Floor, s.Keys.Virtual})
	if err != nil {
		return 0, err
	}
	begins := kv.Counter(rows[1])
	if len(first) > 0 && first[0].Epoch == o.Epoch {
		begins = first[0].Key
	}
	return max(begins, kv.Counter(rows[0])), nil
}

// dispatched notes the tags of jobs that got slots, by an atomic maximum, which conflicts with nothing; see
// floor.
func (s *Store) dispatched(tx kv.Tx, accepted []Work) error {
	order, err := s.Order(tx.Snapshot())
	if err != nil || order.Needs() != schedule.NeedsTail {
		return err
	}
	for i := range accepted {
		if place := accepted[i].Place; place.Epoch == order.Epoch {
			invariant.Check(place.Key >= 0, validTag, int(place.Key))
			tx.Max(s.Keys.Virtual, uint64(place.Key))
		}
	}
	return nil
}

// Ready reads the places of the first n ready jobs, but for those of deleted databases and those in without, as Accept
// finds them; see jobs.Keys.First.
func (s *Store) Ready(
	r kv.Reader, n int, behind string, without ...string,
) (list []schedule.Place, passed string, err error) {
	dropped, err := s.Keys.DroppedDBs(r)
	if err != nil {
		return nil, "", err
	}
	t := taking{dropped: dropped, without: without}
	head, passed, err := s.Keys.Jobs.First(r, n, behind, t.Passes)
	if err != nil {
		return nil, "", err
	}
	list, err = placesOf(head)
	return list, passed, err
}

func placesOf(head [][]byte) ([]schedule.Place, error) {
	places := make([]schedule.Place, 0, len(head))
	for _, priority := range head {
		p, err := placeOf(priority)
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, nil
}

// priority orders ready jobs: by their places, and within one in the order in which they were made.
func (r *Record) priority(p schedule.Place) []byte {
	return tuple.Pack(p.Epoch, p.Key, int64(r.Created))
}

// PlaceOf is the place that a job has in the queue, or that it had and will come back to.
func PlaceOf(j *jobs.Job) (schedule.Place, error) { return placeOf(j.Priority) }

func placeOf(priority []byte) (p schedule.Place, err error) {
	var created int64
	if err := tuple.Subspace(nil).Scan(priority, &p.Epoch, &p.Key, &created); err != nil {
		return p, fmt.Errorf("%w: priority %x: %w", jobs.ErrCorrupt, priority, err)
	}
	return p, nil
}

func encodeNumber(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

// auditAccounts checks that the counters of accounts' jobs equal what they count.
func auditAccounts(r kv.Reader, s *Store) error {
	list, err := s.Jobs.List(r, jobs.Page{Limit: 1 << 30})
	if err != nil {
		return err
	}
	counts, weights := map[string]int64{}, map[string]int64{}
	for _, j := range list {
		rec, err := decodeRecord(j)
		if err != nil {
			return err
		}
		if !rec.State.Terminal() && counted(j) {
			counts[rec.Account()]++
			weights[rec.Account()] += rec.excess()
		}
		if err := auditWaiting(s, r, j.ID, rec); err != nil {
			return err
		}
	}
	return errors.Join(auditNumbers(r, s.Keys.Count, counts), auditNumbers(r, s.Keys.Weights, weights))
}

// auditNumbers compares rows of numbers by account with what they should be.
func auditNumbers(r kv.Reader, space tuple.Subspace, want map[string]int64) error {
	rows, err := r.GetRange(space.Range(), kv.RangeOptions{})
	if err != nil {
		return err
	}
	for _, row := range rows {
		var account string
		if err := space.Scan(row.Key, &account); err != nil {
			return fmt.Errorf("%w: %w", jobs.ErrCorrupt, err)
		}
		if n := kv.Counter(row.Value); n != want[account] {
			return fmt.Errorf("%w: account %q: %d, and its jobs say %d", jobs.ErrCorrupt, account, n, want[account])
		}
		delete(want, account)
	}
	maps.DeleteFunc(want, func(_ string, n int64) bool { return n == 0 })
	if len(want) > 0 {
		return fmt.Errorf("%w: accounts without a row: %v", jobs.ErrCorrupt, want)
	}
	return nil
}

// auditWaiting checks that a job which waits for another one will be looked for when that is over.
func auditWaiting(s *Store, r kv.Reader, jobID string, rec *Record) error {
	if rec.WaitsFor == "" {
		return nil
	}
	owner, err := s.JobOf(r, rec.WaitsFor)
	if err != nil {
		return err
	}
	other, err := s.Record(r, owner)
	if err != nil {
		return err
	}
	free, err := r.Get(s.Keys.Lifted.Pack(lotBehind + rec.WaitsFor))
	if err != nil || free != nil {
		return err
	}
	if other == nil || owner == jobID || other.State.Terminal() || other.RepID != rec.WaitsFor || !other.Awaited {
		return fmt.Errorf("%w: job %q waits for %s, and %q will not wake it",
			jobs.ErrCorrupt, jobID, rec.WaitsFor, owner)
	}
	return nil
}
