package host

import (
	"fmt"

	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/replication"
)

// Event is what a machine of the host is told: an event of package node, or a RunEvent.
type Event interface{ fmt.Stringer }

// Effect is what a driver performs or looks at: an effect of package node, a RunEffect or a Close.
type Effect interface{ fmt.Stringer }

type (
	// RunEvent is an event of a run.
	RunEvent struct {
		Run   uint64 // as in node.StartRun
		Event replication.Event
	}
	// RunEffect is an effect of a run, or a Cancel of a call that the run left behind when it was killed.
	RunEffect struct {
		Run    uint64
		Effect replication.Effect
	}
	// Close says that a run is gone: it ended, or was killed. All its calls are answered or cancelled.
	Close struct{ Run uint64 }
)

func (e RunEvent) String() string  { return fmt.Sprintf("run %d %s", e.Run, e.Event) }
func (e RunEffect) String() string { return fmt.Sprintf("run %d %s", e.Run, e.Effect) }
func (e Close) String() string     { return fmt.Sprintf("close run %d", e.Run) }

// Observer is told of every step of a machine when it is made: what the machine was told, by which clock,
// and all that it wants done, of which nothing is done yet. An event that comes too late is no step.
// Recorders and checkers hang here; an observer changes nothing.
type Observer interface {
	NodeStepped(c node.Clock, ev node.Event, effects []node.Effect)
	// RunBegins comes before the first step of a run.
	RunBegins(run uint64, plan replication.Plan)
	RunStepped(run uint64, now instant.Time, ev replication.Event, effects []replication.Effect)
}
