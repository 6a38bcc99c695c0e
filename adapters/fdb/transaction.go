//go:build fdb

package fdb

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"couchrelay/core/kv"

	client "github.com/apple/foundationdb/bindings/go/src/fdb"
)

// transaction is a kv.Transaction. It is for one goroutine; only the end of ctx reaches into it from another,
// by the client's own Cancel.
type transaction struct {
	db      *Database
	ctx     context.Context // ends all waits, and with them the transaction
	options kv.Options
	client  client.Transaction

	// The state of the present attempt, which OnError resets.
	version  int64                  // read version, 0 until it is known
	wrote    bool                   // there are writes or write conflicts, so the commit is sent to the cluster
	stamping bool                   // a write has a versionstamp, whose keys cannot be read
	fault    error                  // of an operation without a result; the next one with a result returns it
	lost     error                  // of the first operation that failed; the commit returns it
	over     bool                   // Commit was called: the attempt takes no more operations
	proof    client.FutureByteSlice // value of the key that Database.Expect names, nil if nothing was written
	stamp    client.FutureKey       // the versionstamp, asked for just before the commit; nil if nothing was written

	ended error // why there are no further attempts; nil as long as there may be some
}

// leastSizeLimit is the least that the client takes as a size limit, in bytes.
const leastSizeLimit = 32

// prepare sets the options of an attempt. The client forgets them whenever OnError starts the next one.
func (t *transaction) prepare() {
	o := t.client.Options()
	var errs []error
	if t.options.Priority == kv.PriorityBatch {
		errs = append(errs, o.SetPriorityBatch())
	}
	if t.options.Tag != "" {
		errs = append(errs, o.SetTag(t.options.Tag))
	}
	if t.options.SizeLimit > 0 {
		errs = append(errs, o.SetSizeLimit(int64(min(max(t.options.SizeLimit, leastSizeLimit), kv.MaxTxSize))))
	}
	if t.options.Stale {
		// Such a version is not learned again (see begin): asked for just now, it would count as new, and a
		// series of stale transactions would keep one version for ever.
		if t.version = t.db.versions.known(t.db.Clock.Now()); t.version > 0 {
			t.client.SetReadVersion(t.version)
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.fault = wrap(err)
	}
}

// check returns the error by which an operation fails without asking the client, nil if it may ask.
func (t *transaction) check() error {
	switch {
	case t.ended != nil:
		return t.ended
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case t.over:
		return kv.NewError(kv.UsedDuringCommit)
	}
	return t.fault
}

// open reports whether the attempt takes more writes. Writes have no result of their own: one that is not
// taken is dropped, and the next read or the commit returns the reason.
func (t *transaction) open() bool { return t.ended == nil && !t.over && t.fault == nil }

// writes is open for operations that the commit has to send, and notes that there is one.
func (t *transaction) writes() bool {
	if !t.open() {
		return false
	}
	if e := t.db.expected.Load(); e != nil && !t.wrote {
		t.proof = t.client.Get(client.Key(e.Key)) // now, so that the commit need not wait for it
	}
	t.wrote = true
	return true
}

// wait waits until a future is ready. When the context ends it cancels the future and the whole transaction,
// so the future is ready with an error; result turns that into the context's. The future has to be cancelled
// by itself as well: before the client has found a cluster, cancelling the transaction does not reach it.
func (t *transaction) wait(f client.Future) {
	if f.IsReady() {
		return
	}
	stop := context.AfterFunc(t.ctx, func() {
		f.Cancel()
		t.client.Cancel()
	})
	f.BlockUntilReady()
	stop()
}

// result returns the error of an operation for the client's one, and has the attempt fail with the first of
// them. If the context has ended, the operation failed for that reason, whatever the client says; an outage is
// named as well.
func (t *transaction) result(err error) error {
	if err == nil {
		return nil
	}
	err = wrap(err)
	if ended := t.ctx.Err(); ended != nil {
		err = ended
		if away := t.db.Err(); away != nil {
			err = fmt.Errorf("%w: %w", ended, away)
		}
	}
	t.lost = cmp.Or(t.lost, err)
	return err
}

// wrap turns an error of the bindings into one of the store.
func wrap(err error) error {
	var e client.Error
	if errors.As(err, &e) {
		return storeError(kv.Code(e.Code))
	}
	return err
}

// ReadVersion is kv.Tx's.
func (t *transaction) ReadVersion() (int64, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	return t.begin()
}

// begin returns the read version, which it asks for if this attempt has none yet.
func (t *transaction) begin() (int64, error) {
	if t.version > 0 {
		return t.version, nil
	}
	asked := t.db.Clock.Now()
	f := t.client.GetReadVersion()
	t.wait(f)
	version, err := f.Get()
	if err != nil {
		return 0, t.result(err)
	}
	t.version = version
	t.db.versions.learn(version, asked)
	return version, nil
}

// Set is kv.Tx's.
func (t *transaction) Set(key, value []byte) {
	if t.writes() {
		t.client.Set(client.Key(key), value)
	}
}

// Clear is kv.Tx's.
func (t *transaction) Clear(key []byte) {
	if t.writes() {
		t.client.Clear(client.Key(key))
	}
}

// ClearRange is kv.Tx's.
func (t *transaction) ClearRange(r kv.Range) {
	if t.writes() {
		t.client.ClearRange(keyRange(r))
	}
}

// Add is kv.Tx's.
func (t *transaction) Add(key []byte, delta int64) {
	if t.writes() {
		t.client.Add(client.Key(key), binary.LittleEndian.AppendUint64(nil, uint64(delta)))
	}
}

// Max is kv.Tx's.
func (t *transaction) Max(key []byte, v uint64) {
	if t.writes() {
		t.client.Max(client.Key(key), binary.LittleEndian.AppendUint64(nil, v))
	}
}

// SetVersionstampedKey is kv.Tx's.
func (t *transaction) SetVersionstampedKey(key, value []byte) {
	if t.writes() {
		t.stamping = true
		t.client.SetVersionstampedKey(client.Key(key), value)
	}
}

// SetVersionstampedValue is kv.Tx's.
func (t *transaction) SetVersionstampedValue(key, value []byte) {
	if t.writes() {
		t.stamping = true
		t.client.SetVersionstampedValue(client.Key(key), value)
	}
}

// AddReadConflict is kv.Tx's.
func (t *transaction) AddReadConflict(r kv.Range) {
	if t.open() {
		t.fault = wrap(t.client.AddReadConflictRange(keyRange(r)))
	}
}

// AddWriteConflict is kv.Tx's.
func (t *transaction) AddWriteConflict(r kv.Range) {
	if t.writes() {
		t.fault = wrap(t.client.AddWriteConflictRange(keyRange(r)))
	}
}

func keyRange(r kv.Range) client.KeyRange {
	return client.KeyRange{Begin: client.Key(r.Begin), End: client.Key(r.End)}
}

// Commit is kv.Transaction's. An error may leave it open whether the commit happened; the package comment
// says which.
func (t *transaction) Commit() error {
	err := t.check()
	if err == nil || err == t.fault {
		err = cmp.Or(t.lost, err) // the client lets some of them pass, such as those of keys that are not legal
	}
	if err == nil && t.proof != nil {
		t.wait(t.proof)
		var value []byte
		if value, err = t.proof.Get(); err != nil {
			return t.result(err)
		}
		err = t.db.prove(value)
	}
	if err != nil {
		return err
	}
	t.over = true
	if t.wrote {
		t.stamp = t.client.GetVersionstamp() // the client refuses it after the commit
	}
	asked := t.db.Clock.Now()
	f := t.client.Commit()
	t.wait(f)
	if err := f.Get(); err != nil {
		return t.result(err)
	}
	if version, err := t.client.GetCommittedVersion(); err == nil && version > 0 {
		t.db.versions.learn(version, asked)
	}
	return nil
}

// errNoVersion is the error of Versionstamp before a commit and after one without writes.
var errNoVersion = errors.New("transaction has no versionstamp: it committed no writes")

// Versionstamp is kv.Transaction's.
func (t *transaction) Versionstamp() (stamp [10]byte, err error) {
	if t.stamp == nil {
		return stamp, errNoVersion
	}
	t.wait(t.stamp)
	key, err := t.stamp.Get()
	if err != nil {
		return stamp, fmt.Errorf("%w (%w)", errNoVersion, wrap(err))
	}
	if len(key) != len(stamp) {
		return stamp, fmt.Errorf("FoundationDB's client gave a versionstamp of %d bytes", len(key))
	}
	copy(stamp[:], key)
	return stamp, nil
}

// OnError is kv.Transaction's. The client decides how long to back off, and makes the next attempt conflict
// with nothing of this one: all of it is forgotten here and there.
func (t *transaction) OnError(err error) error {
	switch {
	case t.ended != nil:
		return t.ended
	case !kv.Retryable(err):
		t.end(err)
		return err
	case t.ctx.Err() != nil:
		t.end(t.ctx.Err())
		return t.ctx.Err()
	}
	f := t.client.OnError(client.Error{Code: int(kv.CodeOf(err))})
	t.wait(f)
	if err := f.Get(); err != nil {
		err = t.result(err)
		t.end(err)
		return err
	}
	t.version, t.wrote, t.stamping, t.over = 0, false, false, false
	t.fault, t.lost, t.proof, t.stamp = nil, nil, nil, nil
	t.options.Stale = false // or it might meet the same conflict again
	t.prepare()
	return nil
}

// Cancel is kv.Transaction's.
func (t *transaction) Cancel() { t.end(storeError(kv.TransactionCancelled)) }

// end makes err the result of all further calls. It frees the client's memory for the transaction at once:
// that may be as large as its writes, and Go's garbage collector, which cannot see it, would free it much
// later.
func (t *transaction) end(err error) {
	if t.ended == nil {
		t.ended = err
		t.client.Reset()
	}
}
