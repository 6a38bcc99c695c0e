package model

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// rivalry is about the leaves of a document that a commit writes.
type rivalry struct {
	all leaves // after the commit
	c   *Commit
	d   *documentChange
}

// judgeLeaves judges which leaves a commit makes and replaces, and which of them is the document.
func (m *Model) judgeLeaves(c *Commit, d *documentChange) error {
	if c.Sent == nil || d.isDesign() || m.databases[prefixOf(d.id)].mirror {
		return nil
	}
	return rivalry{m.leaves[d.id], c, d}.judge()
}

func (r rivalry) judge() error {
	d := r.d
	for rev := range d.removed { // in any order: one is enough
		if !slices.Contains(d.added, rev) && !r.mayReplace(rev) {
			return fmt.Errorf("revision %s is replaced, and nobody wrote over it", rev)
		}
	}
	best := ""
	for rev := range r.all {
		if r.alive(rev) && (best == "" || compareRevs(rev, best) > 0) {
			best = rev
		}
	}
	if best != d.found.rev {
		return fmt.Errorf("its winner is %q", best)
	}
	for _, rev := range d.added {
		if err := r.judgeLoser(rev); err != nil {
			return err
		}
	}
	return nil
}

// judgeLoser has a leaf that does not win be stored as it was sent.
func (r rivalry) judgeLoser(rev string) error {
	body, there := r.all[rev]
	if !there || rev == r.d.found.rev {
		return nil // replaced since, or judged as the document
	}
	is, err := parse([]byte(body))
	if err != nil || is.number() == 0 { // a deletion by an order
		return err
	}
	s := r.c.Sent(is.number())
	if s == nil {
		return fmt.Errorf("nobody wrote %s", rev)
	}
	if sent, _ := parse(s.Body); !s.deletes() && !is.isAs(sent.kept()) {
		return fmt.Errorf("users wrote %v as %s", sent, rev)
	}
	return nil
}

// mayReplace reports whether the commit writes over a leaf. A user writes over the one that was read, and a document
// that is deleted begins anew where it ended. What the service writes has the number of what is there, and nodes write
// over the winner. An order deletes all.
func (r rivalry) mayReplace(rev string) bool {
	c, d := r.c, r.d
	was, _ := parse([]byte(d.removed[rev])) // which was judged
	for _, added := range d.added {
		body, there := r.all[added]
		is, _ := parse([]byte(body))
		n := is.number()
		switch s := c.Sent(n); {
		case !there:
		case c.Request != nil:
			return rev == d.was.rev
		case n == 0, n == was.number(), s == nil, s.Over == rev, s.Over == "" && d.was == document{}:
			return true
		}
	}
	return d.found == document{}
}

// alive reports whether a leaf is no deletion. An order deletes a document with nothing in it.
func (r rivalry) alive(rev string) bool {
	is, _ := parse([]byte(r.all[rev]))
	s := r.c.Sent(is.number())
	return is.number() != 0 && (s == nil || !s.deletes())
}

// deletes reports whether a user deletes the document, or a leaf of it.
func (s *Sent) deletes() bool { return bytes.Contains(s.Body, []byte(`"_deleted":true`)) }

// compareRevs compares revisions of leaves that are not deleted: the longer history wins, then the greater name.
func compareRevs(a, b string) int {
	generation := func(rev string) (n int, name string) {
		number, name, _ := strings.Cut(rev, "-")
		n, _ = strconv.Atoi(number)
		return n, name
	}
	m, x := generation(a)
	n, y := generation(b)
	return cmp.Or(cmp.Compare(m, n), cmp.Compare(x, y))
}
