package campaign

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"couchrelay/sim/decide"
	"couchrelay/sim/engine"
	"couchrelay/sim/model"
	"couchrelay/sim/oracle"
	"couchrelay/sim/protocol"
	"couchrelay/sim/trial"
	"couchrelay/sim/world"
)

// Panicked is the id of the invariant that nothing panics.
const Panicked = "P1"

// Outcome is how a run ended.
type Outcome struct {
	// Violation is the invariant that broke; nil when all held. A panic is one too.
	Violation *oracle.Violation
	// Stack is where it panicked.
	Stack string
	// Abandoned reports that a hook gave the run up before its end.
	Abandoned bool
	// Hash is the world's hash at the end; 0 after a panic, and when the run was abandoned.
	Hash    uint64
	Events  uint64
	Virtual time.Duration
	Faults  world.Tally
	// Protocol counts the transitions of the replication protocol that runs took.
	Protocol protocol.Counts
	// Jobs counts the transitions of the job system's specification that jobs took.
	Jobs model.Counts
	// Choices are the decider's, when it records them.
	Choices []decide.Choice
}

// Hook changes a world before it runs, or watches it.
type Hook func(*trial.Trial)

// abandon is the value of the panic with which a hook gives a run up.
type abandon struct{}

// Limit returns a hook that gives a run up after a number of events.
func Limit(events uint64) Hook {
	return func(w *trial.Trial) {
		Until(w, func() bool { return w.Engine.Played() > events })
	}
}

// Until gives a run up when over returns true. It is called after every event.
func Until(w *trial.Trial, over func() bool) {
	After(w, func() {
		if over() {
			panic(abandon{})
		}
	})
}

// After has f called after every event, after the functions that are called already.
func After(w *trial.Trial, f func()) {
	before := w.Engine.Step
	w.Engine.Step = func() {
		if before != nil {
			before()
		}
		f()
	}
}

// Play plays one run to its end.
func Play(c world.Config, d *decide.Decider, hooks ...Hook) (o Outcome) {
	var w *trial.Trial
	defer func() {
		r := recover()
		if w != nil {
			o.Events, o.Virtual, o.Faults, o.Choices = w.Engine.Played(), w.Elapsed(), w.Faults, d.Choices()
			o.Protocol, o.Jobs = w.Protocol(), w.Jobs()
		}
		switch {
		case r == nil:
			w.Close()
		case r == abandon{}:
			o.Abandoned = true
			w.Close()
		default: // the world is not closed: its locks may be in any state, so that Close could wait for ever
			o.panicked(w, r)
		}
	}()
	w = trial.New(c, d)
	for _, hook := range hooks {
		hook(w)
	}
	o.Violation = w.Run()
	o.Hash = w.Hash()
	return o
}

// panicked makes a violation of a panic.
func (o *Outcome) panicked(w *trial.Trial, r any) {
	stack := debug.Stack()
	if p, inside := r.(*engine.Panic); inside {
		stack = p.Stack
	}
	o.Violation = &oracle.Violation{ID: Panicked, Text: fmt.Sprint("panic: ", r, origin(stack))}
	if w != nil {
		o.Violation.At, o.Violation.Step = w.Engine.Now(), w.Engine.Played()
	}
	o.Stack = string(stack)
}

// origin returns the place in a stack that panicked, as " in FUNCTION (FILE:LINE)": the first one of this
// module after the panic. It is empty if there is none.
func origin(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") {
			lines = lines[i:]
			break
		}
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "couchrelay/") && i+1 < len(lines) {
			where, _, _ := strings.Cut(filepath.Base(strings.TrimSpace(lines[i+1])), " ")
			function, _, _ := strings.Cut(strings.TrimPrefix(line, "couchrelay/"), "(0x")
			return fmt.Sprintf(" in %s (%s)", function, where)
		}
	}
	return ""
}
