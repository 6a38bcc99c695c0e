package programs

import (
	"fmt"
	"strings"

	"couchrelay/core/kv"
)

// Allowed names a difference that the contract allows.
type Allowed string

// The differences that the contract allows.
const (
	// LateWriteError: a write that breaks a rule is reported by the next read or by the commit.
	LateWriteError Allowed = "write error at the commit"
	// OtherWriteError: of several such writes either may be the one that is reported.
	OtherWriteError Allowed = "another write's error"
	// NeedlessConflict: a store may fail a commit with a conflict that nothing caused, as FoundationDB
	// does after a failure of its own. What follows cannot be compared.
	NeedlessConflict Allowed = "needless conflict"
	// FailedOperation: a cluster may fail any operation with an error that is worth another attempt. What
	// follows cannot be compared.
	FailedOperation Allowed = "operation that failed for a time"
)

// Report counts what comparisons found.
type Report struct {
	Programs int
	Steps    int
	Allowed  map[Allowed]int
}

func (r *Report) String() string {
	return fmt.Sprintf("%d programs, %d steps; differences that the contract allows: %v; others: 0", r.Programs,
		r.Steps, r.Allowed)
}

// Compare compares the answers of a store to a program with those of the first store, and returns the first
// difference that is not allowed, or "". A store that is not exact may fail without a cause.
func (r *Report) Compare(p Program, first, other []Line, exact bool) string {
	for i := range first {
		if first[i].Text == other[i].Text {
			continue
		}
		switch name := allowed(first[i], other[i], exact); name {
		case "":
			step := "contents"
			if i < len(p) {
				step = p[i].String()
			}
			return fmt.Sprintf("step %d, %s:\n  %q\n  %q", i, step, first[i].Text, other[i].Text)
		case LateWriteError, OtherWriteError:
			r.Allowed[name]++
		default:
			r.Allowed[name]++
			return ""
		}
	}
	return ""
}

// allowed names the difference between two answers. It returns "" for one that the contract does not allow.
func allowed(a, b Line, exact bool) Allowed {
	committed := func(l Line) bool { return strings.HasPrefix(l.Text, "committed") }
	failed := func(l Line) bool { return strings.HasPrefix(l.Text, "error ") }
	switch {
	case a.Faults > 1 && failed(a) && failed(b):
		return OtherWriteError
	case a.Faults > 0 && failed(a) != failed(b) && !committed(a) && !committed(b):
		return LateWriteError
	case exact || failed(a):
		return ""
	case b.Text == fmt.Sprint("error ", int(kv.NotCommitted)):
		return NeedlessConflict
	}
	var code kv.Code
	if _, err := fmt.Sscanf(b.Text, "error %d", &code); err == nil && kv.Retryable(kv.NewError(code)) {
		return FailedOperation
	}
	return ""
}
