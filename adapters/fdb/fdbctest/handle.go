//go:build fdb && fdbctest

package fdbctest

// #include <stdlib.h>
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// handles maps the pointers that C has to the objects that they stand for. Each is the address of a byte in
// C's own memory, so it is unique, and Go's garbage collector does not take it for one of its own.
var handles sync.Map // from unsafe.Pointer to *Cluster, *transaction or *future

func newHandle(object any) unsafe.Pointer {
	p := C.malloc(1)
	handles.Store(p, object)
	return p
}

// object returns the object of a handle. It panics if the handle was destroyed.
func object[T any](p unsafe.Pointer) T {
	o, ok := handles.Load(p)
	if !ok {
		panic(fmt.Sprintf("fdbctest: use of a destroyed handle, for a %T", *new(T)))
	}
	return o.(T)
}

func destroyHandle(p unsafe.Pointer) {
	if _, ok := handles.LoadAndDelete(p); !ok {
		panic("fdbctest: handle destroyed twice")
	}
	C.free(p)
}

// cBytes copies b to C's memory. An empty slice has an address too.
func cBytes(b []byte) unsafe.Pointer {
	p := C.malloc(C.size_t(len(b) + 1))
	copy(unsafe.Slice((*byte)(p), len(b)), b)
	return p
}

func free(p unsafe.Pointer) func() { return func() { C.free(p) } }
