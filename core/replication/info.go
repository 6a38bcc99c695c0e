package replication

import (
	"fmt"
	"reflect"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// Info is the state of a run as users see it.
type Info struct {
	// Counters are totals over the life of the replication's checkpoints. They only grow.
	checkpoint.Counters
	// SourceSeq is the end of the newest batch that is done, ThroughSeq the end of the last batch before the
	// first that is not done, CheckpointedSeq the sequence of the last checkpoint. In the order of the feed,
	// CheckpointedSeq <= ThroughSeq <= SourceSeq, and none of them moves back within a run.
	SourceSeq, ThroughSeq, CheckpointedSeq peer.Seq
	// ChangesPending estimates the changes that are not yet done, read or not; -1 if the source does not
	// tell.
	ChangesPending int64
	// Written and Refused are the documents that the target took and refused in this run, BytesWritten the
	// bytes sent to it. They only grow.
	Written, Refused, BytesWritten int64
	// Refusals are the latest documents that the target refused, newest first, at most maxRefusals. Each refusal
	// makes a new list, so copies of an Info may share one.
	Refusals []peer.Refusal
	// Reset is set once a run that is to start over has discarded the checkpoints of both databases, and has one of
	// its own if there is something to write it of.
	Reset bool
	// Waiting is the last failure of a request that is being retried, empty if none is.
	Waiting string
	// SourceReadOnly reports that the source refuses to store its log: checkpoints are on the target alone.
	SourceReadOnly bool
	// ListSaved is how often the list of refused documents had changed at the last checkpoint that a database has, of
	// this run or one before, by peer.Side; 0 before the first that is to say so. See Plan.ListSaved.
	ListSaved [2]int64 `eventlog:"omitzero"`
}

// maxRefusals bounds the refused documents that an Info lists.
const maxRefusals = 10

func (i Info) String() string {
	return fmt.Sprintf("read %d written %d failed %d through %s",
		i.DocsRead, i.DocsWritten, i.DocWriteFailures, i.ThroughSeq)
}

// Info returns the present state.
func (r *Run) Info() Info {
	i := r.info
	i.ChangesPending, i.SourceReadOnly = -1, r.readOnly
	if r.feed.pending >= 0 {
		i.ChangesPending = r.feed.pending
		for _, b := range r.work.batches {
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

// wrote counts documents that the target took.
func (i *Info) wrote(n int) {
	i.DocsWritten += int64(n)
	i.Written += int64(n)
}

// refused counts a document that the target refused.
func (i *Info) refused(f peer.Refusal) {
	i.DocWriteFailures++
	i.Refused++
	list := append([]peer.Refusal{f}, i.Refusals...)
	i.Refusals = list[:min(len(list), maxRefusals)]
}

// saves notes of which state of the list the databases have a checkpoint. A source that refuses logs keeps its own.
func (i *Info) saves(list int64, readOnly bool) {
	i.ListSaved[peer.Target] = list
	if !readOnly {
		i.ListSaved[peer.Source] = i.ListSaved[peer.Target]
	}
}

const (
	// firstReport is the time to the first Progress; it doubles up to ProgressInterval.
	firstReport = time.Second
	// quietReports is how many times less often an unchanged state is published.
	quietReports = 30
)

// reporter publishes the state: soon at first, then regularly, and seldom while nothing changes, since a
// service may run very many idle replications.
type reporter struct {
	*Run

	next, last instant.Time  // when the state is looked at next, and when it was published last
	gap        time.Duration // between two looks; doubles from firstReport up to ProgressInterval
	said       Info          // as it was published last
}

func (p *reporter) begin() {
	p.gap = min(firstReport, p.plan.ProgressInterval)
	p.next, p.last = p.now.Add(p.gap), p.now
}

func (p *reporter) report() {
	p.gap = min(2*p.gap, p.plan.ProgressInterval)
	p.next = p.now.Add(p.gap)
	info := p.Info()
	if reflect.DeepEqual(info, p.said) && p.now.Sub(p.last) < quietReports*p.plan.ProgressInterval {
		return
	}
	p.said, p.last = info, p.now
	p.emit(Progress{Info: info})
}
