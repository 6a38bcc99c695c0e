package node

import (
	"fmt"

	"couchrelay/core/replication"
)

// note tells the log. The class of the error is that of a Trouble among args.
func (n *Node) note(what, job, format string, args ...any) {
	e := Note{What: what, Job: job, Text: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if t, is := a.(replication.Trouble); is {
			e.Class = t.Error
		}
	}
	n.emit(e)
}

// noteEnd tells the log how a run ended, by the request that stores it.
func noteEnd(n *Node, q Request) {
	switch q := q.(type) {
	case Complete:
		i := q.End.Info
		n.note("completed", q.Held.JobID, "%d documents written, %d refused", i.DocsWritten, i.DocWriteFailures)
	case Crash:
		n.note("crashed", q.Held.JobID, "%s", q.Trouble)
	case Fail:
		n.note("failed", q.Held.JobID, "%s", q.Trouble)
	case Requeue:
		n.note("stopped", q.Held.JobID, "the run gave its slot back")
	}
}
