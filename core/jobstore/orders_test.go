package jobstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
)

// TestOrdersByState: what an order of an operator tells of a job in each state. One that says that it has changed
// nothing, or that something is in the way, leaves the store as it was.
func TestOrdersByState(t *testing.T) {
	const changes, nothing = "changes", "" // else a part of what is in the way
	const over, paused, held, waits = "the job is over", "the job is paused", "hold server:held.t", "waits until"
	orders := map[string]func(o Operator, id string) (bool, error){
		"pause":  func(o Operator, id string) (bool, error) { return o.Pause(id, "why") },
		"resume": func(o Operator, id string) (bool, error) { return o.Resume(id, "why") },
		"retry":  func(o Operator, id string) (bool, error) { return o.Retry(id, "why") },
		"reset":  func(o Operator, id string) (bool, error) { return o.Reset(id, "why") },
		"cancel": func(o Operator, id string) (bool, error) { return o.Cancel(id) },
	}
	want := map[string]map[string]string{ // by order and document
		"pause": {
			"ready": changes, "run": changes, "crash": changes, "held": changes, "wait": changes, "paused": nothing,
			"document": changes, "reset": changes, "done": over, "bad": over, "none": nothing,
		},
		"resume": {
			"ready": nothing, "run": nothing, "crash": nothing, "held": nothing, "wait": nothing, "paused": changes,
			"document": `says "paused": true`, "reset": nothing, "done": over, "bad": over, "none": nothing,
		},
		"retry": {
			"ready": nothing, "run": changes, "crash": changes, "held": held, "wait": waits, "paused": paused,
			"document": `says "paused": true`, "reset": nothing, "done": over, "bad": changes, "none": nothing,
		},
		"reset": {
			"ready": changes, "run": changes, "crash": changes, "held": changes, "wait": changes, "paused": changes,
			"document": changes, "reset": nothing, "done": over, "bad": over, "none": nothing,
		},
		"cancel": {
			"ready": changes, "run": changes, "crash": changes, "held": changes, "wait": changes, "paused": changes,
			"document": changes, "reset": changes, "done": nothing, "bad": nothing, "none": nothing,
		},
	}
	b := newFullBench(t)
	b.put("document", `{"source":"http://h/a","target":"http://document.t/b","paused":true}`, admin)
	b.put("reset", `{"source":"http://h/a","target":"http://reset.t/b"}`, admin)
	b.reset(jobID("reset"))
	b.now = b.now.Add(time.Hour) // so that it is no repetition
	for order, give := range orders {
		for id, want := range want[order] {
			before := b.db.Hash()
			err := kv.Do(t.Context(), b.db, func(tx kv.Tx) error {
				changed, err := give(b.by(tx), jobID(id))
				told := ""
				if obstacle, is := errors.AsType[Obstacle](err); is {
					told, err = string(obstacle), nil
				}
				says := changed || strings.Contains(told, want) && (told == "") == (want == "")
				if changed != (want == changes) || !says {
					t.Errorf("%s of %s: changed %v, in the way is %q", order, id, changed, told)
				}
				if err == nil && changed {
					err = errUndone
				}
				return err
			})
			if err != nil && err != errUndone || b.db.Hash() != before {
				t.Errorf("%s of %s changes the store: %v", order, id, err)
			}
		}
	}
}

var errUndone = errors.New("what was done is not committed")

// TestPauseGivenTwice: a job that is paused already keeps its first pause, and a hold that is in force its reason.
func TestPauseGivenTwice(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	b.pause(jobID("r"))
	hold := Hold{Server: "x.t", Reason: "first"}
	b.give(func(o Operator) (bool, error) { return o.MakeHold(hold) })
	first, before := *b.record(jobID("r")).Pause, b.db.Hash()
	b.now = b.now.Add(time.Hour)
	hold.Reason = "second"
	made, _ := b.give(func(o Operator) (bool, error) { return o.MakeHold(hold) })
	if b.pause(jobID("r")) || made || *b.record(jobID("r")).Pause != first || b.db.Hash() != before {
		t.Errorf("paused by %+v, and then by %+v; another hold is made: %v", first, b.record(jobID("r")).Pause, made)
	}
}

// TestLongIDsBesideOthers: a document whose id no store can hold is refused, and those beside it are written. No store
// is asked for keys that it cannot have, nor for the job of a design document.
func TestLongIDsBesideOthers(t *testing.T) {
	b := newBench(t)
	long, body := strings.Repeat("x", 12_000), []byte(simple)
	var written []docs.Written
	r := &travelling{}
	b.do(func(tx kv.Tx) error {
		r.Reader = tx
		db, err := b.s.Docs.Open(travellingTx{tx, r}, "_replicator")
		if err != nil {
			return err
		}
		edits := []docs.Edit{
			{Document: docs.Document{ID: long, Body: body}, Token: 1},
			{Document: docs.Document{ID: "_design/d", Body: []byte(`{"language":"x"}`)}, Token: 2},
			{Document: docs.Document{ID: "r", Body: body}, Token: 3},
		}
		written, err = b.s.WriteDocs(travellingTx{tx, r}, db, edits, admin, b.now)
		return err
	})
	for _, at := range r.near {
		if len(at.Begin) > kv.MaxKeySize || b.s.Keys.Jobs.Job.Sub(jobID("_design/d")).Contains(at.Begin) {
			t.Errorf("read is %.300q", at.Begin)
		}
	}
	if len(written) != 3 || written[0].Err == nil || !written[2].Changed && written[2].Err != nil {
		t.Errorf("written are %+v", written[1:])
	}
	b.wantState(jobID("r"), Pending)
}

// TestEditOfFinished: a job that is over is listed by the servers, and under the user, that its edited document names,
// and has no id of another replication. What the job did stays.
func TestEditOfFinished(t *testing.T) {
	for _, state := range []State{Completed, Failed} {
		b := newBench(t)
		b.put("r", `{"source":"http://old/a","target":"http://t/b"}`, admin)
		w := b.accept()
		if state == Completed {
			b.complete(w)
		} else {
			b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{}) })
		}
		old := b.record(jobID("r"))
		for _, c := range []struct {
			host, more string
			same       bool
		}{
			{"old", `,"weight":7`, true}, {"new", `,"source_proxy":"http://p:1"`, false}, {"new", "", false},
			{"wrong", `,"filter":5`, false},
		} {
			body := fmt.Sprintf(`{"source":"http://%s/a","target":"http://t/b","owner":"ann",
				"_replication_state":"%s"%s}`, c.host, state, c.more)
			if c.host == "wrong" {
				b.replicated("r", "9-a", body, admin)
			} else if refused := b.put("r", body, admin); refused != nil {
				t.Fatal(refused)
			}
			rec := b.record(jobID("r"))
			if rec.State != state || rec.Error != old.Error || rec.Created != old.Created ||
				rec.Source != "http://"+c.host+"/a/" || (rec.SourceProxy != "") != strings.Contains(c.more, "proxy") {
				t.Errorf("%s: the job is %+v, and was %+v", state, rec, old)
			}
			owner := get(b, func(tx kv.Tx) (string, error) { return b.s.JobOf(tx, old.RepID) })
			if c.same != (rec.RepID == old.RepID) || !c.same && rec.RepID+rec.BaseID != "" || c.same != (owner != "") {
				t.Errorf("%s: the job is replication %q, and was %q, of job %q", state, rec.RepID, old.RepID, owner)
			}
			count := func(f Filter) int {
				f.Documents = true
				page := get(b, func(tx kv.Tx) (Listed, error) {
					return Lists{Store: b.s, Reader: tx}.Page(Listing{Filter: f, Limit: 5})
				})
				return len(page.Jobs)
			}
			got := []int{count(Filter{Server: c.host}), count(Filter{User: "ann"}), count(Filter{User: old.User})}
			if found := b.findings(); !slices.Equal(got, []int{1, 1, 0}) || len(found) > 0 {
				t.Errorf("%s, %s: listed %v; found %v", state, c.host, got, found)
			}
			if c.host != "old" && count(Filter{Server: "old"}) > 0 {
				t.Errorf("%s, %s: listed by its old server", state, c.host)
			}
		}
	}
}
