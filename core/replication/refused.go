package replication

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/kv/mix"
	"couchrelay/core/peer"
	"couchrelay/core/prng"
	"couchrelay/core/spec"
)

const (
	// MaxListed is how many revisions the list of a job has, usually; more are only counted.
	MaxListed = 10_000
	// MaxListedName bounds document id and revision together, in bytes; longer ones are only counted, too.
	MaxListedName = 2000
	// listedAtOnce bounds the findings of one Refused, and with the size of a batch the revisions of one page
	// of the list.
	listedAtOnce = 100
	// maxRefusalText bounds the words of a refusal that go into the list, in bytes.
	maxRefusalText = 1000
	// The pause before a refused document is tried again doubles with every attempt.
	firstRefusedPause = time.Minute
	maxRefusedPause   = 6 * time.Hour
	// passSoon is how long after a document with listed revisions was written the list is gone through, at first.
	passSoon = 5 * time.Second
	// maxKnown is how many documents a run takes for listed before it finds out which of them are.
	maxKnown = 10 * MaxListed
)

// Finding is what became of a revision of a refused document.
type Finding struct {
	peer.Refusal // the target's answer; only ID and Rev if the revision is Over
	// Over says that the revision leaves the list: the target has it now, or the source has put a newer one in
	// its place.
	Over bool
	// Failed says that the revision could not be copied, though the target may take it (see Plan.lenient, mayPass).
	Failed bool
	// Refused says of a revision that Failed that the target has refused it.
	Refused bool `eventlog:"omitzero"`
	// Demand is that of the last RefusedPage before the run began this attempt; 0 if the list was empty.
	Demand instant.Time `eventlog:"omitzero"`
}

// Listed is a revision in the list of refused documents.
type Listed struct {
	ID, Rev  string
	Attempts int           // how often the target refused it, at least 1
	Age      time.Duration // since it did so last; negative if that was by a clock that was ahead
	Asked    bool          // an operator has asked since to try it at once
	Failed   bool          // it could not be copied, and is tried again under on_refusal skip, too
	Refused  bool          `eventlog:"omitzero"` // as in Finding
}

// refusedPause is the time between an attempt to bring a refused revision over and the next one.
func refusedPause(attempts int) time.Duration {
	return min(firstRefusedPause<<min(max(attempts-1, 0), 10), maxRefusedPause)
}

// refusals keeps the list of refused documents, which lies in the store, in step with the target. What the
// target refuses is added to it, and no batch is done before that is stored: then a checkpoint would cover a
// document that is neither on the target nor in the list. In passes through the list the run finds out which
// revisions the target has got meanwhile, be it as ancestors of newer ones, and brings the others over again
// if the replication says so. There is a pass at the beginning, soon after a document with listed revisions
// was written, and when attempts are due.
type refusals struct {
	*Run

	queue   []filed // not told to the store yet
	storing []filed // told, until Stored
	fatal   *peer.Refusal
	// docs has the digests of the documents with listed revisions, as far as the passes so far and this run's
	// refusals tell, and maybe of more, as of those that were only counted. It has maxKnown at most, and what was
	// refused during one pass.
	docs map[uint64]bool
	rng  prng.Source // spreads passes of runs that begin together

	next instant.Time // when the next pass begins; Never while there is no reason for one
	standing
	taken int64 // documents that the target had taken when the list had room last, in this run
	followUps
	last bool // a one-shot has begun its last attempts

	// The pass under way; without meaning while passing is false.
	passing bool
	insists bool            // it is the last attempt of a one-shot
	exact   bool            // each revision of its pages is in the list, until the pass itself finds that it is over
	found   map[uint64]bool // docs as the pass finds them
	page    RefusedPage
	asking  bool            // a DiffRevs is in flight
	batch   *batch          // copies of this page; nil if there are none
	tried   map[peerRev]int // attempts of the revisions in batch, before this one
	over    []Finding       // of this page
}

// standing is what the list is, as far as the last pass and this run's refusals tell.
type standing struct {
	listed  int64 // revisions in the list once it has the queue, or more
	failing bool  // some of those listed have failed
	// keeps says that a job which is made anew must try some of them again, too, as far as the pass has come.
	// Checkpoints have it as unfinished (see checkpoint.Log), as the last pass left it, and before the first one as the
	// last checkpoint did.
	keeps, unfinished bool
	version           checkpoint.List // of the list in the store
	left              checkpoint.List // the version when this run took something off the list last; zero before
	used              bool            // the list has, or had, a revision, as far as the run knows
	gone              instant.Time    // when the run learned first that the source lacks what stays listed; 0 before
	// demand is that of the last RefusedPage. The run begins no batch until it is informed, that is, until it knows
	// the demand: each revision is listed with the demand from before its attempt.
	demand   instant.Time
	informed bool
}

// state is the list as checkpoints tell it; zero while nothing was ever listed.
func (s *standing) state() checkpoint.List {
	if !s.used {
		return checkpoint.List{}
	}
	return s.version
}

// leaves reports whether a finding takes something off the list.
func (w filed) leaves() bool { return w.Over }

// peerRev names a revision of a document.
type peerRev struct{ id, rev string }

// filed is a finding, with the batch that waits for it to be stored; nil if none does.
type filed struct {
	Finding
	batch *batch
}

func (f *refusals) begin() {
	f.docs, f.next, f.rng = map[uint64]bool{}, instant.Never, prng.Fork(f.plan.Seed, "refused")
	f.version, f.used = f.plan.List, f.plan.Listed > 0 || f.info.ListSaved != [2]int64{} ||
		f.sides[peer.Target].log.State(f.plan.List.Job) != (checkpoint.List{})
	f.listed, f.informed = f.plan.Listed, f.plan.Listed == 0
	if f.plan.Listed > 0 {
		f.next, f.unfinished = f.now, f.commits.relies != (checkpoint.List{})
	}
}

// refuse counts and lists a revision that the target refused.
func (p *pipeline) refuse(b *batch, v peer.Refusal) {
	p.info.refused(v)
	passes := mayPass(&v)
	p.refused.list(b, Finding{Refusal: v, Failed: passes, Refused: passes})
}

// list adds a revision to the list, before the batch is done.
func (f *refusals) list(b *batch, v Finding) {
	if f.plan.OnRefusal == spec.FailRefused {
		if f.fatal == nil {
			f.fatal = &v.Refusal
		}
		return
	}
	v.Error, v.Reason, v.Demand = clip(v.Error), clip(v.Reason), b.demand
	b.unstored++
	if !b.retries {
		if f.hasRoom(v.ID, v.Rev) {
			f.taken = f.info.Written
		}
	}
	if _, again := f.tried[peerRev{v.ID, v.Rev}]; !again || !f.exact {
		f.listed++
	}
	f.queue = append(f.queue, filed{v, b})
	f.know(v.ID)
	f.failing = f.failing || v.Failed
	if f.again(v.Failed) {
		f.passBy(refusedPause(f.tried[peerRev{v.ID, v.Rev}] + 1))
	}
}

// again reports whether the run tries a listed revision again by itself. What only failed was not refused, so under
// skip, too, it is not left out for good.
func (f *refusals) again(failed bool) bool {
	return f.plan.OnRefusal == spec.RetryRefused || failed && f.plan.OnRefusal != spec.FailRefused
}

// hasRoom reports whether the list has a place for more revisions of a document, which would else only be counted.
func (f *refusals) hasRoom(id string, revs ...string) bool {
	long := func(rev string) bool { return len(id)+len(rev) > MaxListedName }
	return f.listed+int64(len(revs)) <= cmp.Or(f.plan.MaxListed, MaxListed) && !slices.ContainsFunc(revs, long)
}

func clip(text string) string {
	if len(text) <= maxRefusalText {
		return text
	}
	return strings.ToValidUTF8(text[:maxRefusalText], "") + "..."
}

// know notes that a document has listed revisions. A target may refuse millions, so now and then a pass forgets those
// for which the list had no place.
func (f *refusals) know(id string) {
	f.docs[mix.String(id)] = true
	switch {
	case f.passing:
		f.found[mix.String(id)] = true
	case len(f.docs) >= maxKnown:
		f.passBy(0)
	}
}

// wrote notes that the target took a revision of a document. If others of it are listed, they may be its
// ancestors, or may have been taken in the same way. A pass under way may have asked about them before.
func (f *refusals) wrote(id string) {
	digest := mix.String(id)
	asked := f.asking && slices.ContainsFunc(f.page.Docs, func(d Listed) bool { return d.ID == id })
	if f.docs[digest] || f.found[digest] || asked {
		f.changed = true
		f.passBy(f.pause())
	}
}

// passBy has the next pass begin in wait at the latest.
func (f *refusals) passBy(wait time.Duration) { f.next = min(f.next, f.now.Add(wait)) }

// failed ends the run if the replication is to fail and the target refused a document.
func (f *refusals) failed() bool {
	if f.fatal == nil {
		return false
	}
	v := f.fatal
	answer := strings.TrimSpace(v.Error + ": " + v.Reason)
	if v.Status != 0 {
		answer = fmt.Sprintf("%d %s", v.Status, answer)
	}
	reason := fmt.Sprintf("the target refused document %q, revision %s: %s", v.ID, v.Rev, clip(answer))
	f.end(End{Cause: Failed, Trouble: Trouble{Error: "refused", Reason: reason}, Refused: &Finding{Refusal: *v}})
	return true
}

// store tells the store what there is to tell, one Refused at a time.
func (f *refusals) store() {
	if len(f.storing) > 0 || len(f.queue) == 0 {
		return
	}
	n := min(len(f.queue), listedAtOnce)
	f.storing, f.queue = f.queue[:n:n], f.queue[n:]
	e := Refused{Findings: make([]Finding, n)}
	for i, w := range f.storing {
		e.Findings[i] = w.Finding
	}
	f.emit(e)
}

func (f *refusals) onStored() {
	f.version.Changes++
	f.used = true
	for _, w := range f.storing {
		if w.batch != nil {
			w.batch.unstored--
		}
		if w.Over {
			f.left = f.version
		}
		if !w.Over && w.Demand != f.demand {
			// Reached: what was refused before an operator's demand is listed after the pass for that
			f.passBy(0)
		}
		if !w.Over && f.outlives(w.Failed, w.Refused) && len(w.ID)+len(w.Rev) <= MaxListedName {
			f.keeps, f.unfinished = true, true // not before: a run that stops would leave a log that relies on no row
		}
	}
	f.storing = nil
}

// stop ends the pass, and drops the findings that wait for the store: the batches that they belong to are given up,
// too. If the change that the store has been sent takes something off the list, the run waits for the answer, so that
// its last checkpoint tells of the change. Otherwise the next run would copy all anew.
func (f *refusals) stop() { f.queue, f.passing = nil, false }

// ending reports whether a one-shot has brought over all that its feed had.
func (f *refusals) ending() bool { return f.feed.over && len(f.work.batches) == 0 }

// retries reports whether listed documents are tried again, and some are known.
func (f *refusals) retries() bool { return f.again(f.failing) && len(f.docs) > 0 }

// settled reports whether the list is as true as a one-shot leaves it.
func (f *refusals) settled() bool {
	return len(f.queue) == 0 && len(f.storing) == 0 && !f.passing && f.due() > f.now
}

// due returns when the next pass begins. A one-shot does not wait for that at its end, but makes a last
// attempt.
func (f *refusals) due() instant.Time {
	switch {
	case f.passing || f.stopping:
		return instant.Never
	case !f.ending():
		return f.next
	case f.changed || f.retries() && !f.last:
		return f.now
	case f.last:
		return instant.Never
	}
	return f.next
}

// files reports whether something failed that the store may not have yet, so that no page of a pass shows it.
func (f *refusals) files() bool {
	return f.holds(func(w filed) bool { return !w.Over && w.Failed })
}

// holds reports whether the store may lack a finding of a kind.
func (f *refusals) holds(is func(filed) bool) bool {
	return slices.ContainsFunc(f.storing, is) || slices.ContainsFunc(f.queue, is)
}
