//go:build fdbctest

package fdbctest

// #include <stdlib.h>
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// handles are the objects that C knows by pointers: the address of a byte of C's own memory stands for
// each, so that neither collector nor caller can mistake it for anything else.
var handles sync.Map // unsafe.Pointer to what it stands for

func newHandle(object any) unsafe.Pointer {
	p := C.malloc(1)
	handles.Store(p, object)
	return p
}

// object is what a handle stands for.
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
