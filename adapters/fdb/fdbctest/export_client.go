//go:build fdb && fdbctest

package fdbctest

// #include <foundationdb/fdb_c.h>
// #include <stdlib.h>
import "C"

import (
	"sync"
	"unsafe"

	"couchrelay/core/kv"
)

// client is the state of the library, of which a process has one.
var client = struct {
	sync.Mutex
	maxVersion int
	stop       chan struct{}
	texts      map[kv.Code]unsafe.Pointer
}{maxVersion: 730, stop: make(chan struct{}), texts: map[kv.Code]unsafe.Pointer{}}

// SetMaxAPIVersion makes the client know API versions up to max only. It has no effect once a version has
// been chosen.
func SetMaxAPIVersion(max int) {
	client.Lock()
	defer client.Unlock()
	client.maxVersion = max
}

//export fdb_get_error
func fdb_get_error(code C.fdb_error_t) *C.char {
	client.Lock()
	defer client.Unlock()
	text, ok := client.texts[kv.Code(code)]
	if !ok {
		text = cBytes(append([]byte(kv.NewError(kv.Code(code)).Error()), 0))
		client.texts[kv.Code(code)] = text
	}
	return (*C.char)(text)
}

//export fdb_get_max_api_version
func fdb_get_max_api_version() C.int {
	client.Lock()
	defer client.Unlock()
	return C.int(client.maxVersion)
}

//export fdb_select_api_version_impl
func fdb_select_api_version_impl(runtime, header C.int) C.fdb_error_t {
	client.Lock()
	defer client.Unlock()
	if int(header) > client.maxVersion || runtime > header {
		return C.fdb_error_t(apiVersionTooNew)
	}
	return 0
}

//export fdb_network_set_option
func fdb_network_set_option(C.FDBNetworkOption, *C.uint8_t, C.int) C.fdb_error_t { return 0 }

//export fdb_setup_network
func fdb_setup_network() C.fdb_error_t { return 0 }

//export fdb_run_network
func fdb_run_network() C.fdb_error_t {
	<-client.stop
	return 0
}

//export fdb_stop_network
func fdb_stop_network() C.fdb_error_t {
	close(client.stop)
	return 0
}

//export fdb_create_database
func fdb_create_database(path *C.char, out **C.FDBDatabase) C.fdb_error_t {
	clustersLock.Lock()
	defer clustersLock.Unlock()
	c := clusters[C.GoString(path)]
	if c == nil {
		return C.fdb_error_t(noClusterFile)
	}
	*out = (*C.FDBDatabase)(newHandle(c))
	return 0
}

//export fdb_create_database_from_connection_string
func fdb_create_database_from_connection_string(*C.char, **C.FDBDatabase) C.fdb_error_t {
	return C.fdb_error_t(unsupportedOperation)
}

//export fdb_database_destroy
func fdb_database_destroy(d *C.FDBDatabase) { destroyHandle(unsafe.Pointer(d)) }

//export fdb_database_set_option
func fdb_database_set_option(*C.FDBDatabase, C.FDBDatabaseOption, *C.uint8_t, C.int) C.fdb_error_t {
	return C.fdb_error_t(invalidOption)
}

//export fdb_database_create_transaction
func fdb_database_create_transaction(d *C.FDBDatabase, out **C.FDBTransaction) C.fdb_error_t {
	*out = (*C.FDBTransaction)(newHandle(newTransaction(object[*Cluster](unsafe.Pointer(d)))))
	return 0
}

//export fdb_database_open_tenant
func fdb_database_open_tenant(*C.FDBDatabase, *C.uint8_t, C.int, **C.FDBTenant) C.fdb_error_t {
	return C.fdb_error_t(unsupportedOperation)
}

//export fdb_database_reboot_worker
func fdb_database_reboot_worker(*C.FDBDatabase, *C.uint8_t, C.int, C.fdb_bool_t, C.int) *C.FDBFuture {
	return newFuture(failed(unsupportedOperation))
}

//export fdb_database_get_client_status
func fdb_database_get_client_status(*C.FDBDatabase) *C.FDBFuture {
	return newFuture(failed(unsupportedOperation))
}

//export fdb_tenant_create_transaction
func fdb_tenant_create_transaction(*C.FDBTenant, **C.FDBTransaction) C.fdb_error_t {
	return C.fdb_error_t(unsupportedOperation)
}

//export fdb_tenant_destroy
func fdb_tenant_destroy(*C.FDBTenant) {}
