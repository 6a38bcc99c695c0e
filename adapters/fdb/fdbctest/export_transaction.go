//go:build fdb && fdbctest

package fdbctest

// #include <foundationdb/fdb_c.h>
import "C"

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"couchrelay/core/kv"
)

func txOf(p *C.FDBTransaction) *transaction { return object[*transaction](unsafe.Pointer(p)) }

// goBytes copies an argument.
func goBytes(p *C.uint8_t, n C.int) []byte { return C.GoBytes(unsafe.Pointer(p), n) }

//export fdb_transaction_destroy
func fdb_transaction_destroy(p *C.FDBTransaction) {
	txOf(p).cancel()
	destroyHandle(unsafe.Pointer(p))
}

//export fdb_transaction_cancel
func fdb_transaction_cancel(p *C.FDBTransaction) { txOf(p).cancel() }

//export fdb_transaction_reset
func fdb_transaction_reset(p *C.FDBTransaction) { txOf(p).reset() }

//export fdb_transaction_set_option
func fdb_transaction_set_option(p *C.FDBTransaction, option C.FDBTransactionOption,
	value *C.uint8_t, n C.int) C.fdb_error_t {
	return C.fdb_error_t(txOf(p).setOption(int(option), goBytes(value, n)))
}

//export fdb_transaction_set_read_version
func fdb_transaction_set_read_version(p *C.FDBTransaction, version C.int64_t) {
	txOf(p).setReadVersion(int64(version))
}

//export fdb_transaction_get_read_version
func fdb_transaction_get_read_version(p *C.FDBTransaction) *C.FDBFuture {
	return newFuture(txOf(p).readVersion())
}

//export fdb_transaction_get
func fdb_transaction_get(p *C.FDBTransaction, key *C.uint8_t, n C.int, snapshot C.fdb_bool_t) *C.FDBFuture {
	k := goBytes(key, n)
	if len(k) > 0 && k[0] == 0xff {
		return newFuture(failed(kv.KeyOutsideLegalRange)) // this does not fail the commit
	}
	return newFuture(txOf(p).read(kv.KeyRange(k), func(tx kv.Tx) (any, kv.Range, error) {
		var r kv.Reader = tx
		if snapshot != 0 {
			r = tx.Snapshot()
		}
		value, err := r.Get(k)
		return value, kv.KeyRange(k), err
	}))
}

//export fdb_transaction_get_key
func fdb_transaction_get_key(*C.FDBTransaction, *C.uint8_t, C.int, C.fdb_bool_t,
	C.int, C.fdb_bool_t) *C.FDBFuture {
	return newFuture(failed(unsupportedOperation))
}

//export fdb_transaction_get_range
func fdb_transaction_get_range(p *C.FDBTransaction, begin *C.uint8_t, beginLength C.int,
	beginOrEqual C.fdb_bool_t, beginOffset C.int,
	end *C.uint8_t, endLength C.int, endOrEqual C.fdb_bool_t, endOffset C.int,
	limit, _ C.int, mode C.FDBStreamingMode, iteration C.int, snapshot, reverse C.fdb_bool_t) *C.FDBFuture {
	from := selector{goBytes(begin, beginLength), beginOrEqual != 0, int(beginOffset)}
	to := selector{goBytes(end, endLength), endOrEqual != 0, int(endOffset)}
	return newFuture(txOf(p).getRange(from, to, int(limit), int(mode), int(iteration),
		snapshot != 0, reverse != 0))
}

//export fdb_transaction_get_estimated_range_size_bytes
func fdb_transaction_get_estimated_range_size_bytes(*C.FDBTransaction, *C.uint8_t,
	C.int, *C.uint8_t, C.int) *C.FDBFuture {
	return newFuture(failed(unsupportedOperation))
}

//export fdb_transaction_get_range_split_points
func fdb_transaction_get_range_split_points(*C.FDBTransaction, *C.uint8_t, C.int,
	*C.uint8_t, C.int, C.int64_t) *C.FDBFuture {
	return newFuture(failed(unsupportedOperation))
}

//export fdb_transaction_get_addresses_for_key
func fdb_transaction_get_addresses_for_key(*C.FDBTransaction, *C.uint8_t, C.int) *C.FDBFuture {
	return newFuture(failed(unsupportedOperation))
}

//export fdb_transaction_set
func fdb_transaction_set(p *C.FDBTransaction, key *C.uint8_t, keyLength C.int,
	value *C.uint8_t, valueLength C.int) {
	k, v := goBytes(key, keyLength), goBytes(value, valueLength)
	txOf(p).write(kv.KeyRange(k), func(tx kv.Tx) { tx.Set(k, v) })
}

//export fdb_transaction_clear
func fdb_transaction_clear(p *C.FDBTransaction, key *C.uint8_t, n C.int) {
	k := goBytes(key, n)
	txOf(p).write(kv.KeyRange(k), func(tx kv.Tx) { tx.Clear(k) })
}

//export fdb_transaction_clear_range
func fdb_transaction_clear_range(p *C.FDBTransaction, begin *C.uint8_t, beginLength C.int,
	end *C.uint8_t, endLength C.int) {
	r := kv.Range{Begin: goBytes(begin, beginLength), End: goBytes(end, endLength)}
	txOf(p).write(r, func(tx kv.Tx) { tx.ClearRange(r) })
}

// Mutation types of the client that core/kv has.
const (
	mutationAdd               = 2
	mutationMax               = 12
	mutationVersionstampKey   = 14
	mutationVersionstampValue = 15
)

//export fdb_transaction_atomic_op
func fdb_transaction_atomic_op(p *C.FDBTransaction, key *C.uint8_t, keyLength C.int,
	param *C.uint8_t, paramLength C.int, operation C.FDBMutationType) {
	k, v := goBytes(key, keyLength), goBytes(param, paramLength)
	txOf(p).do(func(tx kv.Tx) {
		switch {
		case operation == mutationAdd && len(v) == 8:
			tx.Add(k, int64(binary.LittleEndian.Uint64(v)))
		case operation == mutationMax && len(v) == 8:
			tx.Max(k, binary.LittleEndian.Uint64(v))
		case operation == mutationVersionstampKey:
			tx.SetVersionstampedKey(k, v)
		case operation == mutationVersionstampValue:
			tx.SetVersionstampedValue(k, v)
		default:
			panic("fdbctest: unsupported atomic operation")
		}
	})
}

//export fdb_transaction_add_conflict_range
func fdb_transaction_add_conflict_range(p *C.FDBTransaction, begin *C.uint8_t,
	beginLength C.int, end *C.uint8_t, endLength C.int, kind C.FDBConflictRangeType) C.fdb_error_t {
	r := kv.Range{Begin: goBytes(begin, beginLength), End: goBytes(end, endLength)}
	if bytes.Compare(r.Begin, r.End) > 0 {
		return C.fdb_error_t(kv.InvertedRange)
	}
	txOf(p).do(func(tx kv.Tx) {
		if kind == 0 {
			tx.AddReadConflict(r)
		} else {
			tx.AddWriteConflict(r)
		}
	})
	return 0
}

//export fdb_transaction_watch
func fdb_transaction_watch(p *C.FDBTransaction, key *C.uint8_t, n C.int) *C.FDBFuture {
	return newFuture(txOf(p).watch(goBytes(key, n)))
}

//export fdb_transaction_commit
func fdb_transaction_commit(p *C.FDBTransaction) *C.FDBFuture { return newFuture(txOf(p).commit()) }

//export fdb_transaction_get_committed_version
func fdb_transaction_get_committed_version(p *C.FDBTransaction, out *C.int64_t) C.fdb_error_t {
	version, code := txOf(p).committedVersion()
	*out = C.int64_t(version)
	return C.fdb_error_t(code)
}

//export fdb_transaction_get_versionstamp
func fdb_transaction_get_versionstamp(p *C.FDBTransaction) *C.FDBFuture {
	return newFuture(txOf(p).versionstamp())
}

//export fdb_transaction_get_approximate_size
func fdb_transaction_get_approximate_size(*C.FDBTransaction) *C.FDBFuture {
	return newFuture(failed(unsupportedOperation))
}

//export fdb_transaction_on_error
func fdb_transaction_on_error(p *C.FDBTransaction, code C.fdb_error_t) *C.FDBFuture {
	return newFuture(txOf(p).onError(kv.Code(code)))
}
