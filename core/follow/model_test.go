package follow_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"

	"pgregory.net/rapid"
)

// users is what users of the followed database did to a document.
type users struct {
	body string // as written last; empty if it is deleted
	// over reports that its job was completed when all was known, and that no user has written it since.
	over bool
	// runs reports that it had a job, and that no user has deleted it since, also by putting a backup back.
	runs bool
	// old reports that its job may be of a document that a user has deleted so, before this one was written.
	old bool
}

// plain is a document without the marks of a replicator, and without other members; and the marks.
func plain(body []byte, without ...string) (string, map[string]any) {
	var members map[string]any
	if json.Unmarshal(body, &members) != nil {
		return "", nil
	}
	for _, name := range without {
		delete(members, name)
	}
	state := map[string]any{}
	for _, name := range docs.ReplicationMembers {
		if v, has := members[name]; has {
			state[name] = v
			delete(members, name)
		}
	}
	text, _ := json.Marshal(members)
	return string(text), state
}

// TestModel has users write, edit, clear states, delete, while jobs complete, workers die and answers get lost,
// documents cannot be read for a while, or are announced and not there, and the database is put back to backups, in any
// order. At any time documents are as users wrote them but for states, and in the end jobs and states are right.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		model := map[string]*users{}
		ids := []string{"a", "b", "c", "d", "e"}
		third := `{"target":"http://b/z","source":"http://a/z","x":[1e3,null]}`
		bodies := []string{one, other, `{"source":"http://a/x"}`, third, to(1), to(2), to(3)}
		calm := false
		w.fault = func(peer.Op) fault {
			if calm {
				return ""
			}
			all := []fault{"", "", "", "", "", "", "", lost, refused, conflicts, failsSome, leavesOut, missing}
			return rapid.SampledFrom(all).Draw(rt, "fault")
		}
		w.done = func(follow.Request) bool { return !calm && rapid.IntRange(0, 15).Draw(rt, "lost") == 7 }
		write := func(id, body string) {
			w.write(id, body)
			is := &users{body: body, old: true}
			if was := model[id]; was != nil && was.body != "" {
				is.runs, is.old = body != "" && was.runs, was.old
			}
			model[id] = is
		}
		check := func() {
			for id, m := range model {
				doc := w.couch.docs[id]
				if doc == nil || doc.deleted != (m.body == "") {
					rt.Fatalf("%s is deleted: %v", id, doc)
				}
				is, _ := plain([]byte(doc.body))
				if want, _ := plain([]byte(m.body)); m.body != "" && is != want {
					rt.Fatalf("%s is %s, its user wrote %s", id, is, want)
				}
				job, _ := w.job(id)
				if m.runs && job == "" {
					rt.Fatalf("%s is there, and its job was removed", id)
				}
				m.old = m.old && job != ""
				m.runs = m.body != "" && job != "" && !m.old
			}
		}
		work := func(rt *rapid.T) {
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				for _, k := range w.workers {
					k.act(func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "which") })
				}
				w.pass(time.Duration(rapid.IntRange(0, 3).Draw(rt, "time")) * time.Second)
			}
		}
		var backup *couch
		w.couch.unread, w.couch.hidden = map[string]bool{}, map[string]bool{}
		w.start()
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"write": func(rt *rapid.T) {
				write(rapid.SampledFrom(ids).Draw(rt, "id"), rapid.SampledFrom(bodies).Draw(rt, "body"))
			},
			"delete": func(rt *rapid.T) {
				if id := rapid.SampledFrom(ids).Draw(rt, "id"); model[id] != nil && model[id].body != "" {
					write(id, "")
				}
			},
			"clear": func(rt *rapid.T) { // users remove the state
				if id := rapid.SampledFrom(ids).Draw(rt, "id"); model[id] != nil && model[id].body != "" {
					write(id, model[id].body)
				}
			},
			"unread": func(rt *rapid.T) {
				w.couch.unread[rapid.SampledFrom(ids).Draw(rt, "id")] = true
				ways := unreadDocs()
				maps.Copy(ways, slowDocs())
				how := slices.Sorted(maps.Keys(ways))
				w.couch.unable = ways[rapid.SampledFrom(how).Draw(rt, "how")]
			},
			"read": func(rt *rapid.T) { w.couch.unread[rapid.SampledFrom(ids).Draw(rt, "id")] = false },
			"bar":  func(rt *rapid.T) { w.couch.barred = rapid.Bool().Draw(rt, "barred") },
			"hide": func(rt *rapid.T) { // also whole documents that have come before
				w.couch.hidden[rapid.SampledFrom(ids).Draw(rt, "id")] = rapid.Bool().Draw(rt, "hidden")
			},
			"backup": func(rt *rapid.T) { backup = w.couch.backup() },
			"restore": func(rt *rapid.T) {
				if backup != nil {
					restore(w, backup.backup(), model)
				}
			},
			"complete": func(rt *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(rt, "id")
				quiet := rapid.Bool().Draw(rt, "quiet")
				if quiet {
					calm = true
					w.settle(10 * time.Minute)
					calm = false
				}
				if job, _ := w.job(id); job == jobstore.Pending {
					w.complete(id)
					job, _ = w.job(id) // another document may have its replication
					if m := model[id]; m != nil {
						known := quiet && !w.couch.unread[id] && !w.couch.hidden[id]
						m.over = known && job == jobstore.Completed
					}
				}
			},
			"kill": func(rt *rapid.T) {
				if len(w.workers) > 0 {
					w.kill(w.workers[0])
				}
				w.start()
			},
			"quiet": func(rt *rapid.T) {
				calm = true
				w.settle(time.Duration(rapid.IntRange(1, 12).Draw(rt, "minutes")) * time.Minute)
				calm = false
			},
			"work": work, "goes on": work, "and on": work,
		})
		calm, w.couch.unread, w.couch.hidden = true, nil, nil
		w.settle(40 * time.Minute)
		check()
		for _, id := range ids {
			if job, _ := w.job(id); model[id] == nil && job != "" {
				rt.Fatalf("%s is not there, and has a job in state %s", id, job)
			}
		}
		for id, m := range model {
			w.judge(rt, id, m)
		}
		runs := w.couch.seq
		w.settle(5 * time.Minute)
		if now := w.couch.seq; now != runs {
			rt.Fatalf("it goes on writing: %d, then %d", runs, now)
		}
	})
}

// restore puts the database back to a backup. What users have done since is as if it had never been.
func restore(w *world, backup *couch, model map[string]*users) {
	was := w.couch
	backup.made, backup.unread, backup.unable, backup.barred, backup.hidden = was.made, was.unread, was.unable,
		was.barred, was.hidden
	w.couch = backup
	before := maps.Clone(model)
	clear(model)
	for id, d := range backup.docs {
		// A worker that has read before that the document is deleted still removes its job.
		known := before[id]
		model[id] = &users{old: known == nil || known.body == "" || known.old}
		if !d.deleted {
			model[id].body, _ = plain([]byte(d.body))
		}
	}
}

// judge compares what became of a document with what its users did.
func (w *world) judge(rt *rapid.T, id string, m *users) {
	job, _ := w.job(id)
	doc := w.couch.docs[id]
	_, state := plain([]byte(doc.body))
	valid := strings.Contains(m.body, "target")
	switch {
	case m.body == "" && job != "":
		rt.Fatalf("%s is deleted, and has a job in state %s", id, job)
	case m.body == "":
		return
	case m.over && job != jobstore.Completed:
		rt.Fatalf("%s was completed, no user has written it, and its job is %s", id, job)
	case !valid && job != jobstore.Failed, valid && job != jobstore.Pending && job != jobstore.Completed:
		rt.Fatalf("%s %s has a job in state %q", id, m.body, job)
	}
	want := any(string(job))
	if job == jobstore.Pending {
		want = nil
	}
	if state["_replication_state"] != want {
		rt.Fatalf("%s has a job in state %s and says %v", id, job, state)
	}
	w.do(func(tx kv.Tx) error {
		db, err := w.relay.Docs.Open(tx, mirror)
		if err != nil {
			return err
		}
		in, err := db.Read(id, docs.Want{})
		if err != nil {
			return err
		}
		body, mine := plain(in.Body)
		want, _ := plain([]byte(m.body))
		if body != withOwner(want) || !maps.EqualFunc(mine, state, same) {
			rt.Fatalf("the mirror has %s, the database %s", in.Body, doc.body)
		}
		return nil
	})
}

func same(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func withOwner(body string) string {
	var members map[string]any
	_ = json.Unmarshal([]byte(body), &members)
	members["owner"] = nil
	text, _ := json.Marshal(members)
	return string(text)
}
