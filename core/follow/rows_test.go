package follow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/sim/fakefdb"
)

// desk is a store with one followed database, whose job a worker holds.
type desk struct {
	t    *testing.T
	db   *fakefdb.Database
	s    *Store
	held Held
	at   int // of the feed
	now  instant.Time
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, db: fakefdb.New(), now: 1_000_000_000}
	root := tuple.Subspace(tuple.Pack("r"))
	d.s = NewStore(root, jobstore.New(root, jobstore.DefaultConfig(repid.Server{UUID: "u"})))
	list := []Database{{Section: "couch", Name: "reps", URL: "http://s/reps/"}}
	d.do(func(tx kv.Tx) error {
		_, _, err := Follow(tx, d.s, list, []tuple.UUID{{1}}, d.now)
		return err
	})
	d.ask(Join{"w"})
	d.held = d.ask(Accept{Worker: "w", Batch: 1, Max: 1, Known: []string{list[0].ID()}}).(Accepted).Jobs[0].Held
	return d
}

func (d *desk) do(f func(tx kv.Tx) error) {
	d.t.Helper()
	if err := kv.Do(d.t.Context(), d.db, f); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) ask(q Request) (result Result) {
	d.t.Helper()
	d.do(func(tx kv.Tx) (err error) { result, err = Perform(tx, d.s, q, d.now); return err })
	return result
}

// apply has the feed bring documents.
func (d *desk) apply(list ...Incoming) Applied {
	d.t.Helper()
	q := Apply{Held: d.held, Docs: list, From: d.job().Since}
	for i := range list {
		d.at++
		list[i].Seq = peer.Seq(fmt.Sprint(d.at))
		q.Since = list[i].Seq
	}
	return d.ask(q).(Applied)
}

func (d *desk) job() (data *Job) {
	d.t.Helper()
	d.do(func(tx kv.Tx) (err error) { _, data, err = d.held.read(tx, d.s); return err })
	return data
}

// row is what is known of a document, and whether its state is due.
func (d *desk) row(id string) (r *row, due bool) {
	d.t.Helper()
	d.do(func(tx kv.Tx) (err error) {
		if r, err = d.s.Keys.row(tx, d.held.ID, id); err != nil {
			return err
		}
		value, err := tx.Get(d.s.Keys.due(d.held.ID, id))
		due = value != nil
		return err
	})
	return r, due
}

// know has the store know this of a document.
func (d *desk) know(id string, r row, due bool) {
	d.t.Helper()
	d.do(func(tx kv.Tx) error {
		d.s.Keys.put(tx, d.held.ID, id, r)
		if tx.Clear(d.s.Keys.due(d.held.ID, id)); due {
			tx.Set(d.s.Keys.due(d.held.ID, id), nil)
		}
		return nil
	})
}

// mirrored is the revision and the body of a document in the mirror, both empty if there is none.
func (d *desk) mirrored(id string) (rev, body string) {
	d.t.Helper()
	d.do(func(tx kv.Tx) error {
		db, err := d.s.mirror(tx, d.held.ID)
		if err != nil {
			return err
		}
		doc, err := db.Read(id, docs.Want{})
		if err == nil {
			rev, body = doc.Rev.String(), string(doc.Body)
		}
		return nil
	})
	return rev, body
}

const bodyX, bodyY = `{"source":"http://a/x","target":"http://b/x"}`, `{"source":"http://a/y","target":"http://b/y"}`

// digests has digests in the place of names: x and y of bodies, and what _replication_state says; empty, or none where
// that means that nothing is known, of a document without a state.
func (r row) digests(t *testing.T) row {
	state := func(name string) string {
		_, _, digest, err := split(stated(bodyX, strings.TrimSuffix(name, "none")))
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	_, x, _, _ := split([]byte(bodyX))
	_, y, _, _ := split([]byte(bodyY))
	r.Digest, r.State = map[string]string{"": x, "y": y}[r.Digest], state(r.State)
	sent := r.sent()
	for i, name := range sent {
		sent[i] = state(name)
	}
	if r.Sent != "" {
		r.Sent, sent = sent[0], sent[1:]
	}
	r.Was = strings.Join(sent, " ")
	return r
}

// TestWhoseWrite: what a document is taken for that the feed brings, by what is known of it. Where the mirror is
// written a user has edited it, or ended or begun its replication; everywhere else it is as it was, or a write of ours.
func TestWhoseWrite(t *testing.T) {
	const completed, failed = "completed", "failed"
	for name, c := range map[string]struct {
		mirror, owner string // state and owner that the mirror has
		old           row
		is            Incoming // with the name of its body in Body
		state         string
		want          row
		written       bool
		due           string // set, cleared or, if empty, as before
	}{
		"the same revision": {
			mirror: completed, old: row{Rev: "1-a", State: completed, Sent: failed, Was: completed, Over: "0-z"},
			is: Incoming{Rev: "1-a"}, state: completed,
			want: row{Rev: "1-a", State: completed, Sent: failed, Was: completed, Over: "0-z"},
		},
		"our write, as the feed brings it": {
			mirror: completed, old: row{Rev: "2-b", State: completed, Over: "1-a"},
			is: Incoming{Rev: "2-b"}, state: completed,
			want: row{Rev: "2-b", State: completed, Over: "1-a"}, due: "cleared",
		},
		"our write, after which the job has another state": {
			mirror: completed, old: row{Rev: "2-b", State: failed, Over: "1-a"},
			is: Incoming{Rev: "2-b"}, state: failed,
			want: row{Rev: "2-b", State: failed, Over: "1-a"},
		},
		"our write, while the next one is on its way": {
			mirror: completed, old: row{Rev: "2-b", State: completed, Sent: failed, Over: "1-a"},
			is: Incoming{Rev: "2-b"}, state: completed,
			want: row{Rev: "2-b", State: completed, Sent: failed, Over: "1-a"},
		},
		"the revision before our write": {
			mirror: completed, old: row{Rev: "2-b", State: completed, Over: "1-a"},
			is:   Incoming{Rev: "1-a"},
			want: row{Rev: "1-a", Sent: completed}, due: "set",
		},
		"the revision before our write, behind which another was sent": {
			mirror: completed, old: row{Rev: "2-b", State: failed, Sent: completed, Over: "1-a"},
			is:   Incoming{Rev: "1-a"},
			want: row{Rev: "1-a", Sent: completed, Was: failed}, due: "set",
		},
		"the revision before our write, behind which several were sent": {
			mirror: completed, old: row{Rev: "2-b", State: failed, Sent: completed, Was: failed, Over: "1-a"},
			is:   Incoming{Rev: "1-a"},
			want: row{Rev: "2-b", State: failed, Sent: completed, Was: failed, Over: "1-a"}, due: "set",
		},
		"a revision before several writes of ours": {
			mirror: completed, old: row{Rev: "3-c", State: completed, Over: "2-b 1-a", Epoch: 7},
			is:   Incoming{Rev: "1-a"},
			want: row{Rev: "3-c", State: completed, Over: "2-b 1-a"}, due: "set",
		},
		"a revision before several writes of ours, of a backup": {
			mirror: completed, old: row{Rev: "3-c", State: completed, Over: "2-b 1-a", Epoch: 6},
			is:   Incoming{Rev: "1-a"},
			want: row{Rev: "1-a"}, written: true,
		},
		"a second write of ours whose answer was lost": {
			mirror: completed, old: row{Rev: "2-b", State: failed, Sent: completed, Over: "1-a"},
			is: Incoming{Rev: "3-c"}, state: completed,
			want: row{Rev: "3-c", State: completed, Over: "2-b 1-a"}, due: "cleared",
		},
		"a write of ours whose answer was lost": {
			mirror: completed, old: row{Rev: "1-a", Sent: completed},
			is: Incoming{Rev: "2-b"}, state: completed,
			want: row{Rev: "2-b", State: completed, Over: "1-a"}, due: "cleared",
		},
		"an earlier write of ours whose answer was lost": {
			mirror: completed, old: row{Rev: "1-a", Sent: completed, Was: failed},
			is: Incoming{Rev: "2-b"}, state: failed,
			want: row{Rev: "2-b", State: failed, Sent: completed, Was: failed, Over: "1-a"}, due: "set",
		},
		"a write of ours whose answer was lost, read in a later revision": {
			mirror: completed, old: row{Rev: "1-a", Sent: completed},
			is: Incoming{Rev: "3-c", Announced: "2-b"}, state: completed,
			want: row{Rev: "3-c", State: completed, Over: "2-b"}, due: "cleared",
		},
		"the state that the mirror has, which was not sent": {
			mirror: completed, old: row{Rev: "1-a"},
			is: Incoming{Rev: "2-b"}, state: completed,
			want: row{Rev: "2-b", State: completed}, due: "cleared",
		},
		"the state that it had, written again": {
			mirror: completed, old: row{Rev: "1-a", State: failed},
			is: Incoming{Rev: "2-b"}, state: failed,
			want: row{Rev: "2-b", State: failed}, due: "set",
		},
		"a mark of another replicator on a job that runs": {
			old: row{Rev: "1-a"},
			is:  Incoming{Rev: "2-b"}, state: "error",
			want: row{Rev: "2-b", State: "error"}, due: "set",
		},
		"an end that another replicator has written": {
			old: row{Rev: "1-a"},
			is:  Incoming{Rev: "2-b"}, state: failed,
			want: row{Rev: "2-b", State: failed}, written: true,
		},
		"another end than ours": {
			mirror: completed, old: row{Rev: "1-a", State: completed},
			is: Incoming{Rev: "2-b"}, state: failed,
			want: row{Rev: "2-b", State: failed}, written: true,
		},
		"a state that a user has removed": {
			mirror: completed, old: row{Rev: "2-b", State: completed, Over: "1-a"},
			is:   Incoming{Rev: "3-c"},
			want: row{Rev: "3-c"}, written: true,
		},
		"a state that a user has removed while another is on its way": {
			mirror: completed, old: row{Rev: "2-b", State: failed, Sent: completed, Over: "1-a"},
			is:   Incoming{Rev: "3-c"},
			want: row{Rev: "3-c", Was: completed}, written: true,
		},
		"a removal of ours whose answer was lost": {
			old:  row{Rev: "2-b", State: failed, Sent: "none", Over: "1-a"},
			is:   Incoming{Rev: "3-c"},
			want: row{Rev: "3-c", Over: "2-b 1-a"}, due: "cleared",
		},
		"an edit": {
			mirror: completed, old: row{Rev: "1-a", State: completed},
			is:   Incoming{Rev: "2-b", Announced: "2-a", Body: []byte("y")},
			want: row{Rev: "2-b", Digest: "y", Over: "2-a"}, written: true,
		},
		"an edit that has a state": {
			old: row{Rev: "1-a"},
			is:  Incoming{Rev: "2-b", Body: []byte("y")}, state: failed,
			want: row{Rev: "2-b", Digest: "y", State: failed}, written: true,
		},
		"another owner": {
			mirror: completed, owner: "ann", old: row{Rev: "1-a", State: completed},
			is: Incoming{Rev: "2-b"}, state: completed,
			want: row{Rev: "2-b", State: completed}, written: true,
		},
	} {
		for _, before := range []bool{false, true} {
			d := newDesk(t)
			first := stated(bodyX, c.mirror)
			if c.owner != "" {
				first = fmt.Appendf(nil, `{"owner":%q,%s`, c.owner, first[1:])
			}
			d.apply(Incoming{ID: "d", Rev: "1-a", Body: first})
			d.do(func(tx kv.Tx) error { // all is read anew
				data := d.job()
				data.Epoch = 7
				return d.s.Queue.Update(tx, d.held.ID, d.held.Lock, data.encode())
			})
			old, want := c.old.digests(t), c.want.digests(t)
			want.Epoch = 7
			d.know("d", old, before)
			rev, body := d.mirrored("d")
			is := c.is
			is.ID, is.Body = "d", stated(map[string]string{"": bodyX, "y": bodyY}[string(is.Body)], c.state)
			got := d.apply(is)
			now, due := d.row("d")
			wantDue := c.due == "set" || c.due == "" && before
			if now == nil || *now != want || due != wantDue || got != (Applied{N: 1, Due: c.due == "set"}) {
				t.Errorf("%s: %+v, due %v, %+v; want %+v, due %v", name, now, due, got, want, wantDue)
			}
			if after, text := d.mirrored("d"); c.written == (after == rev && text == body) {
				t.Errorf("%s: the mirror had %s, and has %s", name, body, text)
			}
		}
	}
}

// TestDeletions: a document that is gone leaves nothing behind, also one that the mirror does not have.
func TestDeletions(t *testing.T) {
	d := newDesk(t)
	d.apply(Incoming{ID: "d", Rev: "1-a", Body: []byte(bodyX)}, Incoming{ID: "e", Rev: "1-a", Body: []byte(bodyX)})
	for _, id := range []string{"d", "never"} {
		d.know(id, row{Rev: "1-a"}, true)
	}
	got := d.apply(
		Incoming{ID: "d", Rev: "2-b", Deleted: true}, Incoming{ID: "never", Rev: "2-b", Deleted: true},
		Incoming{ID: "\xff", Rev: "1-a", Body: []byte(bodyX)},
	)
	if got.N != 3 || got.Due {
		t.Errorf("applied %+v", got)
	}
	d.do(func(tx kv.Tx) error {
		db, err := d.s.mirror(tx, d.held.ID)
		if err != nil {
			return err
		}
		doc, err := db.Read("d", docs.Want{Deleted: true})
		if err == nil && (!doc.Deleted || string(doc.Body) != "{}") {
			t.Errorf("the tombstone of d is %s", doc.Body)
		}
		return err
	})
	for id, there := range map[string]bool{"d": false, "never": false, "e": true} {
		r, due := d.row(id)
		rev, _ := d.mirrored(id)
		if (r != nil) != there || due || (rev != "") != there {
			t.Errorf("of %s there is the row %+v, due %v, in the mirror %q", id, r, due, rev)
		}
	}
}

// TestWhatIsDue: which states are to be written back, by what is known of their documents, and what is noted before a
// state is sent.
func TestWhatIsDue(t *testing.T) {
	const completed, failed = "completed", "failed"
	for name, c := range map[string]struct {
		old       *row // nil for a document that is not known
		all, sent bool // what is due is gone through; the state is to be sent
		due       bool // afterwards
		want      *row // nil if it is as before
	}{
		"it is not known":              {},
		"the document has it":          {old: &row{Rev: "1-a", State: completed}},
		"the document has it, all":     {old: &row{Rev: "1-a", State: completed}, all: true},
		"it was written, and not seen": {old: &row{Rev: "2-b", State: completed, Over: "1-a"}, due: true},
		"it may have gone": {
			old: &row{Rev: "2-b", State: completed, Over: "1-a"}, all: true, sent: true, due: true,
		},
		"the document has another": {
			old: &row{Rev: "1-a", State: failed}, sent: true, due: true,
			want: &row{Rev: "1-a", State: failed, Sent: completed},
		},
		"the document has another, all": {
			old: &row{Rev: "1-a", State: failed}, all: true, sent: true, due: true,
			want: &row{Rev: "1-a", State: failed, Sent: completed},
		},
		"it was sent": {old: &row{Rev: "1-a", Sent: completed, Was: failed}, sent: true, due: true},
		"another one was sent": {
			old: &row{Rev: "1-a", Sent: failed, Over: "0-z"}, sent: true, due: true,
			want: &row{Rev: "1-a", Sent: completed, Was: failed, Over: "0-z"},
		},
	} {
		d := newDesk(t)
		d.apply(Incoming{ID: "d", Rev: "1-a", Body: stated(bodyX, completed)})
		d.do(func(tx kv.Tx) error {
			tx.Clear(d.s.Keys.doc(d.held.ID, "d"))
			tx.Set(d.s.Keys.due(d.held.ID, "d"), nil)
			return nil
		})
		var old row
		if c.old != nil {
			old = c.old.digests(t)
			d.know("d", old, true)
		}
		got := d.ask(Prepare{Held: d.held, Changed: []string{"d"}, Looked: d.job().Looked, All: c.all}).(Prepared)
		now, due := d.row("d")
		if c.sent != (len(got.States) == 1) || due != c.due || (now != nil) != (c.old != nil) {
			t.Errorf("%s: %+v, due %v, row %+v", name, got, due, now)
			continue
		}
		if want := cmp.Or(c.want, c.old); want != nil && *now != want.digests(t) {
			t.Errorf("%s: the row is %+v, want %+v", name, now, want.digests(t))
		}
		if c.sent {
			s := got.States[0]
			_, body, digest, _ := split(stated(bodyX, completed))
			text := fmt.Sprint(s.Members)
			if s.ID != "d" || s.Rev != old.Rev || !slices.Equal(s.Over, old.over()) || s.Body != body ||
				s.Digest != digest || !slices.Equal(s.Was, old.sent()) || len(s.Members) != 1 ||
				!strings.Contains(text, completed) {
				t.Errorf("%s: the state is %+v", name, s)
			}
		}
	}
}

// TestWhatIsNoted: a state that the database has is noted with the revision that has it, unless the feed was faster. It
// stays due until the feed brings it.
func TestWhatIsNoted(t *testing.T) {
	old := row{Rev: "1-a", State: "failed", Sent: "completed", Was: "error", Epoch: 3, Over: "0-z"}.digests(t)
	done := row{State: "completed"}.digests(t).State
	written, found := old, old
	written.Rev, written.Over, written.State, written.Sent, written.Was = "2-b", "1-a 0-z", done, "", ""
	found.State, found.Sent = done, "" // what was sent before may still arrive
	for name, c := range map[string]struct {
		sent Written
		want row
	}{
		"it was written":      {Written{"d", "1-a", "1-a", "2-b", done}, written},
		"it was there":        {Written{"d", "1-a", "1-a", "1-a", done}, found},
		"the feed was faster": {Written{"d", "0-z", "0-z", "1-b", done}, old},
	} {
		d := newDesk(t)
		d.know("d", old, true)
		d.ask(Sent{Held: d.held, Docs: []Written{{"gone", "1-a", "1-a", "2-b", done}, c.sent}})
		if now, due := d.row("d"); now == nil || *now != c.want || !due {
			t.Errorf("%s: %+v, due %v, want %+v", name, now, due, c.want)
		}
		if now, _ := d.row("gone"); now != nil {
			t.Errorf("%s: a document that is gone has the row %+v", name, now)
		}
	}
}

// TestDigestOfBodies: what users wrote is the same in whatever order a server sends its members, and says nothing of
// what servers add.
func TestDigestOfBodies(t *testing.T) {
	digest := func(text string) string {
		_, digest, _, err := split([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	want := digest(`{"source":"a","target":"b","weight":1}`)
	for text, same := range map[string]bool{
		`{"weight":1,"target":"b","source":"a"}`:                          true,
		`{"_id":"d","source":"a","target":"b","owner":"joe","weight":1}`:  true,
		`{"source":"a","target":"b","weight":1,"_replication_state":"x"}`: true,
		`{"source":"b","target":"a","weight":1}`:                          false,
		`{"source":"a","target":"b","weight":1,"continuous":true}`:        false,
	} {
		if is := digest(text) == want; is != same {
			t.Errorf("%s is the same: %t", text, is)
		}
	}
}
