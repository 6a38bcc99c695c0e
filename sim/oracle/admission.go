package oracle

import (
	"slices"

	"couchrelay/core/peer"
)

// admissions are copies that the target refused, perhaps for the run's credentials, by document and revision. For each
// of them the run opens the target, to learn whether that lets it in, and then copies once more. Only retries change
// it.
type admissions map[string]*admission

type admission struct {
	opens bool // the run does not copy once more yet
}

// copies hears of a copy before it is sent.
func (as admissions) copies(op peer.CopyDoc) {
	for _, rev := range op.Revs {
		if a := as[op.ID+" "+rev]; a != nil {
			a.opens = false
		}
	}
}

// copied hears of the answer to a copy. The second refusal in a row is for good.
func (as admissions) copied(op peer.CopyDoc, got peer.Copied) {
	refused := slices.ContainsFunc(got.Revs, func(rev peer.CopiedRev) bool {
		return rev.Refused != nil && slices.Contains([]int{400, 401, 403}, rev.Refused.Status)
	})
	a, again := &admission{opens: true}, false
	for _, rev := range op.Revs {
		again = again || as[op.ID+" "+rev] != nil
	}
	for _, rev := range op.Revs {
		if delete(as, op.ID+" "+rev); refused && !again {
			as[op.ID+" "+rev] = a
		}
	}
}

// opens is for how many copies the run opens the target.
func (as admissions) opens() int {
	opens := map[*admission]bool{}
	for _, a := range as { // in any order
		if a.opens {
			opens[a] = true
		}
	}
	return len(opens)
}
