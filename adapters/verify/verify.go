package verify

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// Kind says how a document differs.
type Kind string

// Kinds of difference.
const (
	// Missing: the source had the revisions before the comparison began, and the target has not.
	Missing Kind = "missing"
	// Extra: the target had the revisions before the comparison began, and the source has not.
	Extra Kind = "only_on_target"
	// Changed: the document was changed while it was compared, so a replication may still be about to copy it.
	Changed Kind = "changed_meanwhile"
	// Repaired: the revisions were missing, and the target has them now.
	Repaired Kind = "repaired"
	// Uncompared: one database has the revisions, and the question whether the other has them fails.
	Uncompared Kind = "not_compared"
)

// Difference is a document with the leaf revisions that one database has and the other has not.
type Difference struct {
	Kind  Kind     `json:"kind"`
	ID    string   `json:"id"`
	Revs  []string `json:"revs"`
	Error string   `json:"error,omitempty"` // of Uncompared
}

// Counts are numbers of documents.
type Counts struct {
	Source     int64          `json:"source"` // rows of its changes feed that were read at first
	Target     int64          `json:"target"` // 0 if only one way is compared
	OneWay     bool           `json:"-"`      // nothing was looked for that only the target has
	Difference map[Kind]int64 `json:"differences"`
}

// Comparison compares two databases.
type Comparison struct {
	Client *couch.Client
	// Replication names both databases and says which documents count. With a filter or a since_seq, and if OneWay is
	// set, nothing is looked for that only the target has.
	Replication spec.Replication
	OneWay      bool
	// Retries is how many times in a row a request is repeated that failed in a way that may pass.
	Retries int
	Clock   clock.Clock
	Key     [16]byte // random
	// Found is told of differences as they are found. An error from it ends the comparison.
	Found func(Difference) error
	// Progress is told of rows read, from several goroutines, and of none when rows are read again: all that it is told
	// of are as many as Counts has. It may be nil.
	Progress func(side peer.Side, rows int)
	// Repair copies what these documents, sorted by id, lack at the target. If it is nil nothing is repaired.
	Repair func(ctx context.Context, ids []string) error
}

// way is one direction of a comparison: documents of the pair's source are looked for at its target.
type way struct {
	*Comparison
	pair  *couch.Pair
	rep   spec.Replication // of the pair
	from  peer.Side        // of the comparison that is this pair's source
	kind  Kind             // of what the target lacks
	begun peer.Seq         // the source's sequence when the comparison began
	alone int              // documents in a row for each of which a question failed
}

// atOnce is the number of documents in a question about revisions, and of rows in one read.
const atOnce = 500

// maxAlone bounds the documents in a row for each of which a question may fail: more are the database's trouble.
const maxAlone = 50

// Run compares the databases. Documents that are changed meanwhile may be told of as Changed, or not at all.
func (c *Comparison) Run(ctx context.Context) (n Counts, err error) {
	n.Difference = map[Kind]int64{}
	ways := []*way{{Comparison: c, rep: c.Replication, from: peer.Source, kind: Missing}}
	if !c.OneWay && c.Replication.Filter.Kind == spec.NoFilter && c.Replication.SinceSeq == nil {
		back := c.Replication
		back.Source, back.Target = back.Target, back.Source
		ways = append(ways, &way{Comparison: c, rep: back, from: peer.Target, kind: Extra})
	}
	n.OneWay = len(ways) == 1
	for _, w := range ways {
		if w.pair, err = c.Client.Pair(w.rep); err != nil {
			return n, err
		}
		defer w.pair.Close()
	}
	for _, side := range []peer.Side{peer.Source, peer.Target} {
		opened, err := ask[peer.Opened](ctx, ways[0], peer.Open{Side: side})
		if err != nil {
			return n, err
		}
		if int(side) < len(ways) {
			ways[side].begun = opened.UpdateSeq
		}
	}
	parts, err := c.readBoth(ctx, ways, &n)
	if err != nil || parts == nil && len(ways) > 1 {
		return n, err
	}
	for _, w := range ways {
		if err := w.look(ctx, parts, &n); err != nil {
			return n, err
		}
	}
	return n, nil
}

// readBoth reads both feeds into sums and returns which parts of the documents differ, nil if none do. It reads
// nothing, and returns nil, if only one way is compared: then the target may have more.
func (c *Comparison) readBoth(ctx context.Context, ways []*way, n *Counts) (*[buckets]bool, error) {
	if len(ways) == 1 {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var of [2]*sums
	var read [2]int64
	var errs [2]error
	var all sync.WaitGroup
	for i, w := range ways {
		all.Go(func() {
			of[i] = newSums(c.Key)
			errs[i] = w.rows(ctx, w.pair, peer.Zero, func(rows []peer.Change) error {
				for _, row := range rows {
					of[i].add(row)
				}
				read[i] += int64(len(rows))
				w.progress(len(rows))
				return nil
			})
			if errs[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	n.Source, n.Target = read[0], read[1]
	for _, err := range errs { // the other one's is of the cancelled context
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if parts, differ := of[0].differs(of[1]); differ > 0 {
		return parts, nil
	}
	return nil, nil
}

// progress tells of rows that are read for the first time.
func (w *way) progress(rows int) {
	if w.Progress != nil {
		w.Progress(w.from, rows)
	}
}

// look asks the target about all documents of the source in some parts, or in all if parts is nil.
func (w *way) look(ctx context.Context, parts *[buckets]bool, n *Counts) error {
	var batch []peer.DocRevs
	since := cmp.Or(peer.Seq(w.rep.SinceSeq), peer.Zero)
	err := w.rows(ctx, w.pair, since, func(rows []peer.Change) error {
		first := 0
		if parts == nil {
			first = len(rows)
		}
		n.Source += int64(first)
		w.progress(first)
		for _, row := range rows {
			if parts == nil || parts[bucket(w.Key, row.ID)] {
				batch = append(batch, peer.DocRevs{ID: row.ID, Revs: row.Revs})
			}
		}
		if len(batch) < atOnce {
			return nil
		}
		err := w.judge(ctx, batch, n)
		batch = batch[:0]
		return err
	})
	if err != nil || len(batch) == 0 {
		return err
	}
	return w.judge(ctx, batch, n)
}

// judge tells what the target lacks of some documents. The source is asked afterwards which of them were changed since
// the beginning, so that no revision counts as missing that was written meanwhile.
func (w *way) judge(ctx context.Context, docs []peer.DocRevs, n *Counts) error {
	lacks, err := w.lacks(ctx, docs, false, func(d peer.DocRevs, err error) error {
		return w.tell(Difference{Kind: Uncompared, ID: d.ID, Revs: d.Revs, Error: err.Error()}, n)
	})
	if err != nil || len(lacks) == 0 {
		return err
	}
	changed, err := w.changed(ctx, lacks)
	if err != nil {
		return err
	}
	var lacking []peer.DocRevs
	for _, d := range lacks {
		if !changed[d.ID] {
			lacking = append(lacking, peer.DocRevs{ID: d.ID, Revs: d.Missing})
		} else if err := w.tell(Difference{Kind: Changed, ID: d.ID, Revs: d.Missing}, n); err != nil {
			return err
		}
	}
	still := map[string][]string{}
	if w.kind == Missing && w.Repair != nil && len(lacking) > 0 {
		if still, err = w.repair(ctx, lacking); err != nil {
			return err
		}
	} else {
		for _, d := range lacking {
			still[d.ID] = d.Revs
		}
	}
	for _, d := range lacking {
		found := Difference{Kind: w.kind, ID: d.ID, Revs: still[d.ID]}
		if len(found.Revs) == 0 {
			found = Difference{Kind: Repaired, ID: d.ID, Revs: d.Revs}
		}
		if err := w.tell(found, n); err != nil {
			return err
		}
	}
	return nil
}

func (w *way) tell(d Difference, n *Counts) error {
	n.Difference[d.Kind]++
	return w.Found(d)
}

// repair has documents copied, and returns which revisions the target lacks even so, or may lack.
func (w *way) repair(ctx context.Context, docs []peer.DocRevs) (map[string][]string, error) {
	ids := make([]string, len(docs))
	for i, d := range docs {
		ids[i] = d.ID
	}
	slices.Sort(ids)
	if err := w.Repair(ctx, ids); err != nil {
		return nil, err
	}
	still := map[string][]string{}
	lacks, err := w.lacks(ctx, docs, false, func(d peer.DocRevs, _ error) error {
		still[d.ID] = d.Revs
		return nil
	})
	for _, d := range lacks {
		still[d.ID] = d.Missing
	}
	return still, err
}

// lacks returns what the target lacks of some documents. A question that it, or something before it, does not take as
// a whole is asked in parts, with brief retries. What the target cannot read, such as an id with half of a surrogate
// pair, it has not. alone is told of a document for which the question fails otherwise.
func (w *way) lacks(ctx context.Context, docs []peer.DocRevs, brief bool, alone func(peer.DocRevs, error) error,
) ([]peer.DocMissing, error) {
	reply, err := w.until(ctx, peer.DiffRevs{Docs: docs}, brief)
	if diff, is := reply.Result.(peer.Diff); is {
		w.alone = 0
		return diff.Docs, nil
	}
	f := reply.Failure
	unread := f.Kind == peer.Status && f.Status == 400 && f.Error != ""
	if ctx.Err() != nil || !mayBeOfOne(f) {
		return nil, err
	}
	if !unread { // is it of a document, or are all questions answered so?
		if _, err := w.until(ctx, peer.DiffRevs{}, false); err != nil {
			return nil, err
		}
	}
	switch half := len(docs) / 2; {
	case half > 0:
		first, err := w.lacks(ctx, docs[:half], true, alone)
		if err != nil {
			return nil, err
		}
		second, err := w.lacks(ctx, docs[half:], true, alone)
		return slices.Concat(first, second), err
	case unread:
		return []peer.DocMissing{{ID: docs[0].ID, Missing: docs[0].Revs}}, nil
	case w.alone == maxAlone:
		return nil, err
	}
	w.alone++
	return nil, alone(docs[0], err)
}

// mayBeOfOne reports whether a request about many documents may have failed for one of them, or for their number: the
// server fails on it, or a firewall refuses or cuts what has its id, with no word for the error.
func mayBeOfOne(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Broken, peer.TimedOut, peer.Malformed:
		return true
	case peer.Status:
	default:
		return false
	}
	switch f.Status {
	case 401, 404, 429:
		return false
	case 400, 408, 413:
		return true
	}
	return f.Status >= 500 || f.Error == ""
}

// changed returns which documents the source has changed since the comparison began. A source that does not take the
// list of them is asked for all changes.
func (w *way) changed(ctx context.Context, docs []peer.DocMissing) (map[string]bool, error) {
	rep := w.rep
	rep.Filter = spec.Filter{Kind: spec.DocIDs}
	for _, d := range docs {
		rep.Filter.DocIDs = append(rep.Filter.DocIDs, d.ID)
	}
	slices.Sort(rep.Filter.DocIDs)
	changed, err := w.changes(ctx, rep)
	if f, is := errors.AsType[*failed](err); is && mayBeOfOne(f.failure) {
		rep.Filter = spec.Filter{}
		changed, err = w.changes(ctx, rep)
	}
	return changed, err
}

// changes returns which documents the source of a replication has changed since the comparison began.
func (w *way) changes(ctx context.Context, rep spec.Replication) (map[string]bool, error) {
	pair, err := w.Client.Pair(rep)
	if err != nil {
		return nil, err
	}
	defer pair.Close()
	changed := map[string]bool{}
	return changed, w.rows(ctx, pair, w.begun, func(rows []peer.Change) error {
		for _, row := range rows {
			changed[row.ID] = true
		}
		return nil
	})
}

// rows reads a pair's changes feed to its end. After a failure that may pass it goes on behind the last row.
func (w *way) rows(ctx context.Context, pair *couch.Pair, since peer.Seq, take func([]peer.Change) error) error {
	for failures := 0; ; {
		op := peer.ReadChanges{Since: since, Limit: atOnce}
		reply := pair.Do(ctx, 0, op)
		got, _ := reply.Result.(peer.Changes)
		if len(got.Rows)+got.Skipped > 0 || got.LastSeq != "" && got.LastSeq != since { // it goes on
			failures = 0
		}
		if err := take(got.Rows); err != nil {
			return err
		}
		if got.LastSeq != "" {
			since = got.LastSeq
		}
		if reply.Failure == nil && got.End {
			return nil
		}
		if reply.Failure != nil {
			if err := w.pause(ctx, op, reply.Failure, failures, false); err != nil {
				return err
			}
			failures++
		}
	}
}

// ask sends a request of a way until it is answered.
func ask[R peer.Result](ctx context.Context, w *way, op peer.Op) (got R, err error) {
	reply, err := w.until(ctx, op, false)
	if err == nil {
		got = reply.Result.(R)
	}
	return got, err
}

// until sends a request of a way until it is answered, or fails in a way that does not pass. With brief set, until
// makes one more attempt only after a failure that may be because of one document.
func (w *way) until(ctx context.Context, op peer.Op, brief bool) (peer.Reply, error) {
	for failures := 0; ; failures++ {
		reply := w.pair.Do(ctx, 0, op)
		if reply.Failure == nil {
			return reply, nil
		}
		if err := w.pause(ctx, op, reply.Failure, failures, brief && mayBeOfOne(reply.Failure)); err != nil {
			return reply, err
		}
	}
}

const (
	firstPause = 250 * time.Millisecond
	// maxPause bounds the pauses between two attempts, also those that a server asks for.
	maxPause = time.Minute
)

// failed is a failure after which another attempt is no use.
type failed struct {
	failure *peer.Failure
	op      peer.Op
}

func (f *failed) Error() string { return replication.TroubleOf(f.op, f.failure).String() }

// pause waits before the next attempt of a request: twice as long after each failure, or as the server asks. It
// returns an error instead if another attempt is no use.
func (w *way) pause(ctx context.Context, op peer.Op, f *peer.Failure, failures int, brief bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	throttled := f.Kind == peer.Status && f.Status == 429
	retries := w.Retries
	if brief {
		retries = min(retries, 1)
	}
	if failures >= retries || !throttled && !replication.Transient(f) {
		return &failed{f, op}
	}
	timer := w.Clock.Timer(min(max(firstPause<<min(failures, 8), f.RetryAfter), maxPause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
