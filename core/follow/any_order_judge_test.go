package follow_test

import (
	"encoding/json"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// check compares documents with what users wrote, and jobs that have ended for good.
func (o *order) check() {
	for id, u := range o.users {
		d := o.couch.docs[id]
		if d == nil || d.deleted != (u.body == "") {
			o.failf("%s is %+v", id, d)
		}
		if body, _ := parted(d.body); !d.deleted && body != u.body {
			o.failf("%s is %s, its user wrote %s", id, d.body, u.body)
		}
		if state, _ := o.job(id); u.known && !state.Terminal() {
			o.failf("the job of %s has ended, and is %s", id, state)
		}
	}
}

// judge compares jobs with documents in the end.
func (o *order) judge() {
	o.check()
	for _, id := range []string{"a", "b", "c"} {
		job, _ := o.job(id)
		u := o.users[id]
		if u == nil || u.body == "" {
			if job != "" || o.mirrored(id) != "" {
				o.failf("%s is not there, and has a job %s", id, job)
			}
			continue
		}
		d := o.couch.docs[id]
		body, state := parted(d.body)
		mine, mirrored := parted(o.mirrored(id))
		if mine != body || mirrored != state {
			o.failf("%s is %s in the mirror, and %s", id, o.mirrored(id), d.body)
		}
		last := 0
		if len(u.ended) > 0 {
			last = u.ended[len(u.ended)-1]
		}
		valid := strings.Contains(body, "target")
		switch {
		case job == jobstore.Pending && state != "", job.Terminal() && !strings.Contains(state, string(job)), job == "":
			o.failf("%s is %s, and its job is %s", id, d.body, job)
		case u.state != "" && !u.retry && state != u.state:
			o.failf("%s is %s, its user wrote %s", id, d.body, u.state)
		case valid && job.Terminal() && u.state != state && last < u.n:
			o.failf("%s is %s, which its job has not reached since %d", id, d.body, u.n)
		case !valid && job == jobstore.Pending:
			o.failf("%s is not valid: %s", id, job)
		}
	}
	left := 0
	o.do(func(tx kv.Tx) error {
		rows, err := tx.GetRange(o.store.Keys.Rows.Sub(mirror, "doc").Range(), kv.RangeOptions{})
		left = len(rows)
		return err
	})
	there := 0
	for _, d := range o.couch.docs {
		if !d.deleted {
			there++
		}
	}
	if left != there {
		o.failf("there are %d rows of %d documents", left, there)
	}
}

// mirrored is a document as the mirror has it; empty if it is not there.
func (o *order) mirrored(id string) (text string) {
	o.do(func(tx kv.Tx) error {
		db, err := o.relay.Docs.Open(tx, mirror)
		if err != nil {
			return err
		}
		doc, err := db.Read(id, docs.Want{})
		if text = ""; err == nil {
			text = string(doc.Body)
		}
		return nil
	})
	return text
}

// parted is a document without its state and owner, and its state without braces.
func parted(text string) (body, state string) {
	body, marks := plain([]byte(text), "owner")
	if body == "" {
		return "", ""
	}
	s, _ := json.Marshal(marks)
	return body, string(s[1 : len(s)-1])
}

// joined is the document that parted takes apart.
func joined(body, state string) string {
	if state == "" {
		return body
	}
	return body[:len(body)-1] + "," + state + "}"
}
