package follow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/check"
	"couchrelay/core/docs"
	"couchrelay/core/follow"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

// rowsOf returns the keys of rows about a document: what the follow knows of it, its record and its last change in the
// mirror, and the record of its job.
func (w *world) rowsOf(id string) (rows map[string][]byte) {
	_, jobID := w.job(id)
	w.do(func(tx kv.Tx) error {
		db, err := w.relay.Docs.Open(tx, mirror)
		if err == nil {
			record, _ := w.relay.Docs.Reads(db.Instance, id)
			rows = map[string][]byte{
				"known": w.store.Keys.Rows.Pack(mirror, "doc", id), "mirror": record[0],
				"job": w.relay.Keys.Jobs.Job.Pack(jobID, int64(0)),
			}
		}
		return err
	})
	for _, row := range w.db.(*fakefdb.Database).Pairs() {
		key := check.Readable(tuple.Subspace(tuple.Pack("r")), row.Key)
		if of := strings.Split(key, "/"); of[0] == "docs" && len(of) == 7 && of[6] == id {
			rows["change"] = row.Key
		}
	}
	return rows
}

// to is the i-th of documents with replications of their own.
func to(i int) string { return fmt.Sprintf(`{"source":"http://a/x","target":"http://b/y%d"}`, i) }

// followed is a world in which a worker follows a database with documents d0, d1 and so on.
func followed(t *testing.T, documents int) (*world, *worker) {
	w := newWorld(t)
	for i := range documents {
		w.write(fmt.Sprint("d", i), to(i))
	}
	k := w.start()
	w.settle(10 * time.Second)
	return w, k
}

// told is how often operators were told of a document that is left out.
func (k *worker) told(id string) (n int) {
	for _, note := range k.notes {
		if note.What == "follow_unreadable" && strings.Contains(note.Text, fmt.Sprintf("document %q is left out", id)) {
			n++
		}
	}
	return n
}

// TestUnreadableDocument: a row of one document that cannot be read keeps no others of its database from being
// followed. What the feed brought of it is done once it can be read, whether the document was edited or deleted.
func TestUnreadableDocument(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		for _, name := range []string{"known", "mirror", "job"} {
			w := newWorld(t)
			var list []string
			for i := range 9 {
				list = append(list, fmt.Sprint("d", i))
				w.write(list[i], to(i))
			}
			k := w.start()
			w.settle(10 * time.Second)
			mend := w.damage(w.rowsOf("d4")[name])
			for i, id := range list {
				if deleted {
					w.write(id, "")
				} else {
					w.write(id, to(50+i))
				}
			}
			w.settle(2 * time.Minute)
			w.write("late", to(100))
			w.settle(2 * time.Minute)
			for _, id := range append(list, "late") {
				if id == "d4" {
					continue
				}
				if state, _ := w.job(id); (state == "") != (deleted && id != "late") {
					t.Errorf("deleted %v, damaged %s: %s is %q", deleted, name, id, state)
				}
			}
			if name != "known" {
				mend()
			}
			w.settle(15 * time.Minute)
			if state, _ := w.job("d4"); (state == "") != deleted {
				t.Errorf("deleted %v, damaged %s: afterwards it is %q", deleted, name, state)
			}
			if !deleted {
				w.expectBody("d4", to(54))
			}
			if n := k.told("d4"); n < 1 || n > 3 {
				t.Errorf("deleted %v, damaged %s: operators are told %d times", deleted, name, n)
			}
		}
	}
}

// expectBody demands that the mirror has a document as it was written.
func (w *world) expectBody(id, body string) {
	w.t.Helper()
	w.do(func(tx kv.Tx) error {
		db, err := w.relay.Docs.Open(tx, mirror)
		if err != nil {
			return err
		}
		doc, err := db.Read(id, docs.Want{})
		if err != nil || !strings.Contains(string(doc.Body), strings.Trim(body, "{}")) {
			w.t.Fatalf("%s is %s in the mirror: %v", id, doc.Body, err)
		}
		return nil
	})
}

// TestUnreadableState: a row of one document that cannot be read keeps no states of others from being written back.
func TestUnreadableState(t *testing.T) {
	for _, at := range []string{"known", "mirror", "change"} {
		w := newWorld(t)
		for i := range 5 {
			w.write(fmt.Sprint("d", i), to(i))
		}
		k := w.start()
		w.settle(10 * time.Second)
		for i := range 5 {
			w.complete(fmt.Sprint("d", i))
		}
		mend := w.damage(w.rowsOf("d2")[at])
		w.settle(5 * time.Minute)
		for _, id := range []string{"d0", "d1", "d3", "d4"} {
			w.expect(id, "completed", "completed")
		}
		if k.told("d2") == 0 {
			t.Errorf("damaged %s: nobody is told: %v", at, k.notes)
		}
		if at == "change" {
			w.expect("d2", "completed", "completed") // which can be read
		}
		mend()
		w.settle(15 * time.Minute)
		w.expect("d2", "completed", "completed")
		w.write("late", to(100))
		w.settle(time.Minute)
		w.complete("late")
		w.settle(2 * time.Minute)
		w.expect("late", "completed", "completed")
	}
}

// TestUnreadableLeftover: the database is made again, and of one document that it does not have a row cannot be read.
// The others go all the same, and the one once it can be read.
func TestUnreadableLeftover(t *testing.T) {
	for _, at := range []string{"known", "job"} {
		w, k := followed(t, 9)
		mend := w.damage(w.rowsOf("d4")[at])
		w.couch = newCouch("2")
		w.write("new", to(100))
		w.settle(12 * time.Minute)
		for _, i := range []int{0, 1, 2, 3, 5, 6, 7, 8} {
			if state, _ := w.job(fmt.Sprint("d", i)); state != "" {
				t.Errorf("damaged %s: d%d is %s", at, i, state)
			}
		}
		if state, _ := w.job("new"); state == "" || !k.noted("follow_unreadable") {
			t.Errorf("damaged %s: new is %q; %v", at, state, k.notes)
		}
		if at == "job" {
			mend()
		}
		w.settle(30 * time.Minute)
		if state, _ := w.job("d4"); state != "" {
			t.Errorf("damaged %s: it is %s in the end; %v", at, state, k.notes)
		}
	}
}

// TestLeftOutIsPassedOver: the database is made again, and has the document of which a row cannot be read. It is left
// out when it is read, so the sweep passes over it: else the run would read it, and sweep, again and again.
func TestLeftOutIsPassedOver(t *testing.T) {
	w, _ := followed(t, 9)
	w.damage(w.rowsOf("d4")["job"])
	w.couch = newCouch("2")
	sweeps := 0
	w.asked = func(q follow.Request) {
		if _, is := q.(follow.Sweep); is {
			sweeps++
		}
	}
	w.write("d4", to(100))
	w.settle(30 * time.Minute)
	for _, i := range []int{0, 1, 2, 3, 5, 6, 7, 8} {
		if state, _ := w.job(fmt.Sprint("d", i)); state != "" {
			t.Errorf("d%d is %s", i, state)
		}
	}
	if sweeps > 10 {
		t.Errorf("it is swept %d times in half an hour", sweeps)
	}
}

// TestTwoUnreadableStates: rows of two documents cannot be read, before their states are read or after these were
// written, when the server goes away for a while. The states of all others are written back, also later ones.
func TestTwoUnreadableStates(t *testing.T) {
	for _, at := range []string{"known", "mirror", "sent"} {
		w := newWorld(t)
		for i := range 5 {
			w.write(fmt.Sprint("d", i), to(i))
		}
		w.start()
		w.settle(10 * time.Second)
		for i := range 5 {
			w.complete(fmt.Sprint("d", i))
		}
		damage := func(row string) {
			w.damage(w.rowsOf("d1")[row])
			w.damage(w.rowsOf("d3")[row])
		}
		if at != "sent" {
			damage(at)
		}
		there := w.couch
		w.asked = func(q follow.Request) {
			if _, sent := q.(follow.Sent); sent && at == "sent" {
				w.asked, w.couch = nil, nil
				damage("known")
			}
		}
		w.settle(5 * time.Minute)
		w.couch = there
		w.settle(10 * time.Minute)
		for _, id := range []string{"d0", "d2", "d4"} {
			w.expect(id, "completed", "completed")
		}
		w.write("late", to(100))
		w.settle(time.Minute)
		w.complete("late")
		w.settle(2 * time.Minute)
		w.expect("late", "completed", "completed")
	}
}

// TestPartsOfPage: changes are applied in parts while one of them cannot be read, and each part says how many follow.
// The last one alone has come to the end.
func TestPartsOfPage(t *testing.T) {
	w := newWorld(t)
	w.couch.counts = true
	const docs = 9
	put := func(from int) {
		for i := range docs {
			w.write(fmt.Sprint("d", i), to(from+i))
		}
	}
	put(0)
	w.start()
	w.settle(10 * time.Second)
	w.damage(w.rowsOf("d4")["mirror"])
	parts := 0
	w.done = func(q follow.Request) bool {
		if q, is := q.(follow.Apply); is && len(q.Docs) > 0 {
			parts++
			last := q.Docs[len(q.Docs)-1].ID
			if behind := docs - 1 - int(last[1]-'0'); q.AtEnd != (behind == 0) || q.Behind != int64(behind) {
				t.Errorf("up to %s: at the end %t, behind %d", last, q.AtEnd, q.Behind)
			}
		}
		return false
	}
	put(50)
	w.settle(2 * time.Minute)
	if parts < 3 {
		t.Errorf("%d parts", parts)
	}
}

// TestBehindOfParts: however many of the changes that were read one transaction applies, what is stored says how many
// follow.
func TestBehindOfParts(t *testing.T) {
	w := newWorld(t)
	w.couch.counts = true
	junk := strings.Repeat("x", 300_000) // so that few fit
	for i := range 60 {
		w.write(fmt.Sprint("d", i), other[:len(other)-1]+`,"junk":"`+junk+`"}`)
	}
	parts := 0
	w.done = func(q follow.Request) bool {
		if q, is := q.(follow.Apply); is {
			job, follows := w.followed(), int64(0)
			for _, d := range w.couch.docs { // order does not matter: they are counted
				if job.Since.Before(w.couch.name(d.seq)) {
					follows++
				}
			}
			if job.Behind != follows {
				t.Errorf("up to %s: behind %d, and %d follow", job.Since, job.Behind, follows)
			}
			if job.Since != q.Since {
				parts++
			}
		}
		return false
	}
	w.start()
	if w.settle(10 * time.Second); parts < 3 {
		t.Errorf("%d parts", parts)
	}
}

// TestUnreadableMirror: while the mirror itself cannot be read, operators are told of that. No document is left out.
func TestUnreadableMirror(t *testing.T) {
	w := newWorld(t)
	w.write("d", to(0))
	k := w.start()
	w.settle(10 * time.Second)
	mend := w.damage(append(docs.Named(w.relay.Keys.Docs).Begin, tuple.Pack(mirror)...))
	w.write("d", to(1))
	w.settle(5 * time.Minute)
	if !k.noted("follow_unreadable") || k.told("d") > 0 {
		t.Errorf("operators are told of %v", k.notes)
	}
	mend()
	w.settle(time.Minute)
	w.expectBody("d", to(1))
}

// TestLeftOutIsNoStray: the state of a document that was left out is not written, and is no sign that the database was
// put back.
func TestLeftOutIsNoStray(t *testing.T) {
	w := newWorld(t)
	w.write("d", to(0))
	w.write("other", to(1))
	k := w.start()
	w.settle(10 * time.Second)
	w.damage(w.rowsOf("d")["known"])
	w.write("d", to(2))
	w.settle(2 * time.Minute)
	told := slices.Clone(k.notes)
	told = slices.DeleteFunc(told, func(n follow.Note) bool { return n.What != "follow_unreadable" })
	if len(told) != 1 || k.told("d") != 1 { // of the document, and not of the job, which can be read
		t.Fatalf("operators are told %v", told)
	}
	w.complete("d")
	w.complete("other")
	w.settle(7 * time.Minute)
	w.expect("other", "completed", "completed")
	if k.noted("follow_reread") || w.remote("d")["_replication_state"] != nil {
		t.Errorf("operators are told %v; the state is %v", k.notes, w.remote("d"))
	}
}

// TestFoundAgain: a document that was left out and is read by a later run has no other run begin for its sake.
func TestFoundAgain(t *testing.T) {
	w := newWorld(t)
	w.write("d", to(0))
	k := w.start()
	w.settle(10 * time.Second)
	w.damage(w.rowsOf("d")["known"])
	w.write("d", to(2))
	w.settle(15 * time.Minute)
	w.expectBody("d", to(2))
	before := w.runs
	w.settle(time.Hour)
	if k.told("d") != 1 || before != 2 || w.runs != before {
		t.Errorf("there were %d runs, and then %d; %v", before, w.runs, k.notes)
	}
}

// TestLeftOutAndMadeAgain: a run has left a document out when the database is made again without it, and the
// answer to the request that notes so is lost. The job of the document is removed all the same.
func TestLeftOutAndMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.write("d", to(0))
	w.write("e", to(1))
	k := w.start()
	w.settle(10 * time.Second)
	w.damage(w.rowsOf("d")["known"])
	w.write("d", to(2))
	w.settle(2 * time.Minute)
	if k.told("d") != 1 {
		t.Fatalf("operators are told %v", k.notes)
	}
	lost := 0
	w.done = func(q follow.Request) bool {
		if _, is := q.(follow.Opened); is {
			lost++
		}
		return lost == 1
	}
	w.couch = newCouch("2")
	w.write("e", to(1))
	k.cut()
	w.settle(30 * time.Minute)
	if state, _ := w.job("d"); state != "" || lost < 2 {
		t.Errorf("the job is %q; %d requests, %+v", state, lost, w.followed())
	}
}

// TestPassedOver: operators are told once of a document whose id is too long for a mirror, and others are followed.
func TestPassedOver(t *testing.T) {
	w := newWorld(t)
	k := w.start()
	for i := range 3 {
		w.write(strings.Repeat("x", 5000), to(i))
		w.write(fmt.Sprint("d", i), to(10+i))
		w.settle(10 * time.Second)
	}
	var told []string
	for _, n := range k.notes {
		if strings.Contains(n.Text, "is passed over") {
			told = append(told, n.Text)
		}
	}
	want := fmt.Sprintf("document %q is passed over: ", strings.Repeat("x", 100))
	if len(told) != 1 || !strings.HasPrefix(told[0], want) || len(told[0]) > 200 {
		t.Errorf("operators are told %q", told)
	}
	if state, _ := w.job("d2"); state == "" {
		t.Error("the last document is not followed")
	}
}

// TestReloadBesideUnreadable: a row of the mirror's feed cannot be read, so that no states are written back. A reload
// has all runs begin anew, this one too: the database is followed on.
func TestReloadBesideUnreadable(t *testing.T) {
	w := newWorld(t)
	w.write("d", to(0))
	w.start()
	w.settle(10 * time.Second)
	w.complete("d")
	var last []byte
	w.do(func(tx kv.Tx) error {
		db, err := w.relay.Docs.Open(tx, mirror)
		if err != nil {
			return err
		}
		const instances, feed = 1, 7 // in keys of package docs
		rows, err := tx.GetRange(w.relay.Keys.Docs.Sub(instances, db.Instance, feed).Range(), kv.RangeOptions{})
		last = rows[len(rows)-1].Key
		return err
	})
	w.damage(last)
	w.settle(time.Minute)
	w.follow(w.list...)
	w.write("e", to(1))
	w.settle(2 * time.Minute)
	w.expectBody("e", to(1))
}
