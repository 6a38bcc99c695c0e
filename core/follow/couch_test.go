package follow_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/peer"
)

// couch is a database of another server, as far as a run that follows it can tell.
type couch struct {
	instance string
	docs     map[string]*document
	seq      int64
	made     int64             // how many revisions were written so far, also those that a backup does not have
	deny     map[string]string // by document that nobody may write: the error
	whole    int               // the status with which an edit of the document "large" is refused, and all beside it
	unread   map[string]bool   // documents for which requests fail; "*" are all, and "" those for none
	unable   peer.Failure      // how such a request fails
	barred   bool              // so do all other requests about them
	hidden   map[string]bool   // documents that changes name, and that are never there
	known    map[string]bool   // revisions, also those that have others behind them
	page     int               // rows in an answer at most; 0 for as many as are asked for
	// losersFirst names the leaves of a document that lose before the one that wins, as PouchDB may.
	losersFirst bool
	counts      bool // it tells how many changes follow
	clustered   bool // sequences are those of a cluster
}

type document struct {
	gen     int
	seq     int64
	made    int64  // before it, in this database and its backups
	body    string // without _id and _rev
	deleted bool
	losers  []string  // its leaves that do not win
	before  *document // as it was when a leaf won that is deleted since; see fall
}

func newCouch(instance string) *couch {
	return &couch{instance: instance, docs: map[string]*document{}, deny: map[string]string{}, known: map[string]bool{}}
}

// backup is the database as it is now.
func (c *couch) backup() *couch {
	is := *c
	is.docs, is.known = maps.Clone(c.docs), maps.Clone(c.known)
	return &is
}

func (d *document) rev() string { return fmt.Sprintf("%d-%04x", d.gen, d.made) }

// put writes a revision in the place of another one, and returns its name; empty for a conflict.
func (c *couch) put(id, over, body string, deleted bool) string {
	old := c.docs[id]
	gen := 1
	switch {
	case old != nil && (over == old.rev() || over == "" && old.deleted):
		gen = old.gen + 1
	case old != nil || over != "":
		return ""
	}
	c.seq++
	c.made++
	var losers []string
	if old != nil {
		losers = old.losers
	}
	c.docs[id] = &document{gen: gen, seq: c.seq, made: c.made, body: body, deleted: deleted, losers: losers}
	c.known[id+" "+c.docs[id].rev()] = true
	return c.docs[id].rev()
}

// graft gives a document another leaf, which loses.
func (c *couch) graft(id string) {
	c.seq++
	c.made++
	is := *c.docs[id]
	is.seq = c.seq
	rev := fmt.Sprintf("1-%04x", c.made)
	is.losers = append([]string{rev}, is.losers...)
	c.docs[id], c.known[id+" "+rev] = &is, true
}

// fall deletes the leaf of a document that wins. One of generation 1, with this body, wins from now on.
func (c *couch) fall(id, body string) {
	was := c.docs[id]
	gone := fmt.Sprintf("%d-%04x", was.gen+1, c.made+1)
	c.seq++
	c.made += 2
	now := &document{gen: 1, seq: c.seq, made: c.made, body: body, losers: []string{gone}, before: was}
	c.docs[id], c.known[id+" "+gone], c.known[id+" "+now.rev()] = now, true, true
}

// name is a sequence as the server names it.
func (c *couch) name(seq int64) peer.Seq {
	if c.clustered {
		return peer.Seq(fmt.Sprintf(`"%d-g1AAAA"`, seq))
	}
	return peer.Seq(fmt.Sprint(seq))
}

// has reports whether the database knows all of these revisions of a document.
func (c *couch) has(id string, revs []string) bool {
	return !slices.ContainsFunc(revs, func(rev string) bool { return !c.known[id+" "+rev] })
}

// fault is what goes wrong with an operation.
type fault string

const (
	refused   fault = "refused" // there is no connection
	lost      fault = "lost"    // it takes effect, and its answer does not come
	conflicts fault = "conflicts"
	failsSome fault = "fails some"
	leavesOut fault = "leaves out"
	missing   fault = "missing"
	empty     fault = "empty"    // changes are answered with an object that has nothing
	garbled   fault = "garbled"  // a document is cut off
	lags      fault = "lags"     // the last of several documents is missing
	unwon     fault = "unwon"    // a document is read before its winner has come
	unfallen  fault = "unfallen" // a document is read as it was before the leaf that won was deleted
)

// answer carries out an operation.
func (c *couch) answer(op peer.Op, f fault) (reply peer.Reply) {
	if f == refused {
		return peer.Reply{Failure: &peer.Failure{Kind: peer.Unreachable}}
	}
	switch op := op.(type) {
	case peer.Open:
		reply.Result = peer.Opened{UpdateSeq: c.name(c.seq), InstanceStartTime: c.instance}
	case peer.ReadChanges:
		if reply.Result = c.changes(op); f == empty {
			reply.Result = peer.Changes{End: true, Pending: -1}
		}
	case peer.FindRev:
		if docs.ValidID(op.ID) != nil {
			return peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: 400, Error: "illegal_docid"}}
		}
		if c.barred && c.unread[op.ID] {
			failure := c.unable
			return peer.Reply{Failure: &failure}
		}
		reply.Result = peer.RevFound{Found: c.has(op.ID, op.Revs) && f != missing && !c.hidden[op.ID]}
	case peer.ReadDocs:
		if c.unreadable(op.IDs) {
			failure := c.unable
			return peer.Reply{Failure: &failure}
		}
		reply.Result = c.read(op, f)
	case peer.EditDocs:
		if slices.ContainsFunc(op.Docs, func(e peer.NewEdit) bool { return c.whole != 0 && e.ID == "large" }) {
			return peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: c.whole}}
		}
		reply.Result = c.edit(op, f)
	}
	if f == lost {
		reply = peer.Reply{Failure: &peer.Failure{Kind: peer.TimedOut}}
	}
	return reply
}

func (c *couch) changes(op peer.ReadChanges) peer.Changes {
	since, _ := strconv.ParseInt(op.Since.Ordinal(), 10, 64)
	got := peer.Changes{End: true, LastSeq: c.name(c.seq), Pending: -1}
	for id, d := range c.docs {
		if d.seq > since {
			revs := append([]string{d.rev()}, d.losers...)
			if c.losersFirst {
				slices.Reverse(revs)
			}
			got.Rows = append(got.Rows, peer.Change{Seq: c.name(d.seq), ID: id, Revs: revs})
		}
	}
	slices.SortFunc(got.Rows, func(a, b peer.Change) int { return int(c.docs[a.ID].seq - c.docs[b.ID].seq) })
	if n := min(op.Limit, cmp.Or(c.page, op.Limit)); len(got.Rows) >= n {
		if got.End = op.Wait && c.page == 0; got.End { // a long poll is over when it has its rows
			got.Pending = int64(len(got.Rows) - n)
		}
		got.Rows, got.LastSeq = got.Rows[:n], got.Rows[n-1].Seq
	} else if c.counts {
		got.Pending = 0
	}
	return got
}

func (c *couch) unreadable(ids []string) bool {
	if len(ids) == 0 {
		return c.unread[""]
	}
	return c.unread["*"] || slices.ContainsFunc(ids, func(id string) bool { return c.unread[id] })
}

func (c *couch) read(op peer.ReadDocs, f fault) (got peer.DocsRead) {
	for i, id := range op.IDs {
		if f == leavesOut && i > 0 {
			break
		}
		d := peer.DocRead{ID: id}
		away := c.hidden[id] || f == missing && i == 0 || f == lags && i == len(op.IDs)-1
		if is := c.docs[id]; is != nil && !away {
			if f == unfallen && is.before != nil {
				is = is.before
			}
			if d.Rev, d.Deleted = is.rev(), is.deleted; f == unwon && len(is.losers) > 0 {
				d.Rev = is.losers[0]
			}
			if !d.Deleted {
				d.Body = fmt.Appendf(nil, `{"_id":"%s","_rev":"%s",%s`, id, d.Rev, is.body[1:])
			}
			if f == garbled {
				d.Body = []byte("{")
			}
		}
		got.Docs = append(got.Docs, d)
	}
	return got
}

func (c *couch) edit(op peer.EditDocs, f fault) (got peer.Edited) {
	for i, e := range op.Docs {
		d := peer.EditedDoc{ID: e.ID}
		doc, err := docs.ParseDocument(e.Body, docs.ReplicationMembers...)
		switch {
		case err != nil:
			d.Error = err.Error()
		case c.deny[e.ID] != "":
			d.Error, d.Reason = c.deny[e.ID], "no"
		case f == failsSome && i%2 == 0:
			d.Error = "internal_server_error"
		case f != conflicts:
			rev := fmt.Sprintf("%d-%s", doc.Rev.Gen, doc.Rev.ID)
			d.Rev = c.put(e.ID, rev, attached(string(doc.Body), e.Body), doc.Deleted)
		}
		if d.Rev == "" && d.Error == "" {
			d.Error = "conflict"
		}
		got.Docs = append(got.Docs, d)
	}
	return got
}

// attached is a body with the attachments of the edit that it is from.
func attached(body string, edit []byte) string {
	doc, err := ejson.Parse(edit)
	if err != nil {
		return body
	}
	for _, m := range doc.Members {
		if rest := strings.TrimPrefix(body, "{"); m.Name == "_attachments" && rest != body {
			if rest != "}" {
				rest = "," + rest
			}
			return `{"_attachments":` + string(m.Value.Append(nil)) + rest
		}
	}
	return body
}
