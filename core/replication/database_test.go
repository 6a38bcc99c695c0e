package replication

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"couchrelay/core/peer"
)

// database is one side of a replication, deliberately simple: a document is a set of leaf revisions, a sequence is a
// number.
type database struct {
	seq    int64
	at     map[string]int64             // document to the sequence of its last change
	leafs  map[string][]string          // document to its leaf revisions, oldest first
	parent map[string]map[string]string // document to revision to the one before
	local  map[string]localDoc
	start  string
}

type localDoc struct {
	rev  int
	body []byte
}

func newDatabase() *database {
	return &database{
		at: map[string]int64{}, leafs: map[string][]string{}, parent: map[string]map[string]string{},
		local: map[string]localDoc{}, start: "1",
	}
}

func (d *database) has(id, rev string) bool { _, ok := d.parent[id][rev]; return ok }

// write adds a revision with those before it, newest first.
func (d *database) write(id string, path ...string) {
	if d.has(id, path[0]) {
		return
	}
	d.seq++
	d.at[id] = d.seq
	if d.parent[id] == nil {
		d.parent[id] = map[string]string{}
	}
	for i, rev := range path {
		d.leafs[id] = slices.DeleteFunc(slices.Clone(d.leafs[id]), func(leaf string) bool { return leaf == rev })
		if !d.has(id, rev) {
			d.parent[id][rev] = append(path[i+1:], "")[0]
		}
	}
	d.leafs[id] = append(d.leafs[id], path[0])
}

// forget takes a document out of the database, as if it had never been there.
func (d *database) forget(id string) {
	delete(d.at, id)
	delete(d.leafs, id)
	delete(d.parent, id)
}

// backup is the database as it is now.
func (d *database) backup() *database {
	b := *d
	b.at, b.leafs, b.local = maps.Clone(d.at), maps.Clone(d.leafs), maps.Clone(d.local)
	b.parent = map[string]map[string]string{}
	for id, parent := range d.parent {
		b.parent[id] = maps.Clone(parent)
	}
	return &b
}

// path is a revision and those before it.
func (d *database) path(id, rev string) []string {
	var path []string
	for ; rev != ""; rev = d.parent[id][rev] {
		path = append(path, rev)
	}
	return path
}

// latest is the leaf that grew from rev.
func (d *database) latest(id, rev string) string {
	for _, leaf := range d.leafs[id] {
		if slices.Contains(d.path(id, leaf), rev) {
			return leaf
		}
	}
	return rev
}

// changes are all rows after since.
func (d *database) changes(since int64) (rows []peer.Change) {
	for id, seq := range d.at {
		if seq > since {
			rows = append(rows, peer.Change{Seq: seqOf(seq), ID: id, Revs: d.leafs[id]})
		}
	}
	slices.SortFunc(rows, func(a, b peer.Change) int { return int(numberOf(a.Seq) - numberOf(b.Seq)) })
	return rows
}

// newest is the last row of all.
func (d *database) newest() (newest peer.NewestChange) {
	if rows := d.changes(0); len(rows) > 0 {
		last := rows[len(rows)-1]
		newest.Doc = peer.DocRevs{ID: last.ID, Revs: last.Revs}
	}
	return newest
}

// seqOf words a sequence as clustered servers do: opaque, though with a number in front.
func seqOf(n int64) peer.Seq { return peer.Seq(fmt.Sprintf(`"%d-opaque"`, n)) }

func numberOf(s peer.Seq) int64 {
	n, _ := strconv.ParseInt(s.Ordinal(), 10, 64)
	return n
}
