//go:build fdb && fdbctest

package fdbctest

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"couchrelay/core/kv"
)

// transaction is an FDBTransaction. Its operations take place one after the other, in the order of the calls.
// Those that may wait do so on a goroutine of the transaction, which ends when its queue is empty.
type transaction struct {
	cluster *Cluster

	mu      sync.Mutex // guards the fields below; not held while an operation of the queue runs
	queue   []func()   // operations that wait for their turn
	busy    bool       // the goroutine runs
	options kv.Options // for attempts that have not begun
	attempt *attempt   // the present one
}

// attempt is the state of a transaction that a reset ends. transaction.mu guards it.
type attempt struct {
	ctx        context.Context
	cancel     context.CancelFunc // of ctx
	tx         kv.Transaction     // made at the first operation; nil before
	committed  kv.Transaction     // the one that has committed, nil before
	given      int64              // read version set by the caller, 0 for none
	committing bool               // Commit was called
	stamps     []*future          // wait for the versionstamp, which the commit gives them

	// What RoundTrips counts by; see trips.go.
	tag       string
	versioned bool // it has its read version
	known     known
	batch     int // of the reads that are asked for now; one more whenever the caller has waited for some
	paid      int // batches before it have taken the time that the way to the cluster takes
	near      atomic.Bool
}

func newTransaction(c *Cluster) *transaction {
	t := &transaction{cluster: c}
	t.attempt = newAttempt()
	return t
}

func newAttempt() *attempt {
	a := &attempt{}
	a.ctx, a.cancel = context.WithCancel(context.WithValue(context.Background(), distant{}, a))
	return a
}

// enqueue has f done after all operations before it. The caller holds the lock.
func (t *transaction) enqueue(f func()) {
	t.queue = append(t.queue, f)
	if !t.busy {
		t.busy = true
		go t.work()
	}
}

func (t *transaction) work() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) > 0 {
		f := t.queue[0]
		t.queue = t.queue[1:]
		t.mu.Unlock()
		f()
		t.mu.Lock()
	}
	t.busy = false
}

// do performs an operation that has no result and never waits.
func (t *transaction) do(f func(tx kv.Tx)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attempt
	t.begin(a)
	if t.busy {
		t.enqueue(func() { f(a.tx) })
	} else {
		f(a.tx)
	}
}

// ask performs an operation with a result.
func (t *transaction) ask(f func(tx kv.Transaction) (any, error)) *future {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.askLocked(f)
}

func (t *transaction) askLocked(f func(tx kv.Transaction) (any, error)) *future {
	a, answer := t.attempt, &future{}
	t.begin(a)
	t.enqueue(func() { answer.finish(f(a.tx)) })
	return answer
}

// begin makes the attempt's transaction at its first operation, with the options set by then.
func (t *transaction) begin(a *attempt) {
	if a.tx != nil {
		return
	}
	a.tx, a.tag = t.cluster.DB.Begin(a.ctx, t.options), t.options.Tag
	if a.given > 0 {
		a.tx.(interface{ SetReadVersion(int64) }).SetReadVersion(a.given)
		t.cluster.mu.Lock()
		t.cluster.given++
		t.cluster.mu.Unlock()
	}
}

// Options of the client that the double knows.
const (
	optionPriorityBatch = 201
	optionSizeLimit     = 503
	optionTag           = 800
)

func (t *transaction) setOption(option int, value []byte) kv.Code {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case option == optionPriorityBatch && len(value) == 0:
		t.options.Priority = kv.PriorityBatch
	case option == optionSizeLimit && len(value) == 8:
		limit := int64(binary.LittleEndian.Uint64(value))
		if limit < 32 || limit > kv.MaxTxSize {
			return 2006 // invalid_option_value
		}
		t.options.SizeLimit = int(limit)
	case option == optionTag && len(value) > 16:
		return 2110 // tag_too_long
	case option == optionTag:
		t.options.Tag = string(value)
	default:
		return invalidOption
	}
	return 0
}

func (t *transaction) setReadVersion(version int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempt.given = version
}

func (t *transaction) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempt.cancel()
	if t.attempt.tx != nil && !t.busy {
		t.attempt.tx.Cancel()
	}
}

// reset begins a new attempt. Of the options only the size limit stays.
func (t *transaction) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resetLocked()
}

func (t *transaction) resetLocked() {
	old := t.attempt
	old.cancel()
	if old.tx != nil {
		t.enqueue(old.tx.Cancel)
	}
	t.options = kv.Options{SizeLimit: t.options.SizeLimit}
	t.attempt = newAttempt()
}

// onError backs off and begins a new attempt, if the code is retryable.
func (t *transaction) onError(code kv.Code) *future {
	return t.ask(func(tx kv.Transaction) (any, error) {
		err := tx.OnError(kv.NewError(code))
		if err == nil {
			t.reset()
		}
		return nil, err
	})
}

func (t *transaction) commit() *future {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attempt
	if a.committing && a.committed == nil {
		return failed(kv.UsedDuringCommit)
	}
	a.committing = true
	return t.askLocked(func(tx kv.Transaction) (any, error) {
		err := tx.Commit()
		if _, none := tx.Versionstamp(); err != nil || none == nil {
			a.waited(t.cluster)
		}
		for _, f := range a.stamps {
			if err != nil {
				f.finish(nil, err)
				continue
			}
			stamp, err := tx.Versionstamp()
			f.finish(stamp[:], err)
		}
		if err == nil {
			t.mu.Lock()
			a.committed, a.tx = tx, nil // the client takes operations after a commit, too
			t.begin(a)
			t.mu.Unlock()
		}
		return nil, err
	})
}

// committedVersion returns the version of a committed transaction, -1 if it wrote nothing.
func (t *transaction) committedVersion() (int64, kv.Code) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attempt.committed == nil {
		return 0, invalidVersion
	}
	stamp, err := t.attempt.committed.Versionstamp()
	if err != nil {
		return -1, 0
	}
	return int64(binary.BigEndian.Uint64(stamp[:])), 0
}

// versionstamp returns a future that is ready once the transaction has committed.
func (t *transaction) versionstamp() *future {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attempt.committing {
		return failed(invalidVersion)
	}
	f := &future{}
	t.attempt.stamps = append(t.attempt.stamps, f)
	return f
}

func (t *transaction) watch(key []byte) *future {
	f := &future{}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attempt
	t.begin(a)
	t.enqueue(func() {
		w := a.tx.Watch(key)
		f.mu.Lock()
		f.onCancel = w.Cancel
		given := f.ready
		f.mu.Unlock()
		if given {
			w.Cancel()
		}
		go func() { f.finish(nil, w.Wait(context.Background())) }()
	})
	return f
}

// selector is a key selector.
type selector struct {
	key     []byte
	orEqual bool
	offset  int
}

// first returns the first key that the selector can mean, for the two kinds that the bindings use in ranges.
func (s selector) first() ([]byte, bool) {
	switch {
	case s.offset != 1:
		return nil, false
	case s.orEqual:
		return kv.KeyAfter(s.key), true
	}
	return s.key, true
}

// The client's bounds on the size of a batch, in bytes of keys and values: by streaming mode, and in the mode
// iterator by the number of the batch.
var (
	modeBytes      = []int{0, 256, 1000, 4096, 80_000} // exact, small, medium, large, serial
	iterationBytes = []int{4096, 6144, 9216, 13_824, 20_736, 31_104, 46_656, 69_984, 80_000, 120_000}
)

const (
	wantAll  = -2
	iterator = -1
	exact    = 0
)

// getRange reads one batch of a range.
func (t *transaction) getRange(begin, end selector, limit, mode, iteration int,
	snapshot, reverse bool) *future {
	from, ok1 := begin.first()
	to, ok2 := end.first()
	limit, most, code := bounds(limit, mode, iteration)
	switch {
	case !ok1 || !ok2:
		return failed(unsupportedOperation)
	case code != 0:
		return failed(code)
	case beyond(from) || beyond(to):
		return failed(kv.KeyOutsideLegalRange)
	case bytes.Compare(from, to) >= 0:
		return &future{ready: true, result: batch{}}
	}
	return t.read(kv.Range{Begin: from, End: to}, func(tx kv.Tx) (any, kv.Range, error) {
		var r kv.Reader = tx
		if snapshot {
			r = tx.Snapshot()
		}
		found, err := readBatch(r, kv.Range{Begin: from, End: to}, limit, most, reverse)
		return found, found.about(from, to, reverse), err
	})
}

// about is the part of a range that the batch says everything of.
func (b batch) about(from, to []byte, reverse bool) kv.Range {
	switch {
	case !b.more:
		return kv.Range{Begin: from, End: to}
	case reverse:
		return kv.Range{Begin: b.pairs[len(b.pairs)-1].Key, End: to}
	default:
		return kv.Range{Begin: from, End: kv.KeyAfter(b.pairs[len(b.pairs)-1].Key)}
	}
}

// beyond reports whether key is behind the largest end of a legal range.
func beyond(key []byte) bool { return bytes.Compare(key, []byte{0xff}) > 0 }

// unlimited is a limit of the client that stands for none, as 0 does.
const unlimited = -1

// bounds returns the bounds on a batch, 0 for none: the number of its pairs and its size. The code is not 0 if
// the client refuses the parameters.
func bounds(limit, mode, iteration int) (pairs, size int, code kv.Code) {
	if limit == unlimited {
		limit = 0
	}
	switch {
	case mode == exact && limit == 0:
		return 0, 0, 2210 // exact_mode_without_limits
	case mode == iterator && iteration <= 0, mode < wantAll, mode >= len(modeBytes):
		return 0, 0, 2000 // client_invalid_operation
	case limit < 0:
		return 0, 0, 2012 // range_limits_invalid
	case mode == iterator:
		return limit, iterationBytes[min(iteration, len(iterationBytes))-1], 0
	case mode == wantAll:
		return limit, 80_000, 0
	}
	return limit, modeBytes[mode], 0
}

// readBatch reads up to limit pairs, and up to the pair with which they reach most bytes; 0 stands for no
// bound. It first peeks at a snapshot to find where the batch ends, so that only the pairs in it become read
// conflicts.
func readBatch(r kv.Reader, in kv.Range, limit, most int, reverse bool) (batch, error) {
	n, size := limit, 0
	if most > 0 {
		peek := r
		if tx, ok := r.(kv.Tx); ok {
			peek = tx.Snapshot()
		}
		pairs, err := peek.GetRange(in, kv.RangeOptions{Limit: limit, Reverse: reverse})
		if err != nil {
			return batch{}, err
		}
		for i, p := range pairs {
			if size += len(p.Key) + len(p.Value); size >= most && i+1 < len(pairs) {
				n = i + 1
				break
			}
		}
	}
	pairs, err := r.GetRange(in, kv.RangeOptions{Limit: n, Reverse: reverse})
	return batch{pairs, n > 0 && len(pairs) == n}, err
}
