package model

import (
	"maps"
	"slices"

	"couchrelay/core/kv/ryw"
)

// progress is how far the index of a store is made that an earlier release has left: through which job. Every job is
// indexed in a store that has no row of it.
type progress struct {
	goesOn  bool
	through string
}

// covers reports whether a job is indexed.
func (p progress) covers(id string) bool { return !p.goesOn || id <= p.through }

// read takes the row over.
func (p *progress) read(mu ryw.Mutation) {
	*p = progress{goesOn: mu.Kind == ryw.Set, through: string(mu.Value)}
}

// index says of each job whether it was and is indexed. All that are from now on must get their rows.
func (w *writing) index() {
	before, after := w.m.indexed, w.indexed
	if before != after {
		for _, id := range slices.Sorted(maps.Keys(w.m.jobs)) {
			if before.covers(id) != after.covers(id) {
				w.change(id)
			}
		}
	}
	for _, ch := range w.changes {
		ch.wasIndexed, ch.indexed = before.covers(ch.id), after.covers(ch.id)
	}
}

// crashLabel is the label of a job that waits after a crash. One that is not indexed has none, as an earlier release
// left it, until it is.
func crashLabel(ch *change) string {
	if !ch.indexed {
		return ""
	}
	return "crashing:" + ch.found.record.err
}
