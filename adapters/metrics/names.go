package metrics

import (
	"maps"
	"slices"
	"sync"
	"unicode/utf8"
)

// maxNames bounds the values of a label that users choose.
const maxNames = 100

// maxName bounds such a value, in bytes.
const maxName = 255

// other is the value of a label that stands for all that have none of their own.
const other = "other"

// names are the values of a label that come from users. The first maxNames are kept; all others are other. It is safe
// for concurrent use.
type names struct {
	mu    sync.Mutex
	known map[string]bool
}

// label returns the value of the label for a name.
func (n *names) label(name string) string {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return other
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known[name] {
		if len(n.known) >= maxNames {
			return other
		}
		if n.known == nil {
			n.known = map[string]bool{}
		}
		n.known[name] = true
	}
	return name
}

// retain forgets names that are not there any more, and so makes room for those that are, in their order: gauges have
// no past that a series has to go on with.
func (n *names) retain(present []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.known, func(name string, _ bool) bool { return !slices.Contains(present, name) })
}

// oneOf returns a value that is among those, and other else.
func oneOf(value string, among ...string) string {
	if slices.Contains(among, value) {
		return value
	}
	return other
}
