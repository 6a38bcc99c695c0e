package jobstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

var anyDBs = []string{"_replicator", "a/_replicator"}

func (o *anyOrder) asks() asks {
	a := asks{n: o.draw(2), continuous: o.one(5), function: o.one(6), slow: o.one(5), paused: o.one(8)}
	a.weight = []int64{0, 0, 0, 1, 300}[o.draw(5)]
	return a
}

// someDoc is a database and the id of a document, which may not be there.
func (o *anyOrder) someDoc() (name, id string) {
	return anyDBs[o.draw(2)], []string{"a", "b", "c"}[o.draw(3)]
}

func (o *anyOrder) write() {
	name, id := o.someDoc()
	a, state := o.asks(), State("")
	if o.one(10) {
		state = []State{Completed, Failed}[o.draw(2)]
	}
	if db := o.dbs[name]; db != nil && o.one(3) { // an edit of little
		if l := winner(db.docs[id]); l != nil && !l.asks.wrong {
			a.n, a.continuous, a.function = l.asks.n, l.asks.continuous, l.asks.function
		}
	}
	o.edit(name, id, a, state, false)
}

func (o *anyOrder) deleteDoc() {
	name, id := o.someDoc()
	if db := o.dbs[name]; db != nil && db.docs[id] != nil {
		o.edit(name, id, asks{}, "", true)
	}
}

// edit replaces the winner of a document.
func (o *anyOrder) edit(name, id string, a asks, state State, deleted bool) {
	o.put(name, docs.Edit{Document: docs.Document{ID: id, Deleted: deleted}}, a, state)
}

// branch brings a revision of another server, which may ask for nothing valid.
func (o *anyOrder) branch() {
	name, id := o.someDoc()
	a, state := o.asks(), State("")
	switch o.draw(5) {
	case 0:
		a.wrong, a.function = true, false
	case 1:
		state = Completed
	}
	o.put(name, docs.Edit{Document: docs.Document{ID: id, Rev: o.someRev()}, Replicated: true}, a, state)
}

func (o *anyOrder) someRev() revtree.Rev {
	return revtree.Rev{Gen: int64(1 + o.draw(4)), ID: strings.Repeat(fmt.Sprintf("%02x", o.draw(256)), 16)}
}

// anyEdit is an edit of a document, or a branch of it.
type anyEdit struct {
	docs.Edit
	asks  asks
	state State
}

func (o *anyOrder) put(name string, edit docs.Edit, a asks, state State) {
	o.putAll(name, []anyEdit{{edit, a, state}})
}

// several writes documents together.
func (o *anyOrder) several() {
	name, list := anyDBs[o.draw(2)], []anyEdit{}
	for _, id := range []string{"a", "b", "c", "a"} {
		e := anyEdit{Edit: docs.Edit{Document: docs.Document{ID: id}}, asks: o.asks()}
		e.Replicated = len(list) == 3
		if e.Replicated {
			e.Rev = o.someRev()
		} else if db := o.dbs[name]; db != nil && db.docs[id] != nil {
			e.Deleted = o.one(4)
		}
		if e.Deleted {
			e.asks = asks{}
		}
		list = append(list, e)
	}
	o.putAll(name, list[o.draw(2):3+o.draw(2)])
}

func (o *anyOrder) putAll(name string, list []anyEdit) {
	user, now := []string{"ann", "bob"}[o.draw(2)], o.now
	edits := make([]docs.Edit, len(list))
	for i, e := range list {
		token++
		e.Token, e.Body = token, []byte("{}")
		if !e.Deleted {
			e.Body = []byte(e.asks.body())
		}
		if e.state != "" {
			e.Body = fmt.Appendf(nil, `%s,"_replication_state":%q}`, strings.TrimSuffix(e.asks.body(), "}"), e.state)
		}
		edits[i] = e.Edit
		o.say("%s: write %s/%s %v deleted %v, of %s, %s, %+v", now, name, e.ID, e.Rev, e.Deleted, user, e.state, e.asks)
	}
	all, _, err := do(o, true, func(tx kv.Tx) ([]docs.Written, error) {
		db, err := o.s.Docs.Open(tx, name)
		if err != nil {
			return nil, err
		}
		edits := slices.Clone(edits)
		for i := range edits {
			if old, err := db.Read(edits[i].ID, docs.Want{Deleted: true}); err == nil && !edits[i].Replicated {
				edits[i].Rev = old.Rev
			}
		}
		return o.s.WriteDocs(tx, db, edits, Writer{Name: user, Admin: true}, now)
	})
	db := o.dbs[name]
	if db == nil {
		if !errors.Is(err, docs.ErrNoDatabase) {
			o.failf("written into no database: %v", err)
		}
		return
	}
	if err != nil || len(all) != len(list) {
		o.failf("written are %d, %v", len(all), err)
	}
	var follow []string
	for i, e := range list {
		if o.written(db, e, all[i], user) {
			follow = append(follow, e.ID)
		}
	}
	for _, id := range follow {
		o.follow(name, id, now)
	}
}

// written has a document have another leaf, and reports whether its job follows.
func (o *anyOrder) written(db *twinDB, e anyEdit, w docs.Written, user string) bool {
	if w.Err != nil {
		o.failf("%s is refused: %v", e.ID, w.Err)
	}
	leaves := db.docs[e.ID]
	before := winner(leaves)
	if !e.Replicated {
		leaves = slices.DeleteFunc(leaves, func(l *twinLeaf) bool { return l == before })
	} else if slices.ContainsFunc(leaves, func(l *twinLeaf) bool { return l.rev == e.Rev }) || !w.Changed {
		return false
	}
	db.docs[e.ID] = append(leaves, &twinLeaf{rev: w.Rev, deleted: e.Deleted, asks: e.asks, state: e.state, user: user})
	return !e.Replicated || before == nil || winner(db.docs[e.ID]) != before
}

// drop deletes a database, or makes it anew.
func (o *anyOrder) drop() {
	if !o.one(2) {
		return
	}
	name, now := anyDBs[o.draw(2)], o.now
	db := o.dbs[name]
	if db == nil {
		o.made++
		instance := tuple.UUID{9, byte(o.made)}
		o.say("create %s", name)
		_, _, err := do(o, true, func(tx kv.Tx) (bool, error) { return true, o.s.Docs.Create(tx, name, instance, now) })
		if err == nil && o.dbs[name] == nil {
			o.dbs[name] = &twinDB{instance: instance, docs: map[string][]*twinLeaf{}}
		}
		return
	}
	o.say("drop %s", name)
	instance := db.instance
	_, _, err := do(o, true, func(tx kv.Tx) (bool, error) {
		in, err := o.s.Docs.Open(tx, name)
		if err != nil || in.Instance != instance {
			return false, nil
		}
		o.s.Drop(tx, instance)
		return true, o.s.Docs.Delete(tx, name, instance)
	})
	if err != nil {
		o.failf("%v", err)
	}
	if o.dbs[name] == db {
		delete(o.dbs, name)
		o.dropped[instancePrefix(instance)] = true
	}
}

var anyUsers = []string{"", "ann"}

// request sends a request to /_replicate.
func (o *anyOrder) request() {
	a, user, now := o.asks(), anyUsers[o.draw(2)], o.now
	a.paused = false
	rep, err := spec.ParseRequest([]byte(a.body()), o.s.Config.Parse)
	if err != nil {
		o.failf("%v", err)
	}
	id := repid.JobID(o.s.Config.Server, rep, user)
	o.say("%s: request %s of %q: %+v", now, id, user, a)
	_, _, err = do(o, true, func(tx kv.Tx) (string, error) { return o.s.Replicate(tx, rep, user, now) })
	old := o.jobs[id]
	if old != nil && !old.over() && old.asks.work() == a.work() {
		if err != nil {
			o.failf("the request is refused: %v", err)
		}
		o.byDocument(old, a)
		return
	}
	j := &twinJob{id: id, user: user, asks: a}
	if repID, _ := a.ids(); repID != "" {
		if duplicate := (*Duplicate)(nil); errors.As(err, &duplicate) {
			m := o.copy()
			if m.rival(id, repID) == nil {
				o.failf("the request is refused: %v", err)
			}
			return
		}
		if other := o.rival(id, repID); other != nil {
			o.failf("the request is taken, though job %q has its replication: %v", other.id, err)
		}
	}
	if err != nil {
		o.failf("the request is refused: %v", err)
	}
	if old != nil && !old.over() {
		j.pause, j.reset = old.pause, old.reset
	}
	o.twin.put(j, now)
}

// copy is a copy to try things with.
func (m *twin) copy() *twin {
	c := *m
	c.jobs, c.rights, c.lifted = map[string]*twinJob{}, maps.Clone(m.rights), maps.Clone(m.lifted)
	for id, j := range m.jobs {
		other := *j
		c.jobs[id] = &other
	}
	return &c
}

// withdraw cancels a request.
func (o *anyOrder) withdraw() {
	id := o.someJob()
	if j := o.jobs[id]; j == nil || j.database != "" {
		return
	}
	o.say("withdraw %q", id)
	if _, _, err := do(o, true, func(tx kv.Tx) (bool, error) { return true, o.s.Cancel(tx, id) }); err != nil {
		o.failf("%v", err)
	}
	o.remove(id)
}

// someJob is the id of a job, empty for none.
func (o *anyOrder) someJob() string {
	ids := o.ids()
	if len(ids) == 0 {
		return ""
	}
	return ids[o.draw(len(ids))]
}
