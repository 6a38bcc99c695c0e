//go:build fdb && fdbctest

package fdbctest

// #cgo CFLAGS: -I${SRCDIR}/include
// #include <foundationdb/fdb_c.h>
// #include <stdlib.h>
// static inline void call_back(FDBCallback f, FDBFuture* future, void* parameter) { f(future, parameter); }
import "C"

import "unsafe"

func newFuture(f *future) *C.FDBFuture { return (*C.FDBFuture)(newHandle(f)) }

func futureOf(p *C.FDBFuture) *future { return object[*future](unsafe.Pointer(p)) }

//export fdb_future_cancel
func fdb_future_cancel(p *C.FDBFuture) { futureOf(p).cancel() }

//export fdb_future_destroy
func fdb_future_destroy(p *C.FDBFuture) {
	f := futureOf(p)
	f.cancel()
	f.release()
	destroyHandle(unsafe.Pointer(p))
}

//export fdb_future_release_memory
func fdb_future_release_memory(p *C.FDBFuture) { futureOf(p).release() }

//export fdb_future_is_ready
func fdb_future_is_ready(p *C.FDBFuture) C.fdb_bool_t { return cBool(futureOf(p).isReady()) }

//export fdb_future_set_callback
func fdb_future_set_callback(p *C.FDBFuture, callback C.FDBCallback, parameter unsafe.Pointer) C.fdb_error_t {
	futureOf(p).callback(func() { C.call_back(callback, p, parameter) })
	return 0
}

//export fdb_future_get_error
func fdb_future_get_error(p *C.FDBFuture) C.fdb_error_t {
	_, code := futureOf(p).get()
	return C.fdb_error_t(code)
}

//export fdb_future_get_int64
func fdb_future_get_int64(p *C.FDBFuture, out *C.int64_t) C.fdb_error_t {
	result, code := futureOf(p).get()
	if code == 0 {
		*out = C.int64_t(result.(int64))
	}
	return C.fdb_error_t(code)
}

//export fdb_future_get_key
func fdb_future_get_key(p *C.FDBFuture, key **C.uint8_t, length *C.int) C.fdb_error_t {
	f := futureOf(p)
	result, code := f.get()
	if code == 0 {
		b := result.([]byte)
		memory := cBytes(b)
		f.keep(free(memory))
		*key, *length = (*C.uint8_t)(memory), C.int(len(b))
	}
	return C.fdb_error_t(code)
}

//export fdb_future_get_value
func fdb_future_get_value(p *C.FDBFuture, present *C.fdb_bool_t, value **C.uint8_t,
	length *C.int) C.fdb_error_t {
	f := futureOf(p)
	result, code := f.get()
	if code != 0 {
		return C.fdb_error_t(code)
	}
	b := result.([]byte)
	if *present = cBool(b != nil); b == nil {
		return 0
	}
	return fdb_future_get_key(p, value, length)
}

//export fdb_future_get_keyvalue_array
func fdb_future_get_keyvalue_array(p *C.FDBFuture, out **C.FDBKeyValue, count *C.int,
	more *C.fdb_bool_t) C.fdb_error_t {
	f := futureOf(p)
	result, code := f.get()
	if code != 0 {
		return C.fdb_error_t(code)
	}
	b := result.(batch)
	array := newPairs(len(b.pairs), f)
	for i, pair := range b.pairs {
		key, value := cBytes(pair.Key), cBytes(pair.Value)
		f.keep(free(key))
		f.keep(free(value))
		setPair(array, i, key, len(pair.Key), value, len(pair.Value))
	}
	*out, *count, *more = (*C.FDBKeyValue)(array), C.int(len(b.pairs)), cBool(b.more)
	return 0
}

// The packed layout of FDBKeyValue, which Go has no type for: two pointers at odd places with their
// lengths behind them.
const (
	pairSize    = 24
	valueOffset = 12
)

func newPairs(n int, f *future) unsafe.Pointer {
	array := C.malloc(C.size_t(pairSize*n + 1))
	f.keep(free(array))
	return array
}

func setPair(array unsafe.Pointer, i int, key unsafe.Pointer, keyLength int,
	value unsafe.Pointer, valueLength int) {
	at := unsafe.Add(array, i*pairSize)
	put := func(at, p unsafe.Pointer, n int) {
		*(*[8]byte)(at) = *(*[8]byte)(unsafe.Pointer(&p))
		length := C.int(n)
		*(*[4]byte)(unsafe.Add(at, 8)) = *(*[4]byte)(unsafe.Pointer(&length))
	}
	put(at, key, keyLength)
	put(unsafe.Add(at, valueOffset), value, valueLength)
}

//export fdb_future_get_key_array
func fdb_future_get_key_array(*C.FDBFuture, **C.FDBKey, *C.int) C.fdb_error_t {
	return C.fdb_error_t(unsupportedOperation)
}

//export fdb_future_get_string_array
func fdb_future_get_string_array(*C.FDBFuture, ***C.char, *C.int) C.fdb_error_t {
	return C.fdb_error_t(unsupportedOperation)
}

func cBool(b bool) C.fdb_bool_t {
	if b {
		return 1
	}
	return 0
}
