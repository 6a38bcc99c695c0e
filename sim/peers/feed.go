package peers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/mango"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// Offer is a row of changes: a document with the leaf revisions that a filter lets through.
type Offer struct {
	ID     string
	Number int64 // of the document's last change
	Revs   []string
}

// view is what a filter lets through of a database. It is brought up to date when it is read.
type view struct {
	through int64   // the last change that is in it
	offers  []Offer // in the order of their numbers
}

// filter is the test that a replication makes of a source's documents.
type filter struct {
	name  string // equal for equal tests
	id    func(string) bool
	match func(*docs.Document) bool
}

// filter is a filter function: in this world, a Mango selector.
func (db *DB) filter(op peer.GetFilter) (peer.Filter, *peer.Failure) {
	doc := read(db, func(o *docs.Database) (*docs.Document, error) {
		doc, err := o.Read("_design/"+op.DesignDoc, docs.Want{})
		if _, missing := err.(*docs.Error); missing {
			return nil, nil
		}
		return doc, err
	})
	if doc == nil {
		return peer.Filter{}, answer(404, "not_found", "missing")
	}
	var ddoc struct{ Filters map[string]string }
	if err := json.Unmarshal(doc.Body, &ddoc); err != nil || ddoc.Filters[op.Name] == "" {
		return peer.Filter{}, answer(404, "not_found", "missing filter function")
	}
	return peer.Filter{Code: ddoc.Filters[op.Name], Rev: doc.Rev.String()}, nil
}

// selected is the test of a replication's filter, whose function is told to let a group through besides.
func (db *DB) selected(f spec.Filter, group string) (filter, *peer.Failure) {
	selector := string(f.Selector)
	switch f.Kind {
	case spec.DocIDs:
		return filter{name: "ids " + strings.Join(f.DocIDs, " "), id: docs.IDs(f.DocIDs)}, nil
	case spec.FunctionFilter:
		ddoc, name := f.DesignDoc()
		found, failure := db.filter(peer.GetFilter{DesignDoc: ddoc, Name: name})
		if failure != nil {
			return filter{}, failure
		}
		if selector = found.Code; group != "" {
			selector = fmt.Sprintf(`{"$or":[%s,{"group":%s}]}`, selector, group)
		}
	case spec.Selector:
	default:
		return filter{}, nil
	}
	compiled, err := mango.Compile([]byte(selector))
	if err != nil {
		return filter{}, answer(400, "bad_request", err.Error())
	}
	return filter{name: "selector " + selector, match: func(d *docs.Document) bool {
		ok, err := compiled.Match(d.Body, mango.Field{Name: "_id", Value: docs.AppendQuoted(nil, d.ID)})
		if want, known := selects(selector, d); known && (err != nil || ok != want) {
			db.Misjudged = fmt.Sprintf("selector %s lets %s %s through: %v, %v", selector, d.ID, d.Body, ok, err)
		}
		return err == nil && ok
	}}, nil
}

// FilterWorks returns the failure with which the database refuses a filter, or nil if it can be applied.
func (db *DB) FilterWorks(f spec.Filter) *peer.Failure {
	_, failure := db.selected(f, meant(f))
	return failure
}

// Offers returns the changes that a replication with this filter has to bring over, with all leaves or, if
// winners is set, the winning ones. It returns nil if the filter does not work.
func (db *DB) Offers(f spec.Filter, winners bool) []Offer {
	test, failure := db.selected(f, meant(f))
	if failure != nil {
		return nil
	}
	return db.offers(test, winners)
}

func (db *DB) offers(f filter, winners bool) []Offer {
	name := f.name
	if winners {
		name += " winners"
	}
	v := db.views[name]
	if v == nil {
		v = &view{}
		db.views[name] = v
	}
	if v.through < db.last() {
		db.extend(v, f, winners)
	}
	return v.offers
}

// extend adds the changes since the view was last read, and removes the rows of documents that changed again.
func (db *DB) extend(v *view, f filter, winners bool) {
	from, again := docs.Seq{}, map[string]bool{}
	if v.through > 0 {
		from = db.order[v.through-1]
		for _, id := range db.changed[v.through:] {
			again[id] = true
		}
		v.offers = slices.DeleteFunc(slices.Clone(v.offers), func(o Offer) bool { return again[o.ID] })
	}
	for number := v.through; ; {
		page := read(db, func(o *docs.Database) (docs.Page, error) {
			return o.Changes(docs.Query{Since: from, Limit: 1000, AllDocs: !winners, ID: f.id, Match: f.match})
		})
		for _, r := range page.Rows {
			for number++; db.order[number-1] != r.Seq; number++ {
			}
			offer := Offer{ID: r.ID, Number: number}
			for _, rev := range r.Revs {
				offer.Revs = append(offer.Revs, rev.String())
			}
			v.offers = append(v.offers, offer)
		}
		if from = page.Last; !page.More {
			break
		}
	}
	v.through = db.last()
}

// after are the offers after a number.
func after(offers []Offer, since int64) []Offer {
	i, _ := slices.BinarySearchFunc(offers, since+1, func(o Offer, n int64) int { return int(o.Number - n) })
	return offers[i:]
}

// OffersAfter are the Offers after a number.
func (db *DB) OffersAfter(since int64, f spec.Filter, winners bool) []Offer {
	return after(db.Offers(f, winners), since)
}

// changes are all rows after a number.
func (db *DB) changes(since int64, f spec.Filter, winners bool) ([]peer.Change, *peer.Failure) {
	test, failure := db.selected(f, told(f))
	if failure != nil {
		return nil, failure
	}
	offers := after(db.offers(test, winners), since)
	rows := make([]peer.Change, len(offers))
	for i, o := range offers {
		rows[i] = peer.Change{Seq: db.seq(o.Number), ID: o.ID, Revs: o.Revs}
		if db.Server.Numeric {
			rows[i].Revs = slices.Clone(o.Revs)
			slices.SortFunc(rows[i].Revs, byLength)
		}
	}
	return rows, nil
}

// keepsPlace reports whether the change at a sequence may be that of a document: one that was edited since has a later
// one.
func keepsPlace(db *DB, at peer.Seq, id string) bool {
	rest := after(db.offers(filter{}, false), db.Number(at)-1)
	return len(rest) > 0 && (rest[0].ID == id || db.seq(rest[0].Number) != at)
}

// newestOf is the newest change of all.
func newestOf(db *DB) (newest peer.NewestChange) {
	if all := db.offers(filter{}, false); len(all) > 0 {
		last := all[len(all)-1]
		newest.Doc = peer.DocRevs{ID: last.ID, Revs: last.Revs}
	}
	return newest
}

// byLength is an order of leaves as PouchDB has it: by the lengths of their histories, whichever are deleted. Among
// equals, which PouchDB has in any order, the winner is the last.
func byLength(a, b string) int {
	x, _ := revtree.ParseRev(a)
	y, _ := revtree.ParseRev(b)
	return cmp.Or(cmp.Compare(y.Gen, x.Gen), cmp.Compare(a, b))
}

func (db *DB) pending(since int64) int64 {
	if db.Server.NoPending {
		return -1
	}
	return int64(len(after(db.offers(filter{}, false), since)))
}
