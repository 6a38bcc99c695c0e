package jobs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"couchrelay/core/kv"
)

// Lease is a worker as others see it.
type Lease struct {
	Worker string
	// Beat is the versionstamp of the last heartbeat. It is compared for change only.
	Beat [10]byte
	// Expired marks a lease whose jobs are being given away.
	Expired bool
	// Timeout is how long the worker may be silent before its jobs are given to others: that of the job type
	// when the worker registered, 0 if it has none.
	Timeout time.Duration
	// Info is what the worker tells about itself, as of Beat. The queue does not look into it.
	Info []byte
}

// Values of a worker row. A lease goes from live to expired to no row. The expired state is needed since
// giving back many jobs takes several transactions: from the first one on the worker must not accept or
// send heartbeats.
const (
	leaseLive    = 'L'
	leaseExpired = 'X'
)

// encodeLive is the row of a live worker. Without a timeout it is as earlier releases wrote it.
func encodeLive(timeout time.Duration) []byte {
	row := []byte{leaseLive}
	if timeout == 0 {
		return row
	}
	return binary.LittleEndian.AppendUint64(row, uint64(timeout.Microseconds()))
}

// Register makes a worker known under a name that no process used before. info is what others see of it. A
// repetition finds the lease there and does no harm.
func (q *Queue) Register(tx kv.Tx, worker string, info []byte) error {
	row, err := tx.Get(q.Keys.Worker.Pack(worker))
	if err != nil {
		return err
	}
	if len(row) > 0 && row[0] == leaseExpired {
		return fmt.Errorf("worker %q: %w", worker, ErrLeaseLost)
	}
	tx.Set(q.Keys.Worker.Pack(worker), encodeLive(q.Timeout))
	q.stamp(tx, worker, info)
	return nil
}

// Heartbeat shows that the worker lives, for all its jobs at once, and returns its call counter: if it
// differs from the last one that the worker saw, a job was taken away, and Owned lists those that are left.
// It reads the lease so that it conflicts with Expire: of a heartbeat and a monitor's expiry at the same
// time only one commits. It fails with ErrLeaseLost when the worker was expired.
func (q *Queue) Heartbeat(tx kv.Tx, worker string, info []byte) (calls int64, err error) {
	if err := q.Keys.CheckLease(tx, worker); err != nil {
		return 0, err
	}
	q.stamp(tx, worker, info)
	return q.Calls(tx.Snapshot(), worker)
}

// Calls reads the call counter of a worker, which Remove raises when it takes a running job away, and Stop.
func (q *Queue) Calls(r kv.Reader, worker string) (int64, error) {
	b, err := r.Get(q.Keys.Call.Pack(worker))
	return kv.Counter(b), err
}

// stamp writes the beat row: the commit's versionstamp and info. It conflicts with other heartbeats, so
// that one that lands late does not bring old info back.
func (q *Queue) stamp(tx kv.Tx, worker string, info []byte) {
	key := q.Keys.Beat.Pack(worker)
	tx.AddReadConflict(kv.KeyRange(key))
	value := append(make([]byte, 10, 14+len(info)), info...)
	tx.SetVersionstampedValue(key, append(value, 0, 0, 0, 0)) // the stamp's offset
}

// CheckLease fails with ErrLeaseLost unless the lease is live. In a transaction the read conflicts with whoever
// expires the worker.
func (k Keys) CheckLease(r kv.Reader, worker string) error {
	row, err := r.Get(k.Worker.Pack(worker))
	if err != nil {
		return err
	}
	if len(row) == 0 || row[0] != leaseLive {
		return fmt.Errorf("worker %q: %w", worker, ErrLeaseLost)
	}
	return nil
}

// Held is a running job with the lock that holds it.
type Held struct {
	ID   string
	Lock Lock
	Stop bool // the worker is asked to stop the run in order; see Queue.Stop
}

// Owned lists the jobs that the worker holds. It fails with an UnreadableError if the row of a job cannot be read. Of
// the jobs in without it does not look at whether they are to be stopped.
func (q *Queue) Owned(r kv.Reader, worker string, without ...string) ([]Held, error) {
	rows, err := r.GetRange(q.Keys.Owned.Sub(worker).Range(), kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	return q.Keys.heldOf(rows, without)
}

// heldOf reads owned rows; of those of the jobs in without it reads the keys alone.
func (k Keys) heldOf(rows []kv.KeyValue, without []string) ([]Held, error) {
	list := make([]Held, 0, len(rows))
	for _, row := range rows {
		lock, id, err := k.scanOwned(row.Key)
		if err != nil {
			return nil, err
		}
		stop := string(row.Value) == stopMark
		if !stop && len(row.Value) > 0 && !slices.Contains(without, id) {
			return nil, OfJob(id, corruptf("owned row of job %q", id))
		}
		list = append(list, Held{ID: id, Lock: lock, Stop: stop})
	}
	return list, nil
}

func (k Keys) scanOwned(key []byte) (lock Lock, id string, err error) {
	if err := k.Owned.Scan(key, &lock.Worker, &lock.Batch, &id); err != nil {
		return lock, "", corrupt(err)
	}
	return lock, id, nil
}

// Leases lists all workers, in the order of their names.
func (q *Queue) Leases(r kv.Reader) ([]Lease, error) {
	rows, err := r.GetRange(q.Keys.Worker.Range(), kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	list := make([]Lease, len(rows))
	beats := make([][]byte, len(rows))
	for i, row := range rows {
		l := &list[i]
		if err := q.Keys.Worker.Scan(row.Key, &l.Worker); err != nil || len(row.Value) == 0 {
			return nil, corruptf("worker row %x", row.Key)
		}
		l.Expired = row.Value[0] == leaseExpired
		l.Timeout = time.Duration(kv.Counter(row.Value[1:])) * time.Microsecond
		beats[i] = q.Keys.Beat.Pack(l.Worker)
	}
	values, err := r.GetAll(beats)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		n := copy(list[i].Beat[:], v)
		list[i].Info = v[n:]
	}
	return list, nil
}

// expireKeys bounds the bytes of the ids in a worker's list that one transaction of Expire takes: it writes some twenty
// times as many, since ids, which may have 10 kB as all keys, are in many keys.
const expireKeys = 100_000

// Expire takes the jobs of a worker away and makes them ready again, up to limit in one transaction; done
// reports that none is left and the worker is forgotten. A monitor passes the beat that stood still for the
// activity timeout, and nothing happens if the worker has sent another one since: the beat is read so that
// it conflicts with a heartbeat that commits at the same time. Each job that is taken from such a worker counts
// it in Job.Lost. A worker that leaves, or gives its own lease up since its heartbeats do not get through, passes
// nil, and is not counted: otherwise a store that is away again and again would make every job look like one that
// brings its workers down.
//
// The first transaction marks the lease as expired; from then on nothing brings it back. The worker itself
// may still be running its jobs. It learns at its next heartbeat or accept, and whatever it writes for a
// job is fenced by the lock.
//
// It fails with an UnreadableError if a job cannot be read. The jobs in without stay as they are. While there are any,
// the lease stays, too, so that they can be given back once they can be read.
func (q *Queue) Expire(
	tx kv.Tx, worker string, beat *[10]byte, limit int, without ...string,
) (done bool, err error) {
	row, err := tx.Get(q.Keys.Worker.Pack(worker))
	if err != nil || len(row) == 0 {
		return err == nil, err
	}
	if row[0] == leaseLive {
		if beat != nil {
			now, err := tx.Get(q.Keys.Beat.Pack(worker))
			if err != nil {
				return false, err
			}
			if !bytes.HasPrefix(now, beat[:]) {
				// Reached: a worker that seemed silent shows a sign of life
				return true, nil
			}
		}
		tx.Set(q.Keys.Worker.Pack(worker), []byte{leaseExpired})
	}
	most := limit + 1 + len(without)
	rows, err := tx.GetRange(q.Keys.Owned.Sub(worker).Range(), kv.RangeOptions{Limit: most})
	if err != nil {
		return false, err
	}
	list, err := q.Keys.heldOf(rows, without)
	if err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, func(h Held) bool { return slices.Contains(without, h.ID) })
	left := len(rows) - len(list)
	var ids []string
	size := 0
	for _, h := range list[:min(len(list), limit)] {
		if size += len(h.ID); size > expireKeys {
			break
		}
		ids = append(ids, h.ID)
	}
	q.Keys.prefetchHeaders(tx, ids)
	for _, h := range list[:len(ids)] {
		if err := q.giveBack(tx, h, beat != nil); err != nil {
			return false, OfJob(h.ID, err)
		}
	}
	if len(list) > len(ids) {
		return false, nil
	}
	if left > 0 {
		// Reached: a vanished worker keeps jobs that cannot be read
		return true, nil
	}
	tx.Clear(q.Keys.Worker.Pack(worker))
	tx.Clear(q.Keys.Beat.Pack(worker))
	tx.Clear(q.Keys.Call.Pack(worker))
	return true, nil
}

// giveBack makes a job of a lost worker ready, or waiting if it was resubmitted for later. Its data stays
// as the worker left it. vanished says that the worker counts in Job.Lost.
func (q *Queue) giveBack(tx kv.Tx, h Held, vanished bool) error {
	old, err := q.header(tx, h.ID)
	if err != nil {
		return err
	}
	if old == nil || old.State != Running || old.Lock != h.Lock {
		return corruptf("owned row of job %q contradicts its header", h.ID)
	}
	to := *old
	to.State, to.Lock, to.Resubmit, to.Stop = Pending, Lock{}, false, false
	if vanished {
		to.Lost++
	}
	q.move(tx, old, &to)
	return nil
}
