// Package descriptors divides the files that the process may have open. Every connection takes one. A store that could
// not open a file would end, and a service that is full of its jobs' connections could not be asked to run fewer: so
// connections leave some to the store, and those of jobs leave some to clients.
package descriptors

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// Budget counts the descriptors of connections. It is safe for concurrent use. A nil one has no bound.
type Budget struct {
	taken   atomic.Int64
	clients int64 // how many there may be if a client connects
	jobs    int64 // how many there may be if a job connects; less than clients

	mu   sync.Mutex // guards idle
	idle []func()   // close connections that wait for another request
}

// New divides the descriptors of a process that may have limit open.
func New(limit uint64) *Budget {
	all := int64(min(limit, 1<<32))
	others := int64(StoreFiles(limit)) * 3 / 2 // half as many again, for logs and for files that are open briefly
	clients := all - min(others, all/2)
	return &Budget{clients: clients, jobs: clients - min(clients/4, 256)}
}

// Pebble keeps 64 files open at least, and there is no need for more than 500.
const fewStoreFiles, mostStoreFiles = 80, 500

// StoreFiles is how many files of a store may be open of a process that may have limit open.
func StoreFiles(limit uint64) int { return int(min(max(limit/8, fewStoreFiles), mostStoreFiles)) }

// Limit returns how many descriptors this process may have open.
func Limit() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 1 << 32
	}
	return l.Cur
}

// Client takes a descriptor for the connection of a client, and reports whether there was one. Give gives it back.
func (b *Budget) Client() bool { return b == nil || b.take(1, b.clients) }

// Job takes what a job needs to open a connection, and reports whether there was as much: a second descriptor is for
// the look-up of the server's name, or another of its addresses that is tried meanwhile. Opened and Give give one back
// each. Connections that are kept for later requests are closed before a job is refused one.
func (b *Budget) Job() bool {
	if b == nil || b.take(2, b.jobs) {
		return true
	}
	b.mu.Lock()
	for _, closeIdle := range b.idle {
		closeIdle()
	}
	b.mu.Unlock()
	return b.take(2, b.jobs)
}

// OnShortage has closeIdle called when a job needs more descriptors than there are. It closes connections that no
// request uses, and takes no descriptor.
func (b *Budget) OnShortage(closeIdle func()) {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.idle = append(b.idle, closeIdle)
	}
}

func (b *Budget) take(n, most int64) bool {
	if b.taken.Add(n) <= most {
		return true
	}
	b.taken.Add(-n)
	return false
}

// Opened gives back what the connection of a job needed only while it was opened.
func (b *Budget) Opened() { b.Give() }

// Give gives a descriptor back.
func (b *Budget) Give() {
	if b != nil {
		b.taken.Add(-1)
	}
}
