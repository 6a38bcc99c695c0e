package couch

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"couchrelay/core/peer"
)

// findRev asks whether the source has all of some revisions of a document, and no other document's change where theirs
// was.
func (p *Pair) findRev(ctx context.Context, op peer.FindRev) (peer.RevFound, *peer.Failure) {
	found, f := p.hasLeaves(ctx, op)
	if f != nil {
		// The source may be unable to read the document, or a firewall may refuse the document for its contents. The
		// question which revisions the source has sends no contents.
		refused := f.Status == http.StatusBadRequest || f.Status == http.StatusForbidden && f.Error == ""
		unread := f.Kind == peer.Broken || f.Kind == peer.Malformed || f.Status >= http.StatusInternalServerError
		if refused || unread {
			known, failed := p.hasRevs(ctx, op)
			if failed == nil && (known.Found || refused) {
				found, f = known, nil
			}
		}
	}
	if n, numbered := op.At.Number(); f == nil && found.Found && numbered {
		found.Found, f = p.keepsPlace(ctx, n, op.ID)
	}
	return found, f
}

// keepsPlace reports whether the change with a number may be that of a document. A number belongs to one change for
// ever, and is left out of the feed once the document has a later change, so an answer that begins behind it says
// nothing against that.
func (p *Pair) keepsPlace(ctx context.Context, n int64, id string) (bool, *peer.Failure) {
	a, f := p.source.ask(ctx, request{
		method: http.MethodGet, path: "_changes",
		query: encodeQuery(
			peer.Param{Name: "since", Value: strconv.FormatInt(n-1, 10)}, peer.Param{Name: "limit", Value: "1"},
		),
	}, http.StatusOK)
	if f != nil {
		return false, f
	}
	var said struct {
		Results []struct {
			ID  string          `json:"id"`
			Seq json.RawMessage `json:"seq"` // of any type, as that of any row
		} `json:"results"`
	}
	if f := a.readJSON(maxSmall, &said); f != nil {
		return false, f
	}
	if len(said.Results) == 0 {
		return false, nil
	}
	first := said.Results[0]
	return first.ID == id || string(first.Seq) != strconv.FormatInt(n, 10), nil
}

// hasLeaves asks whether the source has all of some revisions of a document. In the place of a revision that is no leaf
// any more the source answers with the leaves that follow it.
func (p *Pair) hasLeaves(ctx context.Context, op peer.FindRev) (peer.RevFound, *peer.Failure) {
	r := request{
		method: http.MethodGet, path: escapeID(op.ID),
		query: encodeQuery(
			peer.Param{Name: "open_revs", Value: string(appendStrings(nil, op.Revs))},
			peer.Param{Name: "latest", Value: "true"},
		),
		header: []peer.Param{{Name: "Accept", Value: "application/json"}},
	}
	if lineLength(p.source.base, r) > maxRequestLine { // no server takes it
		return p.hasRevs(ctx, op)
	}
	a, f := p.source.ask(ctx, r, http.StatusOK)
	switch {
	case f != nil && f.Status == http.StatusNotFound && isAbsent(f) && strings.Contains(r.path, "%2F"):
		// A proxy that decodes paths has asked for an attachment of another document.
		found, f := p.hasRevs(ctx, op)
		if f != nil && f.Kind == peer.Status && slices.Contains([]int{401, 403, 405}, f.Status) {
			return peer.RevFound{}, nil // it may only be read
		}
		return found, f
	case f != nil && f.Status == http.StatusNotFound && isAbsent(f):
		return peer.RevFound{}, nil
	case f != nil:
		return peer.RevFound{}, f
	}
	defer a.close()
	some, all := false, true
	s := newStream(a)
	err := s.array(func(int) error {
		s.allow(maxDoc)
		raw, err := s.ReadValue()
		has := err == nil && okMember(raw) != nil
		some, all = some || has, all && has
		return err
	})
	if isTooDeep(err) {
		a.close()
		return p.hasRevs(ctx, op)
	}
	if err != nil {
		return peer.RevFound{}, a.broken(err)
	}
	a.finish()
	// A cluster whose nodes differ may answer about one revision that it is there and that it is missing: it is there.
	if some && (all || len(op.Revs) == 1) {
		return peer.RevFound{Found: true}, nil
	}
	return p.outgrew(ctx, op)
}

// outgrew reports whether a document has left behind those of some revisions that it does not have: a source keeps at
// most revs_limit revisions of a branch, and so soon forgets which ones a document had that is edited all the time. One
// that was put back to before such a revision has a history that ends before it, until it has been edited as often.
func (p *Pair) outgrew(ctx context.Context, op peer.FindRev) (peer.RevFound, *peer.Failure) {
	a, f := p.source.ask(ctx, request{
		method: http.MethodGet, path: escapeID(op.ID),
		query: encodeQuery(
			peer.Param{Name: "open_revs", Value: "all"}, peer.Param{Name: "revs", Value: "true"},
		),
		header: []peer.Param{{Name: "Accept", Value: "application/json"}},
	}, http.StatusOK)
	switch {
	case f != nil && f.Status == http.StatusNotFound && isAbsent(f):
		return peer.RevFound{}, nil
	case f != nil:
		return peer.RevFound{}, f
	}
	defer a.close()
	var documents scanner
	l, s := lineages{lacks: slices.Clone(op.Revs)}, newStream(a)
	err := s.array(func(int) error {
		s.allow(maxDoc)
		raw, err := s.ReadValue()
		if err != nil {
			return err
		}
		if doc, bad := documents.scan(okMember(raw)); bad == nil {
			l.leaf(doc)
		}
		return nil
	})
	if err != nil && !isTooDeep(err) {
		return peer.RevFound{}, a.broken(err)
	}
	return peer.RevFound{Found: err == nil && l.cover()}, nil
}

// lineages compares revisions that were leaves of a document with the leaves that it has now.
type lineages struct {
	lacks []string // revisions that are in no leaf's history so far
	begin []int    // generations with which the histories of the leaves begin that have none of the revisions
}

// leaf takes a leaf of the document.
func (l *lineages) leaf(doc document) {
	has, before := doc.lineage(), len(l.lacks)
	if l.lacks = slices.DeleteFunc(l.lacks, has); len(l.lacks) == before {
		start, hashes := doc.history()
		l.begin = append(l.begin, start-len(hashes)+1)
	}
}

// cover reports whether each revision that is lacking may be an ancestor of another leaf: its history begins behind it.
// No two leaves ever become one.
func (l *lineages) cover() bool {
	var lacks []int
	for _, rev := range l.lacks {
		generation, _, _ := strings.Cut(rev, "-")
		n, err := strconv.Atoi(generation)
		if err != nil {
			return false
		}
		lacks = append(lacks, n)
	}
	slices.Sort(lacks)
	slices.Sort(l.begin)
	for len(lacks) > 0 && len(lacks) <= len(l.begin) {
		n, begin := len(lacks)-1, len(l.begin)-1
		if lacks[n] >= l.begin[begin] {
			return false
		}
		lacks, l.begin = lacks[:n], l.begin[:begin]
	}
	return len(lacks) == 0
}

// hasRevs is hasLeaves with the question in a body, and no document in the answer.
func (p *Pair) hasRevs(ctx context.Context, op peer.FindRev) (peer.RevFound, *peer.Failure) {
	diff, f := p.source.diffRevs(ctx, peer.DiffRevs{Docs: []peer.DocRevs{{ID: op.ID, Revs: op.Revs}}})
	return peer.RevFound{Found: f == nil && len(diff.Docs) == 0}, f
}

// readNewest reads the newest change. A cluster answers with the newest change of any one shard. Sync Gateway knows no
// descending order, and answers with its oldest change.
func (p *Pair) readNewest(ctx context.Context) (peer.NewestChange, *peer.Failure) {
	a, f := p.source.ask(ctx, request{
		method: http.MethodGet, path: "_changes",
		query: encodeQuery(
			peer.Param{Name: "descending", Value: "true"}, peer.Param{Name: "limit", Value: "1"},
			peer.Param{Name: "style", Value: "all_docs"},
		),
	}, http.StatusOK)
	if f != nil {
		return peer.NewestChange{}, f
	}
	defer a.close()
	var newest row
	in := feed{stream: newStream(a)}
	err := in.object(func(name string) error {
		if name != "results" {
			return in.SkipValue()
		}
		return in.array(func(i int) (err error) {
			if i > 0 { // the server knows no limit, and the rest is not read
				return errBudget
			}
			newest, err = in.readRow()
			return err
		})
	})
	if err == nil {
		err = in.end()
	}
	switch {
	case err == nil:
		a.finish()
	case err != errBudget:
		return peer.NewestChange{}, a.broken(err)
	}
	if len(newest.Revs) == 0 || newest.ID == "" || strings.HasPrefix(newest.ID, localPrefix) {
		return peer.NewestChange{}, nil
	}
	return peer.NewestChange{Doc: peer.DocRevs{ID: newest.ID, Revs: newest.Revs}}, nil
}
