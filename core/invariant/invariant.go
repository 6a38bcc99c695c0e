// Package invariant checks what the core takes for granted about its own state: a counter that is never
// negative, a position that only moves forward. An invariant that does not hold is a bug of the core, never a
// fault of the world.
//
// # A broken invariant ends what it was found in
//
// Check panics with a *Broken, in tests, in the simulator and in production alike. What differs is how far
// the panic gets. Tests and the simulator let it through. Production puts Guard around each part that can be
// given up by itself, counts and reports the breach, and throws that part away:
//
//   - A replication run ends at once, crashed, and writes no checkpoint any more. The effects of the step
//     that broke the invariant are dropped with it. The next run begins at the last checkpoint, so a breach
//     costs time only.
//   - A transaction of the node is rolled back and answered as failed. One of an HTTP request is rolled back
//     as after any panic, and the connection is cut.
//   - The limiter of requests forgets what it knows, which is nothing but pauses.
//   - Whatever has no Guard ends the process. Its lease expires, and other nodes or the next process go on
//     with its jobs.
//
// Going on after a breach, with a line in the log, would keep more runs alive. But the code behind a check
// relies on it: a batch whose counter of pending calls went below zero may count as done while a document of
// it is still on its way, and the next checkpoint would cover a document that the target never got. No
// counter is so harmless that it is worth telling apart from those. All durable state is written by whole
// transactions and whole checkpoints, so giving up between two of them is always safe.
//
// # Ids
//
// Each invariant is a constant of type ID in the package that relies on it: its name, which begins with that
// package's, a colon, and a sentence of what holds. Names go into logs, so they stay when code moves. A rule
// of internal/lint sees to it that no two are equal.
package invariant

import (
	"fmt"
	"strings"
)

// ID is an invariant: "package.name: what holds".
type ID string

// Name is the part before the colon.
func (id ID) Name() string {
	name, _, _ := strings.Cut(string(id), ": ")
	return name
}

// Broken is the value that Check panics with.
type Broken struct {
	ID ID
	// Values are the numbers that Check was given.
	Values []int
}

func (b *Broken) Error() string {
	if len(b.Values) == 0 {
		return string(b.ID)
	}
	return fmt.Sprintf("%s; found %v", b.ID, b.Values)
}

// Check panics with a *Broken unless ok. The values, which the error shows, must cost nothing to compute;
// they are numbers so that passing them allocates nothing while the invariant holds.
func Check(ok bool, id ID, values ...int) {
	if !ok {
		panic(&Broken{ID: id, Values: append([]int(nil), values...)}) // a copy, so that values stays on the stack
	}
}

// Guard calls f. When an invariant breaks in it, Guard calls report, with the frames of the failed check
// still on the stack, and returns the breach; the caller must give up the state that f worked on. It returns
// nil when f returned. Other panics go on. A nil report guards nothing: the panic of a broken invariant goes
// on too, as tests want it.
func Guard(report func(*Broken), f func()) (broken *Broken) {
	if report == nil {
		f()
		return nil
	}
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case *Broken:
			broken = cause
			report(cause)
		default:
			panic(cause)
		}
	}()
	f()
	return nil
}
