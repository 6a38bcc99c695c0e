package checkpoint

import (
	"slices"

	"couchrelay/core/invariant"
)

// maxOwn bounds the checkpoints of its own that a run keeps in the log. The rest of MaxHistory is left to the
// checkpoints of earlier runs.
const maxOwn = 25

// Trail makes the histories of the logs that one run writes. Each checkpoint has a session id of its own, and
// the log keeps some earlier ones of the run. The one before is always among them, so that a crash between
// the two writes of a checkpoint costs one interval. Of those before that, it keeps the fewer the older they
// are: after n checkpoints a log has O(log n) of them, and a database restored from a backup finds a common
// one not far back.
type Trail struct {
	base    []Entry // history at the common checkpoint where the run began; never changes
	own     []Entry // checkpoints of this run that the log keeps, newest first; at most maxOwn
	numbers []int64 // number of each in own, counted from 1 as they were written; strictly decreasing from count
	count   int64   // checkpoints that the run has written
	agreed  string  // as Add was given it last
}

// NewTrail returns a trail behind the history that Compare found.
func NewTrail(base []Entry) *Trail { return &Trail{base: base} }

// Add puts a checkpoint in front and returns the whole history of the log to write, newest first. The checkpoint
// with the session id agreed (see Agreed) stays in any case.
func (t *Trail) Add(e Entry, agreed string) []Entry {
	t.count++
	t.agreed = agreed
	own, numbers := []Entry{e}, []int64{t.count}
	for i, k := range t.numbers {
		if len(own) < maxOwn-1 && t.stays(k) || t.own[i].SessionID == agreed {
			own, numbers = append(own, t.own[i]), append(numbers, k)
		}
	}
	t.own, t.numbers = own, numbers
	invariant.Check(len(own) <= maxOwn && (len(own) < 2 || numbers[1] == t.count-1), trailTidy, len(own), int(t.count))
	all := slices.Concat(own, t.base)
	needed := resumable(all)
	for i := len(all) - 1; i > 0 && len(all) > MaxHistory; i-- {
		if session := all[i].SessionID; session != agreed && !needed[session] {
			all = slices.Delete(all, i, i+1)
		}
	}
	return all[:min(len(all), MaxHistory)]
}

// Agreed is the session id of the newest checkpoint in the trail that both logs have; empty if there is none. Until the
// source has the next checkpoint of the trail, a run can only go on from that one. Newer ones in a log are of another
// run, which has not stopped yet.
func (t *Trail) Agreed(source, target Log) string {
	for _, e := range source.Entries() {
		same := func(own Entry) bool { return own.SessionID == e.SessionID }
		if target.Has(e.SessionID) && (slices.ContainsFunc(t.own, same) || slices.ContainsFunc(t.base, same)) {
			return e.SessionID
		}
	}
	return ""
}

// resumable has the sessions of the newest checkpoints at which jobs may go on: of each list that one relies on, down
// to the first that relies on none; and of the newest that tell the states of lists. A job whose last checkpoint others
// have forgotten would begin anew.
func resumable(all []Entry) map[string]bool {
	lists, states, sessions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, e := range all {
		if !lists[""] && !lists[e.List.Job] || e.State.Job != "" && !states[e.State.Job] {
			sessions[e.SessionID] = true
		}
		lists[e.List.Job], states[e.State.Job] = true, true
	}
	return sessions
}

// stays reports whether the log keeps checkpoint k: the one before always, and each while its age is within
// twice the largest power of two that divides its number, so that even ones stay longer than odd ones, and so
// on.
func (t *Trail) stays(k int64) bool {
	age := t.count - k
	return age == 1 || age <= 2*(k&-k)
}

// Thin is Thinned of the history that Add returned. Later logs go on from that: the run's own checkpoints keep their
// numbers, so that these logs, too, have the fewer the older they are.
func (t *Trail) Thin(history []Entry) []Entry {
	kept := Thinned(history, t.agreed)
	var own []Entry
	var numbers []int64
	for i, e := range t.own {
		if slices.Contains(kept, e) {
			own, numbers = append(own, e), append(numbers, t.numbers[i])
		}
	}
	t.own, t.numbers, t.base = own, numbers, kept[len(own):]
	return kept
}

// Thinned returns a history of three checkpoints or more with fewer of them, two at least, for a server that takes no
// log that long. Behind the first two it leaves out the newer one of each two, unless only that is resumable. What
// stays reaches as far back, so that a database that is put back to a backup still finds a common checkpoint. The one
// with the session id agreed stays (see Trail.Agreed). So does the second, at which the run may have begun, if there
// is a place besides.
func Thinned(history []Entry, agreed string) []Entry {
	kept, needed := history[:2:2], resumable(history)
	for pair := range slices.Chunk(history[2:], 2) {
		e, newer := pair[len(pair)-1], pair[0]
		if newer.SessionID == agreed || e.SessionID != agreed && needed[newer.SessionID] && !needed[e.SessionID] {
			e = newer
		}
		kept = append(kept, e)
	}
	if len(history) > 3 {
		return kept
	}
	if kept[2].SessionID == agreed {
		kept[1] = kept[2]
	}
	return kept[:2]
}
