package protocol

import (
	"slices"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// list is what the run does with the list of refused documents.
type list struct {
	refusals  map[name]*refusal
	questions int // to the store, without an answer
	listing   []*refusal
	// page is what is to be compared with the target, in one question; more are the parts that come next, if the target
	// could not read the question for all.
	page      []peer.DocRevs
	more      [][]peer.DocRevs
	comparing bool          // it is being compared
	revs      map[name]bool // that pages named
	// gone are revisions of the list that the target turned out to have, or took, or that the source has
	// replaced: true once the target has made that durable.
	gone map[name]bool
	size int // of the list, or more: nothing that left it is taken off
}

// refusal is a revision that the target refused for good.
type refusal struct {
	name
	listed bool
}

func newList() list {
	return list{refusals: map[name]*refusal{}, revs: map[name]bool{}, gone: map[name]bool{}}
}

// refuse notes a refusal.
func (l *list) refuse(n name) *refusal {
	if l.refusals[n] == nil {
		l.refusals[n] = &refusal{name: n}
	}
	return l.refusals[n]
}

// hasRoom reports whether the list surely has a place for all revisions of a document that the run wants.
func (r *Run) hasRoom(id string) bool {
	size := r.list.size
	for n := range r.wants {
		if n.id == id {
			size++
		}
	}
	return size <= r.MaxListed
}

// refuse notes a refusal that a want has to wait for until it is listed.
func (r lister) refuse(n name, w *want) {
	w.stage, w.waits = refused, []*refusal{r.list.refuse(n)}
	r.settle(w)
}

// settle concludes a want once all that was refused in its place is listed.
func (r lister) settle(w *want) {
	if !slices.ContainsFunc(w.waits, func(f *refusal) bool { return !f.listed }) {
		r.conclude(w)
	}
}

// lists judges what the run has the list know.
func (r lister) lists(findings []replication.Finding) error {
	r.list.questions++
	for _, f := range findings {
		n := name{f.ID, f.Rev}
		if f.Over {
			r.took(unlists)
			if !r.list.gone[n] && !r.twice[n.id] {
				return breach(Covering, "it takes %s of %q off the list, and the target has not kept it", n.rev, n.id)
			}
			delete(r.list.gone, n)
			continue
		}
		r.took(listsRefused)
		r.list.size++
		delete(r.list.gone, n)
		if r.twice[n.id] {
			r.refuseAll(n)
		}
		to := r.list.refusals[n]
		if w := r.lacking(n); r.Lenient && w != nil && (to == nil || to.listed) {
			// One that was listed before was told of again, or its listed ancestor was tried again.
			r.twice[n.id] = r.twice[n.id] || to != nil
			r.refuse(n, w)
			to = r.list.refusals[n]
		}
		if to != nil {
			r.list.listing = append(r.list.listing, to)
		} else if !r.list.revs[n] && !r.twice[n.id] {
			return breach(Covering, "it lists %s of %q, which the target has not refused", n.rev, n.id)
		}
	}
	return nil
}

// lacking is a want for a revision that is not on its way, nil if there is none.
func (r lister) lacking(n name) *want {
	if of := r.wants[n]; of != nil {
		for _, w := range of.list {
			if w.stage == lacking {
				return w
			}
		}
	}
	return nil
}

// refuseAll has all that wait for a revision of a document that was told of twice wait for the list.
func (r lister) refuseAll(n name) {
	to := r.list.refuse(n)
	if of := r.wants[n]; of != nil {
		for _, w := range of.list {
			if w.stage == lacking {
				w.stage, w.waits = refused, []*refusal{to}
			}
		}
	}
}

// stored takes that the list knows.
func (r lister) stored() {
	r.took(stored)
	r.list.questions--
	for _, to := range r.list.listing {
		to.listed = true
	}
	r.list.listing = nil
	for _, of := range r.wants { // order does not matter: each is concluded by itself
		for _, w := range slices.Clone(of.list) {
			if w.stage == refused {
				r.settle(w)
			}
		}
	}
}

// paged takes a page of the list. Revisions of the page before that were not tried stay for another time.
func (r lister) paged(ev replication.RefusedPage) {
	r.list.questions--
	r.list.page, r.list.more, r.list.comparing = nil, nil, false
	for _, d := range ev.Docs {
		r.list.revs[name{d.ID, d.Rev}] = true
		if n := len(r.list.page); n > 0 && r.list.page[n-1].ID == d.ID {
			r.list.page[n-1].Revs = append(r.list.page[n-1].Revs, d.Rev)
		} else {
			r.list.page = append(r.list.page, peer.DocRevs{ID: d.ID, Revs: []string{d.Rev}})
		}
	}
	for _, of := range r.wants { // order does not matter: each is dropped by itself
		of.list = slices.DeleteFunc(of.list, func(w *want) bool { return w.position == nil && w.stage == lacking })
	}
}

// isPage reports whether a comparison is that of the present page. One of rows may be equal, and is taken
// for it then: the next one counts for the rows, and both are answered alike.
func (r lister) isPage(op peer.DiffRevs) bool {
	l := &r.list
	same := func(a, b peer.DocRevs) bool { return a.ID == b.ID && slices.Equal(a.Revs, b.Revs) }
	return l.page != nil && !l.comparing && slices.EqualFunc(l.page, op.Docs, same)
}

// compared takes what the target lacks of a page.
func (l *list) compared(r *Run, got peer.Diff, ok bool) {
	l.comparing = false
	if !ok {
		return
	}
	lacks := map[name][]string{}
	for _, d := range got.Docs {
		for _, rev := range d.Missing {
			lacks[name{d.ID, rev}] = append([]string{}, d.Ancestors...)
		}
	}
	for _, d := range l.page {
		for _, rev := range d.Revs {
			n := name{d.ID, rev}
			ancestors, missing := lacks[n]
			if !missing {
				r.took(gotThrough)
				l.gone[n] = false
				continue
			}
			w := &want{name: n, stage: lacking, since: r.now}
			r.add(w)
			w.learn(ancestors)
		}
	}
	if l.page = nil; len(l.more) > 0 {
		l.page, l.more = l.more[0], l.more[1:]
	}
}

// halve has the page compared in two parts.
func (l *list) halve() {
	half := len(l.page) / 2
	l.comparing = false
	l.page, l.more = l.page[:half], append([][]peer.DocRevs{l.page[half:]}, l.more...)
}
