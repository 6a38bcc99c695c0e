// Package watchers keeps the watches that are in effect in a store, and finds those that a commit ends. The
// store wakes their waiters. It is plain memory, and not safe for concurrent use.
package watchers

import (
	"bytes"
	"slices"

	"couchrelay/core/kv"
	"couchrelay/core/kv/keymap"
	"couchrelay/core/kv/ryw"
)

// Max is the number of watches that a store has at once at most, FoundationDB's default for a client.
const Max = 10_000

// Registry holds watches of type W. The zero value is empty.
type Registry[W comparable] struct {
	keys keymap.Map[[]entry[W]]
	n    int
}

type entry[W comparable] struct {
	seen []byte // the value whose change ends the watch
	w    W
}

// Len returns the number of watches.
func (r *Registry[W]) Len() int { return r.n }

// Add registers a watch of key. seen is the value that the watch's transaction saw, now the present one. If
// these differ, the watch ends at once: Add registers nothing and returns false.
func (r *Registry[W]) Add(key, seen, now []byte, w W) bool {
	if !same(seen, now) {
		return false
	}
	list := r.keys.Ref(key)
	*list = append(*list, entry[W]{seen, w})
	r.n++
	return true
}

// Remove forgets a watch, if it is registered.
func (r *Registry[W]) Remove(key []byte, w W) {
	r.take(key, func(e entry[W]) bool { return e.w == w })
}

// Changed removes and returns the watches that the mutations of a commit end. latest returns the value of a
// key after the commit.
func (r *Registry[W]) Changed(mutations []ryw.Mutation, latest func(key []byte) []byte) (ended []W) {
	for i := 0; i < len(mutations) && r.n > 0; i++ {
		m := mutations[i]
		if m.Kind == ryw.ClearRange {
			for _, key := range r.within(kv.Range{Begin: m.Key, End: m.Value}) {
				ended = append(ended, r.compare(key, latest)...)
			}
		} else if r.keys.Get(m.Key) != nil {
			ended = append(ended, r.compare(m.Key, latest)...)
		}
	}
	return ended
}

func (r *Registry[W]) within(in kv.Range) (keys [][]byte) {
	for c := r.keys.Seek(in.Begin); c.Valid() && bytes.Compare(c.Key(), in.End) < 0; c.Next() {
		keys = append(keys, c.Key())
	}
	return keys
}

func (r *Registry[W]) compare(key []byte, latest func(key []byte) []byte) []W {
	now := latest(key)
	return r.take(key, func(e entry[W]) bool { return !same(e.seen, now) })
}

// take removes and returns the watches of key that match.
func (r *Registry[W]) take(key []byte, match func(entry[W]) bool) (taken []W) {
	list := r.keys.Get(key)
	if list == nil {
		return nil
	}
	*list = slices.DeleteFunc(*list, func(e entry[W]) bool {
		matches := match(e)
		if matches {
			taken = append(taken, e.w)
		}
		return matches
	})
	r.n -= len(taken)
	if len(*list) == 0 {
		r.keys.Delete(key)
	}
	return taken
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
