package replication

import (
	"fmt"
	"reflect"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
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
	// Written, Refused and BytesWritten are this run's own: documents that the target took, documents that
	// it did not, and bytes sent to it.
	Written, Refused, BytesWritten int64
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
	i.ChangesPending = -1
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

// wrote counts documents that the target took.
func (r *Run) wrote(n int) {
	r.info.DocsWritten += int64(n)
	r.info.Written += int64(n)
}

const (
	// firstReport is the time to the first Progress; it doubles up to ProgressInterval.
	firstReport = time.Second
	// quietReports is how many times less often an unchanged state is published.
	quietReports = 30
)

// reporter publishes the state: soon at first, then regularly, and seldom while nothing changes, since a
// service may hold very many idle replications.
type reporter struct {
	next, last instant.Time
	gap        time.Duration
	said       Info
}

func (p *reporter) begin(now instant.Time, interval time.Duration) {
	p.gap = min(firstReport, interval)
	p.next, p.last = now.Add(p.gap), now
}

func (r *Run) report() {
	p := &r.reports
	p.gap = min(2*p.gap, r.plan.ProgressInterval)
	p.next = r.now.Add(p.gap)
	info := r.Info()
	if info.same(p.said) && r.now.Sub(p.last) < quietReports*r.plan.ProgressInterval {
		return
	}
	p.said, p.last = info, r.now
	r.emit(Progress{Info: info})
}

// same says whether two states show no difference. New refusals are counted.
func (i Info) same(o Info) bool {
	i.Refusals, o.Refusals = nil, nil
	return reflect.DeepEqual(i, o)
}

// refused counts a document that the target does not want.
func (r *Run) refused(f peer.Refusal) {
	r.info.DocWriteFailures++
	r.info.Refused++
	list := append([]peer.Refusal{f}, r.info.Refusals...)
	r.info.Refusals = list[:min(len(list), maxRefusals)]
}
