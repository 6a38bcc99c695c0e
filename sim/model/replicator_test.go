package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/replication"
)

// office is a bench with a replicator database, whose users number what they write.
type office struct {
	*bench
	sent []*Sent // by number, from 1
}

var instance = tuple.UUID{1}

// jobOfDoc is the id of the job of the document "doc".
var jobOfDoc = jobstore.DocumentJobs(instance) + "doc"

func newOffice(t *testing.T) *office {
	o := &office{bench: newBench(t)}
	o.bench.sent = func(n uint64) *Sent {
		if n == 0 || n > uint64(len(o.sent)) {
			return nil
		}
		return o.sent[n-1]
	}
	o.m.Forbids = func(design, doc []byte) bool {
		return strings.Contains(string(design), "forbids blue") && strings.Contains(string(doc), "blue")
	}
	o.s.Functions = forbidsBlue{}
	o.as(nil, func(tx kv.Tx) error { return o.s.Docs.Create(tx, "_replicator", instance, o.now) })
	return o
}

// forbidsBlue are functions that forbid what is blue.
type forbidsBlue struct{}

func (forbidsBlue) Validate(a jobstore.Asked) *docs.Error {
	if strings.Contains(string(a.New), "blue") {
		return docs.Forbidden("blue")
	}
	return nil
}

// members of a document that can be replicated.
const good = `"source": "http://s/a", "target": "http://t/b"`

// open hands the database to a transaction of a user.
func (o *office) open(f func(tx kv.Tx, db *docs.Database) error) {
	o.t.Helper()
	o.as(nil, func(tx kv.Tx) error {
		db, err := o.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		return f(tx, db)
	})
}

// edit is the edit by which a document of the database gets members, in place of the revision that is there.
func (o *office) edit(db *docs.Database, id, members string) docs.Edit {
	e := docs.Edit{Document: docs.Document{ID: id, Deleted: members == "", Body: []byte("{" + members + "}")}}
	if old, err := db.Read(id, docs.Want{Deleted: true}); err == nil && !old.Deleted {
		e.Rev = old.Rev
		if n := len(o.sent); n > 0 {
			o.sent[n-1].Over = old.Rev.String()
		}
	}
	return e
}

// numbered has members sent under the next number.
func (o *office) numbered(members string, brought bool) string {
	if members != "" {
		members = fmt.Sprintf(`"n": %d, %s`, len(o.sent)+1, members)
	}
	o.sent = append(o.sent, &Sent{Body: []byte("{" + members + "}"), Brought: brought})
	return members
}

// put has a user write the document "doc"; without members it is deleted.
func (o *office) put(members string) { o.t.Helper(); o.putAs("doc", o.numbered(members, false)) }

func (o *office) putAs(id, members string) {
	o.t.Helper()
	o.open(func(tx kv.Tx, db *docs.Database) error {
		_, err := o.s.WriteDocs(tx, db, []docs.Edit{o.edit(db, id, members)}, jobstore.Writer{Admin: true}, o.now)
		return err
	})
}

// bring has a document come from another server.
func (o *office) bring(members string) {
	o.t.Helper()
	members = o.numbered(members, true)
	o.open(func(tx kv.Tx, db *docs.Database) error {
		raw := fmt.Sprintf(`{"_id":"doc","_rev":"1-%032x",%s}`, 1, members)
		d, err := docs.ParseDocument([]byte(raw), docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		e := docs.Edit{Document: *d, Replicated: true}
		_, err = o.s.WriteDocs(tx, db, []docs.Edit{e}, jobstore.Writer{}, o.now)
		return err
	})
}

// graft has a revision come from another server, beside what is there.
func (o *office) graft(rev, members string) {
	o.t.Helper()
	members = o.numbered(members, true)
	o.open(func(tx kv.Tx, db *docs.Database) error {
		raw := fmt.Sprintf(`{"_id":"doc","_rev":"%s",%s}`, rev, members)
		d, err := docs.ParseDocument([]byte(raw), docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		e := docs.Edit{Document: *d, Replicated: true}
		_, err = o.s.WriteDocs(tx, db, []docs.Edit{e}, jobstore.Writer{}, o.now)
		return err
	})
}

// Revisions that win over what users write for a while, and one that does not.
const (
	wins  = "9-00000000000000000000000000000000"
	loses = "1-00000000000000000000000000000000"
)

// tombstone deletes the winner, of which the document is left with another leaf.
func (o *office) tombstone() {
	o.t.Helper()
	o.sent = append(o.sent, &Sent{Body: fmt.Appendf(nil, `{"n":%d,"_deleted":true}`, len(o.sent)+1)})
	o.open(func(tx kv.Tx, db *docs.Database) error {
		e := o.edit(db, "doc", fmt.Sprintf(`"n":%d`, len(o.sent)))
		e.Deleted = true
		_, err := o.s.WriteDocs(tx, db, []docs.Edit{e}, jobstore.Writer{Admin: true}, o.now)
		return err
	})
}

// slip writes a document as it is, and its job not at all.
func (o *office) slip(members string) {
	o.t.Helper()
	o.open(func(_ kv.Tx, db *docs.Database) error {
		_, err := db.Update([]docs.Edit{o.edit(db, "doc", members)})
		return err
	})
}

// slipWith has a user write a document with its job, and then change what is stored in the same transaction.
func (o *office) slipWith(members string, change func(body string) string) {
	o.t.Helper()
	members = o.numbered(members, false)
	o.open(func(tx kv.Tx, db *docs.Database) error {
		edits := []docs.Edit{o.edit(db, "doc", members)}
		if _, err := o.s.WriteDocs(tx, db, edits, jobstore.Writer{Admin: true}, o.now); err != nil {
			return err
		}
		return o.change(tx, change)
	})
}

// change changes what is stored of the document.
func (o *office) change(tx kv.Tx, change func(body string) string) error {
	db, err := o.s.Docs.Open(tx, "_replicator")
	if err != nil {
		return err
	}
	d, err := db.Read("doc", docs.Want{})
	if err != nil {
		return err
	}
	d.Body = []byte(change(string(d.Body)))
	_, err = db.Update([]docs.Edit{{Document: *d}})
	return err
}

// taken has the worker take the job of the document.
func (o *office) taken() node.Held { o.t.Helper(); o.join(); return o.accept(1) }

func fails(h node.Held) node.Fail {
	return node.Fail{Held: h, Trouble: replication.Trouble{Error: "e", Reason: "why"}}
}

// retry has an operator run the job of the document again.
func (o *office) retry() { o.t.Helper(); o.retryWith(func(body string) string { return body }) }

// retryWith does so, and then changes what is stored in the same transaction.
func (o *office) retryWith(change func(body string) string) {
	o.t.Helper()
	o.as(nil, func(tx kv.Tx) error {
		_, err := jobstore.Operator{Store: o.s, Tx: tx, By: "op", Now: o.now}.Retry(jobOfDoc, "")
		return errors.Join(err, o.change(tx, change))
	})
}

// dropsMember returns a change that loses a member of a body.
func dropsMember(name string) func(string) string {
	return func(body string) string {
		var members map[string]json.RawMessage
		_ = json.Unmarshal([]byte(body), &members) // a stored document
		delete(members, name)
		rest, _ := json.Marshal(members)
		return string(rest)
	}
}

// addsMember returns a change that adds a member to a body.
func addsMember(text string) func(string) string {
	return func(body string) string { return strings.TrimSuffix(body, "}") + "," + text + "}" }
}

// TestLifeOfDocuments: what the service does is allowed, and all steps are counted.
func TestLifeOfDocuments(t *testing.T) {
	o := newOffice(t)
	o.put(good + `, "weight": 5, "_replication_state": "triggered"`)
	o.put(good + `, "paused": true, "prioritty": 1, "comment": "a\u0026b"`) // as the service does not write it
	o.put(good + `, "continuous": true`)
	o.ask(fails(o.taken()))
	o.put(good + `, "_replication_state": "failed", "_replication_state_reason": "why"`)
	o.retry()
	o.put("")
	o.bring(`"source": "http://s/a"`)
	o.put("")
	o.put(good + `, "_replication_state": "completed", "_replication_stats": {"docs_read": 3}`)
	o.put("")
	o.putAs("_design/v", `"validate_doc_update": "red"`)
	o.put(good + `, "color": "blue"`) // which is forbidden
	o.put(good + `, "color": "red"`)
	o.check(false, 0)
	for _, step := range []transition{
		asksFirst, asksForOther, goesOn, staysOver, comesOver, isWrong, isDeleted, tells, runsAgain,
	} {
		if o.m.Counts[step] == 0 {
			t.Errorf("%q was not counted", ofDocuments[step-transitions])
		}
	}
}

// TestLeaves: a document has conflicts, and its winner changes.
func TestLeaves(t *testing.T) {
	o := newOffice(t)
	o.put(good)
	o.graft(loses, good+`, "continuous": true`)
	o.graft(wins, `"source": 1, "target": "http://t/b"`)
	o.put(good + `, "continuous": true`)
	o.ask(fails(o.taken()))
	o.tombstone() // what the first user wrote wins
	o.ask(fails(o.taken()))
	o.tombstone()
	o.put("")
	if o.check(false, 0); o.m.Counts[winsNow] != 2 {
		t.Errorf("another leaf won %d times", o.m.Counts[winsNow])
	}
}

// TestBreachesOfLeaves damages commits that write leaves.
func TestBreachesOfLeaves(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Rule
		do   func(o *office)
	}{
		{"a write over a leaf that nobody read", Winning, func(o *office) {
			o.put(good)
			o.put(good + `, "continuous": true`)
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n": 3,` + good + `}`), Over: loses})
			o.open(func(tx kv.Tx, db *docs.Database) error {
				old, err := db.Read("doc", docs.Want{})
				if err != nil {
					return err
				}
				e := docs.Edit{Document: docs.Document{ID: "doc", Rev: old.Rev, Body: []byte(`{"n":3,` + good + `}`)}}
				_, err = o.s.WriteDocs(tx, db, []docs.Edit{e}, jobstore.Writer{Admin: true}, o.now)
				return err
			})
		}},
		{"a winner that is another leaf", Winning, func(o *office) {
			o.put(good)
			o.m.leaves[jobOfDoc][wins] = `{"n":1,` + good + `}`
			o.put(good + `, "continuous": true`)
		}},
		{"a leaf that loses and is not stored as it was sent", Winning, func(o *office) {
			o.put(good)
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n":2,"comment":1,` + good + `}`), Brought: true})
			body := fmt.Sprintf(`{"_id":"doc","_rev":"%s","n":2,"owner":null,%s}`, loses, good)
			o.open(func(tx kv.Tx, db *docs.Database) error {
				d, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
				if err == nil {
					_, err = db.Update([]docs.Edit{{Document: *d, Replicated: true}})
				}
				return err
			})
		}},
		{"the job of the leaf that lost", Following, func(o *office) {
			o.put(good)
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n":2,"continuous":true,` + good + `}`), Brought: true})
			body := fmt.Sprintf(`{"_id":"doc","_rev":"%s","n":2,"continuous":true,"owner":null,%s}`, wins, good)
			o.open(func(tx kv.Tx, db *docs.Database) error {
				d, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
				if err == nil {
					_, err = db.Update([]docs.Edit{{Document: *d, Replicated: true}})
				}
				return err
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOffice(t)
			c.do(o)
			o.check(true, c.rule)
		})
	}
}

// TestForbiddenEnd: a function keeps the end of a job out of its document.
func TestForbiddenEnd(t *testing.T) {
	o := newOffice(t)
	o.put(good + `, "color": "blue"`)
	o.putAs("_design/v", `"validate_doc_update": "forbids blue"`)
	o.ask(fails(o.taken()))
	if o.check(false, 0); o.m.Counts[endsUntold] != 1 {
		t.Error("it was not counted")
	}
	o.slip(good + `, "color": "blue", "n": 2`)
	o.check(true, Storing)
}

// TestBreachesOfDocuments damages one commit of each kind.
func TestBreachesOfDocuments(t *testing.T) {
	// ends has the end of a job do something to its document as well.
	ends := func(change func(string) string) func(*office) {
		return func(o *office) {
			o.put(good + `, "comment": 1`)
			q := fails(o.taken())
			o.as(q, func(tx kv.Tx) error {
				if _, err := node.Perform(tx, o.s, q, o.now); err != nil {
					return err
				}
				return o.change(tx, change)
			})
		}
	}
	for _, c := range []struct {
		name string
		rule Rule
		do   func(o *office)
	}{
		{"a document without a job", Following, func(o *office) {
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n": 1,` + good + `}`)})
			o.slip(`"n": 1, "owner": null,` + good)
		}},
		{"a job that does not follow", Following, func(o *office) {
			o.put(good)
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n": 2, "continuous": true,` + good + `}`)})
			o.slip(`"n": 2, "continuous": true, "owner": null,` + good)
		}},
		{"a weight that does not follow", Following, func(o *office) {
			o.put(good)
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n": 2, "weight": 7,` + good + `}`)})
			o.slip(`"n": 2, "weight": 7, "owner": null,` + good)
		}},
		{"a deleted document with a job", Following, func(o *office) { o.put(good); o.slip("") }},
		{"a document that says that it is over, and its job is not", Following, func(o *office) {
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n": 1, "_replication_state": "completed",` + good + `}`)})
			o.slip(`"n": 1, "_replication_state": "completed", "owner": null,` + good)
		}},
		{"a design document with a job", Following, func(o *office) {
			o.put(good)
			o.m.jobs[jobstore.DocumentJobs(instance)+"_design/v"] = job{state: pending}
			o.putAs("_design/v", `"x": 1`)
		}},
		{"a member that is lost", Storing, func(o *office) {
			o.slipWith(good+`, "comment": 1`, dropsMember("comment"))
		}},
		{"marks that stay", Storing, func(o *office) { o.slipWith(good, addsMember(`"_replication_id": "x"`)) }},
		{"a document without an owner", Storing, func(o *office) { o.slipWith(good, dropsMember("owner")) }},
		{"a write of nobody", Storing, func(o *office) { o.put(good); o.slip(`"n": 7,` + good) }},
		{"a document that nobody wrote again", Storing, func(o *office) {
			o.put(good)
			o.slip(`"n": 1, "x": 1,` + good)
		}},
		{"a document run again that gets an owner", Storing, func(o *office) {
			o.put(good)
			o.ask(fails(o.taken()))
			o.retryWith(func(body string) string { return strings.Replace(body, `"owner":null`, `"owner":"op"`, 1) })
		}},
		{"a wrong field that is stored", Storing, func(o *office) {
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n": 1, "continuous": 1,` + good + `}`)})
			o.slip(`"n": 1, "continuous": 1, "owner": null,` + good)
		}},
		{"a wrong field that is not told", Telling, func(o *office) {
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n": 1, "continuous": 1,` + good + `}`), Brought: true})
			o.slip(`"n": 1, "continuous": 1, "owner": null,` + good)
		}},
		{"two ways to select that are stored", Storing, func(o *office) {
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n": 1, "doc_ids": ["a"], "selector": {},` + good + `}`)})
			o.slip(`"n": 1, "doc_ids": ["a"], "selector": {}, "owner": null,` + good)
		}},
		{"an edit with a wrong field that leaves the job", Telling, func(o *office) {
			o.put(good)
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n": 2, "continuous": 1,` + good + `}`), Brought: true})
			o.slip(`"n": 2, "continuous": 1, "owner": null,` + good)
		}},
		{"an edit with a wrong field that tells, and leaves the job", Following, func(o *office) {
			o.put(good)
			o.sent = append(o.sent, &Sent{Body: []byte(`{"n": 2, "continuous": 1,` + good + `}`), Brought: true})
			o.slip(`"n": 2, "continuous": 1, "owner": null, "_replication_state": "failed",` +
				`"_replication_state_reason": "continuous", "_replication_state_time": "now",` + good)
		}},
		{"an end that loses a member", Telling, ends(dropsMember("comment"))},
		{"an end that tells a replication id", Telling, ends(addsMember(`"_replication_id": "x"`))},
		{"an end that tells another reason", Telling, ends(func(body string) string {
			return strings.Replace(body, `"why"`, `"because"`, 1)
		})},
		{"an end that is not told", Telling, ends(func(body string) string {
			for _, name := range docs.ReplicationMembers {
				body = dropsMember(name)(body)
			}
			return body
		})},
		{"a state without an end", Telling, func(o *office) {
			o.put(good)
			h := o.taken()
			q := node.Record{Held: h}
			o.as(q, func(tx kv.Tx) error {
				if _, err := node.Perform(tx, o.s, q, o.now); err != nil {
					return err
				}
				return o.change(tx, addsMember(`"_replication_state": "triggered"`))
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOffice(t)
			c.do(o)
			o.check(true, c.rule)
		})
	}
}
