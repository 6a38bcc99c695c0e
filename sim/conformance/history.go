package conformance

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/prng"

	"github.com/anishathalye/porcupine"
)

// registers is the number of keys that a history is about.
const registers = 3

// state is the value of each register, 0 when absent.
type state [registers]uint16

// transfer is one transaction of a history: what it saw and what it wrote.
type transfer struct {
	read, wrote   [registers]bool
	values, saved state
	unknown       bool // it may or may not have happened
}

// History is what concurrent clients did to a few keys, to be checked for strict serializability:
// there must be one order of all transactions that explains what each one saw and that agrees with
// the order of those that did not overlap in time.
type History struct {
	DB     kv.Database
	Prefix []byte
	// Now is the time in any unit; it never falls.
	Now func() int64

	mu         sync.Mutex
	operations []porcupine.Operation
	next       uint16 // the last value written; each is written once
	Unknown    int    // outcomes that the client did not learn
	Conflicts  int
}

// Attempt makes one attempt at a random transaction for a client, and records it unless it has
// certainly failed. Errors are those that no store should give.
func (h *History) Attempt(ctx context.Context, client int, r *prng.Source) error {
	tx := h.DB.Begin(ctx, kv.Options{})
	defer tx.Cancel()
	call := h.Now()
	var x transfer
	err := h.fill(tx, r, &x)
	if err == nil {
		err = tx.Commit()
		x.unknown = kv.MaybeCommitted(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case x.unknown:
		h.Unknown++
	case kv.CodeOf(err) == kv.NotCommitted:
		h.Conflicts++
		return nil
	case err != nil && (kv.Retryable(err) || kv.CodeOf(err) == kv.TransactionTimedOut):
		return nil
	case err != nil:
		return err
	}
	end := h.Now()
	if x.unknown {
		end = math.MaxInt64
	}
	h.operations = append(h.operations,
		porcupine.Operation{ClientId: client, Input: x, Output: x, Call: call, Return: end})
	return nil
}

// fill reads and writes some registers.
func (h *History) fill(tx kv.Tx, r *prng.Source, x *transfer) error {
	key := func(i int) []byte { return append(append([]byte{}, h.Prefix...), byte('a'+i)) }
	if r.Intn(3) == 0 {
		pairs, err := tx.GetRange(kv.PrefixRange(h.Prefix), kv.RangeOptions{Reverse: r.Intn(2) == 0})
		if err != nil {
			return err
		}
		x.read = [registers]bool{true, true, true}
		for _, p := range pairs {
			x.values[p.Key[len(p.Key)-1]-'a'] = binary.BigEndian.Uint16(p.Value)
		}
	}
	for _, i := range r.Sample(registers, r.Intn(3)) {
		v, err := tx.Get(key(i))
		if err != nil {
			return err
		}
		if x.read[i] = true; v != nil {
			x.values[i] = binary.BigEndian.Uint16(v)
		}
	}
	for _, i := range r.Sample(registers, r.Intn(3)) {
		h.mu.Lock()
		h.next++
		x.wrote[i], x.saved[i] = true, h.next
		h.mu.Unlock()
		tx.Set(key(i), binary.BigEndian.AppendUint16(nil, x.saved[i]))
	}
	return nil
}

// Check fails t when nothing explains the history.
func (h *History) Check(t testing.TB) {
	t.Helper()
	m := &porcupine.NondeterministicModel{
		Init:          func() []any { return []any{state{}} },
		Step:          step,
		Equal:         func(a, b any) bool { return a == b },
		DescribeState: func(s any) string { return fmt.Sprint(s) },
	}
	switch porcupine.CheckOperationsTimeout(m.ToModel(), h.operations, time.Minute) {
	case porcupine.Illegal:
		for _, o := range h.operations {
			t.Logf("client %d, %d to %d: %+v", o.ClientId, o.Call, o.Return, o.Input)
		}
		t.Error("the history is not strictly serializable")
	case porcupine.Unknown:
		t.Error("the history is too hard to check; make it smaller")
	}
}

// step is the states that a transaction may lead to, none when it cannot have seen what it saw.
func step(before, input, _ any) []any {
	s, x := before.(state), input.(transfer)
	after := s
	possible := true
	for i := range registers {
		possible = possible && (!x.read[i] || x.values[i] == s[i])
		if x.wrote[i] {
			after[i] = x.saved[i]
		}
	}
	switch {
	case x.unknown && possible:
		return []any{s, after}
	case x.unknown:
		return []any{s}
	case possible:
		return []any{after}
	}
	return nil
}

// runHistory lets goroutines loose on a few keys.
func runHistory(e *env) {
	start := time.Now()
	h := &History{DB: e.DB, Prefix: e.Prefix, Now: func() int64 { return int64(time.Since(start)) }}
	var clients sync.WaitGroup
	for client := range 5 {
		clients.Go(func() {
			r := prng.Fork(1, fmt.Sprint(client))
			for range 40 {
				if err := h.Attempt(e.ctx, client, &r); err != nil {
					e.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	h.Check(e)
}
