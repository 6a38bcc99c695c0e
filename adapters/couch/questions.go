package couch

import (
	"strconv"

	"couchrelay/core/peer"
)

// questions are those of a bulk read that nothing has answered yet, by their places in it. There may be a hundred
// thousand about revisions of one document, so none is looked for among all.
type questions struct {
	open []bool             // by place
	left int                // that are open
	of   map[string][]int   // by document, in their order; some may be answered
	at   map[revision][]int // by revision, likewise
}

type revision struct{ id, rev string }

func newQuestions(docs []peer.DocRev) questions {
	q := questions{
		open: make([]bool, len(docs)), left: len(docs),
		of: make(map[string][]int, len(docs)), at: make(map[revision][]int, len(docs)),
	}
	for i, d := range docs {
		r := revision{d.ID, d.Rev}
		q.open[i], q.of[d.ID], q.at[r] = true, append(q.of[d.ID], i), append(q.at[r], i)
	}
	return q
}

// close notes that the question at a place is answered.
func (q *questions) close(i int) {
	q.open[i] = false
	q.left--
}

// first returns the first open question about a document, -1 if there is none.
func (q *questions) first(id string) int {
	return firstOpen(q, q.of, id)
}

// find returns the first open question about a revision of a document, -1 if there is none.
func (q *questions) find(id, rev string) int { return firstOpen(q, q.at, revision{id, rev}) }

// findIn returns the first open question about a revision of a history, -1 if there is none; see document.history.
func (q *questions) findIn(id string, start int, hashes []string) int {
	found := -1
	for n, hash := range hashes {
		if i := q.find(id, strconv.Itoa(start-n)+"-"+hash); i >= 0 && (found < 0 || i < found) {
			found = i
		}
	}
	return found
}

// firstOpen returns the first question of a list that is open, -1 if there is none, and forgets those before it.
func firstOpen[K comparable](q *questions, lists map[K][]int, key K) int {
	list := lists[key]
	for len(list) > 0 && !q.open[list[0]] {
		list = list[1:]
	}
	if lists[key] = list; len(list) == 0 {
		delete(lists, key)
		return -1
	}
	return list[0]
}
