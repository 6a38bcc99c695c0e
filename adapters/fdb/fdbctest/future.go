//go:build fdb && fdbctest

package fdbctest

import (
	"context"
	"errors"
	"sync"

	"couchrelay/core/kv"
)

// Codes of the client that core/kv does not know.
const (
	unsupportedOperation  kv.Code = 2108
	invalidOption         kv.Code = 2007
	noCommitVersion       kv.Code = 2021
	invalidVersion        kv.Code = 2020
	readVersionAlreadySet kv.Code = 2010
	noClusterFile         kv.Code = 1515
	apiVersionTooNew      kv.Code = 2203
)

// future is an FDBFuture.
type future struct {
	mu       sync.Mutex // guards the fields below; not held during callbacks
	ready    bool       // code and result are set, and change no more
	code     kv.Code    // 0 for success
	result   any        // int64, []byte, *[10]byte or batch; nil if there is none
	onReady  func()     // the callback, called once
	onTake   func()     // called whenever the result is taken, without the lock; may be nil, set before use
	onCancel func()     // cancels the operation that the future waits for; may be nil
	free     func()     // frees the C memory in which the result was handed out; may be nil
}

// batch is the result of a range read.
type batch struct {
	pairs []kv.KeyValue
	more  bool // the range may have more pairs behind these
}

// failed returns a future that has ended with a code.
func failed(code kv.Code) *future { return &future{ready: true, code: code} }

// finish sets the result, unless the future has ended before.
func (f *future) finish(result any, err error) {
	f.mu.Lock()
	if f.ready {
		f.mu.Unlock()
		return
	}
	f.ready, f.result, f.code = true, result, codeOf(err)
	callback := f.onReady
	f.mu.Unlock()
	if callback != nil {
		callback()
	}
}

// cancel ends a future that is not ready.
func (f *future) cancel() {
	f.mu.Lock()
	giveUp, ready := f.onCancel, f.ready
	f.mu.Unlock()
	if ready {
		return
	}
	f.finish(nil, kv.NewError(kv.OperationCancelled))
	if giveUp != nil {
		giveUp()
	}
}

// callback has f called once the future is ready.
func (f *future) callback(call func()) {
	f.mu.Lock()
	if !f.ready {
		f.onReady = call
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	call()
}

// get returns the result of a future that is ready.
func (f *future) get() (any, kv.Code) {
	if f.onTake != nil {
		f.onTake()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ready {
		return nil, 2015 // future_not_set
	}
	return f.result, f.code
}

func (f *future) isReady() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ready
}

// keep notes how to free the memory of a result that was handed out.
func (f *future) keep(free func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.free
	f.free = func() {
		if before != nil {
			before()
		}
		free()
	}
}

func (f *future) release() {
	f.mu.Lock()
	free := f.free
	f.free = nil
	f.mu.Unlock()
	if free != nil {
		free()
	}
}

// codeOf returns the client's code for an error of the store. In this package a context ends only when its
// transaction is cancelled.
func codeOf(err error) kv.Code {
	if errors.Is(err, context.Canceled) {
		return kv.TransactionCancelled
	}
	if code := kv.CodeOf(err); code != 0 || err == nil {
		return code
	}
	return noCommitVersion
}
