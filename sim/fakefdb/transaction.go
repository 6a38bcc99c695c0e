package fakefdb

import (
	"context"
	"errors"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"
)

// transaction is a kv.Transaction. Its Buffer has the own writes and the conflict ranges.
type transaction struct {
	*ryw.Buffer
	db      *Database
	ctx     context.Context
	options kv.Options
	number  uint64
	attempt int
	version int64 // read version, 0 until there is one
	refused error // why there is none: the client asks once in an attempt
	stamp   *[10]byte
	watches []*watch // those that take effect with the commit
	ended   error    // why there are no further attempts; nil while there may be
	misread misread
	trips   trips
}

// op asks the world about an operation and sits out outages.
func (t *transaction) op(o Op) (Outcome, error) {
	o.Tx, o.Attempt, o.Options = t.number, t.attempt, t.options
	for {
		out := t.db.world.Decide(o)
		if out.Fault != Outage {
			return out, nil
		}
		if err := t.db.world.Sleep(t.ctx, out.Before); err != nil {
			return out, err
		}
	}
}

// request begins an operation and waits until the moment at which it takes effect.
func (t *transaction) request(o Op) (Outcome, error) {
	if err := t.ctx.Err(); err != nil {
		return Outcome{}, err
	}
	out, err := t.op(o)
	if err != nil || out.AtOnce {
		return out, err
	}
	if err := t.db.world.Sleep(t.ctx, out.Before); err != nil {
		return out, err
	}
	return out, nil
}

// answer waits until the answer to a request arrives, and returns the error that it brings.
func (t *transaction) answer(out Outcome) error {
	if out.After > 0 {
		if err := t.db.world.Sleep(t.ctx, out.After); err != nil {
			return err
		}
	}
	if code := out.Fault.code(); code != 0 {
		return kv.NewError(code)
	}
	return nil
}

// ReadVersion is kv.Tx's.
func (t *transaction) ReadVersion() (int64, error) {
	if t.ended != nil {
		return 0, t.ended
	}
	return t.version, t.Lose(t.begin())
}

// SetReadVersion sets the read version of an attempt that has not read yet, as FoundationDB's clients can.
// version must have been a read version or the version of a commit.
func (t *transaction) SetReadVersion(version int64) { t.version = version }

// begin makes sure that there is a read version.
func (t *transaction) begin() error {
	if t.version > 0 || t.refused != nil {
		return t.refused
	}
	t.db.mu.Lock()
	limbo, floor := len(t.db.limbo) > 0, t.db.known
	t.db.mu.Unlock()
	out, err := t.request(Op{Kind: ReadVersion, Limbo: limbo})
	if err != nil {
		return err
	}
	version := t.db.readVersion(out, floor)
	if t.refused = t.answer(out); t.refused == nil {
		t.version = version
	}
	return t.refused
}

// readVersion chooses a read version for a request that was made when known was floor.
func (db *Database) readVersion(out Outcome, floor int64) int64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	version := db.present()
	if out.Fault == StaleReadVersion {
		var open []int64 // the versions that may be left out
		for _, v := range db.limbo {
			if v > floor {
				open = append(open, v)
			}
		}
		if n := uint64(len(open)); n > 0 {
			version = open[out.Pick%n] - 1
		}
	}
	if out.Fault.code() == 0 {
		db.stats.Attempts++
		db.last = max(db.last, version)
		db.known = max(db.known, version)
	}
	return version
}

// source is the snapshot of a transaction.
type source transaction

func (s *source) KnownVersion() int64 { return s.version }

// Values is ryw.Source's.
func (s *source) Values(keys, values [][]byte) error {
	s.trips.take(keys)
	return (*transaction)(s).read(keys[0], func(db *Database, version int64) {
		for i, key := range keys {
			values[i] = db.data.get(key, version)
			db.stats.BytesRead += uint64(len(values[i]))
		}
	})
}

// Scan is ryw.Source's.
func (s *source) Scan(r kv.Range, reverse bool, yield func(key, value []byte) bool) error {
	s.trips.take(nil, r)
	return (*transaction)(s).read(r.Begin, func(db *Database, version int64) {
		db.data.scan(r, version, reverse, func(key, value []byte) bool {
			db.stats.BytesRead += uint64(len(key) + len(value))
			return yield(key, value)
		})
	})
}

// read is one round trip. It calls f at the moment at which the read takes effect.
func (t *transaction) read(key []byte, f func(db *Database, version int64)) error {
	if err := t.begin(); err != nil {
		return err
	}
	out, err := t.request(Op{Kind: Read, Key: key})
	if err != nil {
		return err
	}
	db := t.db
	db.mu.Lock()
	db.stats.Reads++
	tooOld := t.version < db.present()-window
	if tooOld {
		db.stats.TooOld++
	} else if out.Fault.code() == 0 {
		f(db, t.version)
		t.misread.next, t.misread.pick = out.Fault == Misread, out.Pick
	}
	db.mu.Unlock()
	if tooOld {
		return kv.NewError(kv.TransactionTooOld)
	}
	return t.answer(out)
}

// Back-off of FoundationDB's client: it doubles from the first to the last, but is constant for errors that
// only ask for a newer read version.
const (
	firstBackOff  = 10 * time.Millisecond
	lastBackOff   = time.Second
	refreshPeriod = 10 * time.Millisecond
)

// OnError is kv.Transaction's.
func (t *transaction) OnError(err error) error {
	switch {
	case t.ended != nil:
		return t.ended
	case !kv.Retryable(err):
		t.misread.end(t.db, err)
		t.end(err)
		return err
	}
	wait, code := refreshPeriod, kv.CodeOf(err)
	if code != kv.TransactionTooOld && code != kv.FutureVersion {
		wait = min(firstBackOff<<min(t.attempt-1, 10), lastBackOff)
	}
	if err := t.backOff(wait, code); err != nil {
		t.end(err)
		return err
	}
	t.dropWatches()
	t.Reset()
	t.attempt++
	t.version, t.refused, t.stamp, t.misread, t.trips = 0, nil, nil, misread{}, trips{}
	return nil
}

func (t *transaction) backOff(wait time.Duration, code kv.Code) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	out := t.db.world.Decide(Op{Kind: BackOff, Tx: t.number, Attempt: t.attempt, Options: t.options, Wait: wait,
		Code: code})
	return t.db.world.Sleep(t.ctx, out.Before+out.After)
}

// Cancel is kv.Transaction's.
func (t *transaction) Cancel() { t.end(errCancelled) }

var errCancelled = kv.NewError(kv.TransactionCancelled)

func (t *transaction) end(err error) {
	if t.ended == nil {
		t.ended = err
		t.Fail(err)
		t.dropWatches()
	}
}

// errNoVersion is the error of Versionstamp before a commit, and after one without writes.
var errNoVersion = errors.New("transaction has no versionstamp: it committed no writes")

// Versionstamp is kv.Transaction's.
func (t *transaction) Versionstamp() ([10]byte, error) {
	if t.stamp == nil {
		return [10]byte{}, errNoVersion
	}
	return *t.stamp, nil
}
