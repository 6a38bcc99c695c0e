package oracle

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/sim/model"
	"couchrelay/sim/protocol"
	"couchrelay/sim/world"
)

// Oracle judges one run of the simulator.
type Oracle struct {
	*chronicle
	// Watch, when set, is told how jobs change.
	Watch func(JobChanged)
}

// New makes an oracle for a world that has not begun.
func New(w world.View) *Oracle { return judging(w, subjects...) }

// judging makes an oracle that knows some subjects only.
func judging(w world.View, subjects ...*subject) *Oracle {
	o := &Oracle{chronicle: &chronicle{known: newKnown(w)}}
	o.on.jobChanged.add(o.watchJob)
	for _, s := range subjects {
		s.begin(o.chronicle)
	}
	return o
}

// Violation is the first invariant that did not hold; nil while all do.
func (o *Oracle) Violation() *Violation { return o.violation }

// Protocol counts the transitions of the replication protocol that runs have taken.
func (o *Oracle) Protocol() protocol.Counts {
	all := o.conversations
	for _, r := range o.runs {
		all.Add(&r.protocol.Counts)
	}
	return all
}

// Jobs counts the transitions of the job system's specification that jobs have taken.
func (o *Oracle) Jobs() model.Counts { return o.model.Counts }

// Violation is a broken invariant.
type Violation struct {
	ID   string // of an invariant
	Text string
	At   instant.Time
	Step uint64
}

func (v *Violation) String() string {
	return fmt.Sprintf("%s at %s (event %d): %s", v.ID, v.At, v.Step, v.Text)
}

// Live reports whether the violation is one of liveness: nothing went wrong, but something never came.
func (v *Violation) Live() bool { return strings.HasPrefix(v.ID, "L") }

// Invariant is a promise: S while things happen, L after all trouble is over, B and P of the program itself.
type Invariant struct{ ID, Says string }

// File is the file of this package that checks the invariant.
func (i Invariant) File() string {
	for _, s := range subjects {
		if slices.Contains(s.invariants, i) {
			begin := runtime.FuncForPC(reflect.ValueOf(s.begin).Pointer())
			file, _ := begin.FileLine(begin.Entry())
			return filepath.Base(file)
		}
	}
	return ""
}

// subject has the invariants of one matter. A file defines a subject: the promises, the state that its
// checker keeps, and the functions that judge.
type subject struct {
	invariants []Invariant
	// begin makes the subject's checker, and has it hear the topics by which it judges.
	begin func(*chronicle)
}

// subjects hear of each fact in this order. A checker that reads the state of another one stands behind it.
var subjects = []*subject{
	&readable, &specifiedSubject, &loadSubject, &idleAskSubject, &lockSubject, &memberSubject, &slotSubject,
	&chargeSubject, &sharingSubject, &placementSubject, &weightSubject,
	&leaseSubject, &dutySubject, &partSubject, &roundSubject, &balanceSubject, &spreadSubject, &straySubject,
	&transactionSubject, &misreadSubject,
	&pageSubject, &leftoverSubject, &listSubject, &overviewSubject,
	&turnSubject, &rotationSubject, &waitSubject, &newJobSubject, &documentSubject,
	&replicatedSubject, &mistakeSubject, &validationSubject,
	&claimSubject,
	&transitionSubject,
	&viewSubject, &explanationSubject, &backoffSubject, &vanishedSubject,
	&lifeSubject, &requestSubject, &controlSubject, &parkingSubject, &waiterSubject, &dropSubject,
	&makingSubject,
	&retrySubject, &limitSubject, &bulkSubject, &packingSubject, &counterSubject, &backlogSubject, &copySubject,
	&refusedSubject, &verdictSubject, &triedAgainSubject, &forsakenSubject,
	&historySubject, &checkpointSubject, &savingSubject, &lookSubject, &feedSubject, &stallSubject,
	&completenessSubject, &reportSubject, &quietSubject, &protocolSubject,
	&queueSubject, &checkedSubject,
	&sequenceSubject, &databaseSubject, &followingSubject, &pollSubject, &settlingSubject, &probingSubject,
	&storySubject, &costSubject, &emptyingSubject,
}

// Invariants are all promises, in the order of their ids.
var Invariants = func() (all []Invariant) {
	for _, s := range subjects {
		all = append(all, s.invariants...)
	}
	slices.SortFunc(all, func(a, b Invariant) int { return compareIDs(a.ID, b.ID) })
	return all
}()

// compareIDs orders ids: S2 before S10, and S before L, B and P.
func compareIDs(a, b string) int {
	const kinds = "SLBP"
	if a[0] != b[0] {
		return strings.IndexByte(kinds, a[0]) - strings.IndexByte(kinds, b[0])
	}
	if na, nb := numberOf(a), numberOf(b); na != nb {
		return na - nb
	}
	return strings.Compare(a, b)
}

func numberOf(id string) (n int) {
	_, _ = fmt.Sscanf(id[1:], "%d", &n) // ids have one
	return n
}

// Says is the sentence of an invariant; empty when there is none with this id.
func Says(id string) string {
	for _, i := range Invariants {
		if i.ID == id {
			return i.Says
		}
	}
	return ""
}
