package replication

import (
	"fmt"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// Info is what a run tells of itself.
type Info struct {
	// Counters are totals over the life of the replication's checkpoints.
	checkpoint.Counters
	// SourceSeq is the end of the newest batch that is done, ThroughSeq the end of the last batch
	// before the first that is not, CheckpointedSeq what the last checkpoint says.
	SourceSeq, ThroughSeq, CheckpointedSeq peer.Seq
	// ChangesPending estimates the changes that are not done, -1 when the source does not tell.
	ChangesPending int64
	// BytesWritten is what went to the target in this run.
	BytesWritten int64
	// Refusals are the latest documents that the target did not accept, newest first.
	Refusals []peer.Refusal
	// Waiting is why the run makes no progress at the moment: the last failure while something is
	// being retried, or empty.
	Waiting string
}

// maxRefusals is how many refused documents an Info lists.
const maxRefusals = 10

func (i Info) String() string {
	return fmt.Sprintf("read %d written %d failed %d through %s", i.DocsRead, i.DocsWritten, i.DocWriteFailures, i.ThroughSeq)
}

// Info is the present state.
func (r *Run) Info() Info {
	i := r.info
	i.Refusals = append([]peer.Refusal{}, r.info.Refusals...)
	if r.feed.pending >= 0 {
		i.ChangesPending = r.feed.pending
		for _, b := range r.batches {
			i.ChangesPending += int64(b.rows)
		}
	}
	for _, c := range r.calls {
		if c.failure != nil {
			i.Waiting = c.failure.String()
		}
	}
	return i
}

func (r *Run) report() {
	r.nextReport = r.now.Add(r.plan.ProgressInterval)
	r.emit(Progress{Info: r.Info()})
}

// refused counts a document that the target does not want.
func (r *Run) refused(f peer.Refusal) {
	r.info.DocWriteFailures++
	list := append([]peer.Refusal{f}, r.info.Refusals...)
	r.info.Refusals = list[:min(len(list), maxRefusals)]
}
