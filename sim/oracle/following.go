package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
	"couchrelay/sim/world"
)

// following are the invariants of databases with replication documents that nodes follow. They compare the documents,
// as their users wrote them last, with the jobs of the mirror.
type following struct {
	*chronicle
	ended map[string]bool // "job n state" of all ends of jobs whose document had the number n
	made  map[string]int  // how often a job was made, by id
	sent  map[string]int  // how often a node wrote the document of a job, by id
}

var followingSubject = subject{
	invariants: []Invariant{
		{"S82", "Nothing of a document of a followed database changes but its members `_replication_...`, none is " +
			"written into a design document, and none that was deleted comes back."},
		{"S83", "A document of a followed database says only what became of the job of this very document."},
		{"S84", "A job of a followed document is made no more often than users wrote that."},
		{"S85", "Only the worker that has the job of a followed database, by the store, reads that or writes into it."},
		{"L14", "Once all trouble is over, each document of a followed database has a job that does what it says, " +
			"or says why not, or that another replicator has completed it, unless its server cannot read it."},
		{"L15", "Once all trouble is over, the documents of a followed database say which jobs are over, and how."},
		{"L16", "Once all trouble is over, no document is in a mirror that is not in the followed database."},
		{"L18", "Once all trouble is over, operators are told of no followed database that it has failed, " +
			"waits, or has changes to come, and of an error or states to come only if it cannot read a document."},
	},
	begin: func(c *chronicle) {
		f := &following{c, map[string]bool{}, map[string]int{}, map[string]int{}}
		c.on.jobChanged.add(f.note)
		c.on.followCalls.add(f.checkCall)
		c.on.ticked.add(func(world.Ticked) { f.checkDocuments() })
		c.on.atRest.add(func(struct{}) { f.checkDocuments() })
		c.on.unsettled = append(c.on.unsettled, f.unsettled)
	},
}

// followedBody is a document of a followed database, or its mirror: what users wrote, and what the replicator did.
type followedBody struct {
	users  map[string]any
	marks  map[string]any // the members that a replicator writes
	n      float64
	state  string
	reason string
}

func readFollowed(raw []byte) (b followedBody) {
	_ = json.Unmarshal(raw, &b.users) // a body that is no object has no members
	b.n, _ = b.users["n"].(float64)
	b.state, _ = b.users["_replication_state"].(string)
	b.reason, _ = b.users["_replication_state_reason"].(string)
	b.marks = map[string]any{}
	for name, value := range b.users {
		if strings.HasPrefix(name, "_replication") {
			b.marks[name] = value
			delete(b.users, name)
		}
	}
	return b
}

// mirrors reports whether a document of a mirror is what users wrote. It has an owner, also where they named none.
func (b followedBody) mirrors(wrote followedBody) bool {
	if wrote.users["owner"] == nil {
		delete(b.users, "owner")
	}
	return reflect.DeepEqual(b.users, wrote.users)
}

// of finds the followed database of a job of a document; nil for all other jobs.
func (f *following) of(record *jobstore.Record) *world.Following {
	for _, one := range f.w.Followings() {
		if record != nil && record.Database == one.Mirror().Name() {
			return one
		}
	}
	return nil
}

// note keeps how often a job was made, and how it ended. It is S84.
func (f *following) note(j jobChange) {
	one := f.of(j.after.record)
	if one == nil || j.after.header == nil {
		return
	}
	rec := j.after.record
	again := slices.ContainsFunc(rec.History, func(e jobstore.Event) bool { return e.Type == "retried" })
	if j.before.header == nil || j.before.record.Created != rec.Created {
		if f.made[j.id]++; again {
			f.made[j.id]--
		}
		if d := one.Docs[rec.DocID]; d == nil || f.made[j.id] > d.Written+f.revived(one, j.id, rec.DocID) {
			f.Fail("S84", "job %s was made %d times, and users wrote its document %+v", j.id, f.made[j.id], d)
		}
	}
	if j.after.isOver() {
		if doc := f.document(one.Mirror(), rec.DocID); doc != nil {
			f.ended[fmt.Sprint(j.id, readFollowed(doc.Body).n, rec.State)] = true
		}
	}
}

// revived is how often a document with conflicts may have become what it was before without a user: a state that was
// written over a leaf which loses has that win.
func (f *following) revived(one *world.Following, job, id string) int {
	if !one.Forked[id] {
		return 0
	}
	return f.sent[job]
}

// checkCall is S85. A worker whose clock stood still, and the process did not, may write for a moment longer: the
// revision that it names lets nothing be overwritten.
func (f *following) checkCall(c world.FollowCalls) {
	if op, edits := c.Op.(peer.EditDocs); edits {
		f.checkDocuments()
		for _, d := range op.Docs {
			f.sent[jobstore.DocumentJobs(c.Of.Mirror().Instance())+d.ID]++
		}
	}
	j, err := f.w.FollowStore().Queue.Get(f.w.Present(), c.Of.ID())
	if err != nil || j == nil {
		f.unreadable("job "+c.Of.ID(), err)
		return
	}
	holder := j.Lock.Worker
	if holder != c.Worker && !strings.HasPrefix(holder, c.Worker+"-") && !f.w.ClocksWereSet() {
		f.Fail("S85", "%s has %s of %s, whose job %q has", c.Worker, c.Op, c.Of.URL, holder)
	}
}

// checkDocuments is S82 and S83.
func (f *following) checkDocuments() {
	for _, one := range f.w.Followings() {
		db := one.DB()
		for _, id := range slices.Sorted(maps.Keys(one.Docs)) {
			if db == nil {
				break
			}
			wrote, latest := one.Doc(id), db.Latest(id)
			if gone := latest == nil || latest.Deleted; gone != (wrote.Body == nil) {
				f.Fail("S82", "document %s of %s is deleted: %v, as its user has left it: %v", id, db, gone, !gone)
				return
			} else if gone {
				continue
			}
			is, want := readFollowed(latest.Body), readFollowed(wrote.Body)
			if !reflect.DeepEqual(is.users, want.users) || wrote.Design && len(is.marks) > 0 {
				f.Fail("S82", "document %s of %s is %s, its user wrote %s", id, db, latest.Body, wrote.Body)
			}
			job := jobstore.DocumentJobs(one.Mirror().Instance()) + id
			if is.state != "" && is.state != wrote.State && !f.ended[fmt.Sprint(job, is.n, is.state)] {
				f.Fail("S83", "document %s of %s says %q, and no job of it has ended so", id, db, is.state)
			}
		}
	}
}

// unsettled is what is not done yet of what followed databases ask for: L14 to L16, and L18.
func (f *following) unsettled() *Violation {
	for _, one := range f.w.Followings() {
		if one.DB() == nil {
			return missed("L14", "database %s is not there", one.URL)
		}
		for _, id := range slices.Sorted(maps.Keys(one.Docs)) {
			if why := f.behind(one, id); why != nil {
				return why
			}
		}
	}
	views, err := follow.List(f.w.Present(), f.w.FollowStore())
	if err != nil {
		f.unreadable("followed databases", err)
	}
	for _, v := range views {
		lacks := !f.wrecked(v.ID()) && (v.Error+v.Reason != "" || v.States > 0)
		if v.Errors > 0 || v.Due != 0 || v.Behind > 0 || lacks {
			return missed("L18", "operators are told of %s: %d errors, the last %q (%s), the next attempt at %d, "+
				"%d changes and %d states to come", v.ID(), v.Errors, v.Error, v.Reason, v.Due, v.Behind, v.States)
		}
	}
	return nil
}

// wrecked reports whether the server of a followed database cannot read one of its documents.
func (f *following) wrecked(id string) bool {
	return slices.ContainsFunc(f.w.Followings(), func(one *world.Following) bool {
		return one.ID() == id && slices.ContainsFunc(slices.Sorted(maps.Keys(one.Docs)), one.Unreadable)
	})
}

// behind is what is not done yet of one document.
func (f *following) behind(one *world.Following, id string) *Violation {
	wrote, mirrored := one.Doc(id), f.document(one.Mirror(), id)
	job := jobstore.DocumentJobs(one.Mirror().Instance()) + id
	s := f.shadows[job]
	has := s != nil && s.header != nil
	switch {
	case one.Hides(id), one.Unreadable(id): // no client can know of it
		return nil
	case wrote.Body == nil || wrote.Design:
		if mirrored != nil || has {
			return missed("L16", "document %s of %s is no replication, and the mirror has %v", id, one.URL, mirrored)
		}
		return nil
	case mirrored == nil || !has:
		return missed("L14", "document %s of %s has no job", id, one.URL)
	}
	want, is := readFollowed(wrote.Body), readFollowed(mirrored.Body)
	there := readFollowed(latestBody(one, id))
	over := s.record.State.Terminal()
	refused := s.record.State == jobstore.Failed && there.reason != ""
	// A replicator that accepts a document which this service refuses may have completed it.
	elsewhere := s.record.State == jobstore.Completed && one.CompletedElsewhere(id)
	switch {
	case !is.mirrors(want):
		return missed("L14", "document %s of %s is %s, and its mirror %s", id, one.URL, wrote.Body, mirrored.Body)
	case !wrote.Valid && !refused && !elsewhere:
		return missed("L14", "document %s of %s asks for nothing, its job is %s, and it does not say why: %q", id,
			one.URL, s.record.State, there.reason)
	case wrote.Valid && !over && !(&documents{f.chronicle}).follows(job, mirrored):
		return missed("L14", "the job of document %s of %s does something else than %s", id, one.URL, wrote.Body)
	case over && wrote.State == "" && max(s.over, s.record.Created) < wrote.At && !f.w.ClocksWereSet():
		return missed("L14", "document %s of %s was written at %s, and its job is over since %s", id, one.URL, wrote.At,
			s.over)
	case over && there.state != string(s.record.State), !reflect.DeepEqual(there.marks, is.marks):
		return missed("L15", "document %s of %s says %v, its mirror %v, and its job is %s", id, one.URL, there.marks,
			is.marks, s.record.State)
	}
	return nil
}

func latestBody(one *world.Following, id string) []byte {
	if doc := one.DB().Latest(id); doc != nil && !doc.Deleted {
		return doc.Body
	}
	return nil
}
