package node

import (
	"fmt"

	"couchrelay/core/replication"
)

// note tells the log. The error is that of a Trouble among args.
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
		i, of := q.End.Info, ""
		if i.DocWriteFailures > 0 {
			of = " of all attempts" // one document may have been refused several times
		}
		n.note("completed", q.Held.JobID, "%d documents written, %d%s refused", i.DocsWritten, i.DocWriteFailures, of)
	case Crash:
		n.note("crashed", q.Held.JobID, "%s", q.Trouble)
	case Fail:
		n.note("failed", q.Held.JobID, "%s", q.Trouble)
	case Requeue:
		n.note("stopped", q.Held.JobID, "the run gave its slot back")
	}
}
