package follow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/check"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
)

// ids are those of the first n documents of a desk.
func ids(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("d%02d", i))
	}
	return list
}

// fill has the feed bring documents, all of them completed.
func (d *desk) fill(ids []string) {
	d.t.Helper()
	for page := range slices.Chunk(ids, 5) {
		var list []Incoming
		for _, id := range page {
			list = append(list, Incoming{ID: id, Rev: "1-a", Body: stated(bodyX, "completed")})
		}
		d.apply(list...)
	}
}

// TestPagesOfLooks: a look tells of few changes at once, of each once, and where the next one is to go on. The last one
// says how the mirror is then. A place that cannot be read is no place to begin at.
func TestPagesOfLooks(t *testing.T) {
	d := newDesk(t)
	d.s.Pages.Look = 3
	d.fill(ids(8))
	d.apply(Incoming{ID: "d03", Rev: "2-b", Deleted: true})
	var all []string
	looked := ""
	for range 3 {
		got := d.ask(Look{Held: d.held, Looked: looked}).(Seen)
		all = append(all, got.Changed...)
		if looked = got.Looked; len(got.Changed) > 3 || got.More != (len(all) < 7) {
			t.Errorf("%+v", got)
		}
		await := Await{Job: d.held.ID, At: got.At}
		d.do(func(tx kv.Tx) error {
			watch, err := Arm(tx, d.s, await)
			if err == nil && watch == nil {
				t.Error("the mirror is not as it was")
			}
			return err
		})
	}
	slices.Sort(all)
	if want := slices.DeleteFunc(ids(8), func(id string) bool { return id == "d03" }); !slices.Equal(all, want) {
		t.Errorf("changed are %q, want %q", all, want)
	}
	last := d.ask(Look{Held: d.held, Looked: looked}).(Seen)
	if len(last.Changed) > 0 || last.More || last.Looked != looked {
		t.Errorf("after the last one %+v", last)
	}
	tx := d.db.Begin(t.Context(), kv.Options{})
	defer tx.Cancel()
	if _, err := Perform(tx, d.s, Look{Held: d.held, Looked: "nowhere"}, d.now); err == nil {
		t.Error("a place that cannot be read is taken for one")
	}
}

// TestPagesOfStates: all that is due is prepared in pages, in the order of ids, whether its state is to be written or
// not, and how far the mirror was looked at is noted with the first.
func TestPagesOfStates(t *testing.T) {
	for _, n := range []int{0, 1, 2, 4, 5} {
		d := newDesk(t)
		d.s.Pages.Send = 2
		d.fill(ids(n))
		for i, id := range ids(n) {
			r, _ := d.row(id)
			if r.State = noState; i == 1 {
				r.State = (row{State: "completed"}).digests(t).State // as the mirror has it
			}
			d.know(id, *r, true)
		}
		var all []string
		q := Prepare{Held: d.held, Looked: "7-0-0", All: true}
		for pages := 0; ; pages++ {
			got := d.ask(q).(Prepared)
			for _, s := range got.States {
				all = append(all, s.ID)
			}
			if q.After = got.After; len(got.States) > 2 || pages > n/2 {
				t.Fatalf("page %d of %d documents: %+v", pages, n, got)
			}
			if !got.More {
				break
			}
		}
		want := ids(n)
		if n > 1 {
			want = slices.Delete(want, 1, 2)
		}
		if !slices.Equal(all, want) || d.job().Looked != q.Looked {
			t.Errorf("prepared are %q, want %q; looked %q", all, want, d.job().Looked)
		}
	}
}

// TestPagesOfSweeps: while all is read anew the documents that the feed has not brought again are asked for, few at
// once, each once, and go if the database does not have them. At the end all is read, and only then.
func TestPagesOfSweeps(t *testing.T) {
	for _, c := range []struct {
		n     int
		again []int // that the feed has brought again
	}{
		{n: 0}, {n: 1}, {n: 3}, {n: 1, again: []int{0}}, {n: 3, again: []int{0, 1, 2}}, {n: 7},
		{n: 7, again: []int{0, 6}}, {n: 6, again: []int{3, 4, 5}}, {n: 8, again: []int{0, 1, 2, 3, 5}},
	} {
		d := newDesk(t)
		d.s.Pages.Sweep = 3
		all := ids(c.n)
		d.fill(all)
		d.do(func(tx kv.Tx) error {
			data := d.job()
			data.another("2")
			return d.s.Queue.Update(tx, d.held.ID, d.held.Lock, data.encode())
		})
		var again, asked, want []string
		for i, id := range all {
			if slices.Contains(c.again, i) {
				again = append(again, id)
			} else {
				want = append(want, id)
			}
		}
		d.fill(again)
		q := Sweep{Held: d.held}
		for n := 0; d.job().Reconciling; n++ {
			got := d.ask(q).(Swept)
			if n > c.n+1 || len(got.Unread) > 3 || got.Whole == d.job().Reconciling {
				t.Fatalf("%+v: after %+v %+v", c, q, got)
			}
			asked = append(asked, got.Unread...)
			q.After, q.Absent = got.After, got.Unread
		}
		if !slices.Equal(asked, want) {
			t.Errorf("%+v: asked for are %q, want %q", c, asked, want)
		}
		for _, id := range all {
			r, _ := d.row(id)
			if rev, _ := d.mirrored(id); (r != nil) != slices.Contains(again, id) || (rev != "") != (r != nil) {
				t.Errorf("%+v: %s has row %+v, and is in the mirror as %q", c, id, r, rev)
			}
		}
	}
}

// TestOthersRows: what is done to a job's rows does nothing to those of another, whose name begins alike.
func TestOthersRows(t *testing.T) {
	d := newDesk(t)
	d.fill(ids(2))
	other := d.held
	other.ID += "x"
	d.do(func(tx kv.Tx) error {
		d.s.Keys.put(tx, other.ID, "e", row{Rev: "1-a"})
		tx.Set(d.s.Keys.due(other.ID, "e"), nil)
		return nil
	})
	d.do(func(tx kv.Tx) error {
		data := d.job()
		data.another("2")
		return d.s.Queue.Update(tx, d.held.ID, d.held.Lock, data.encode())
	})
	if got := d.ask(Sweep{Held: d.held}).(Swept); !slices.Equal(got.Unread, ids(2)) {
		t.Errorf("swept %+v", got)
	}
	if got := d.ask(Prepare{Held: d.held, All: true}).(Prepared); len(got.States) > 0 {
		t.Errorf("prepared %+v", got)
	}
	d.do(func(tx kv.Tx) error { _, _, err := Follow(tx, d.s, nil, nil, d.now); return err })
	d.do(func(tx kv.Tx) error {
		rows, err := tx.GetRange(d.s.Keys.Rows.Range(), kv.RangeOptions{})
		if len(rows) != 2 {
			t.Errorf("%d rows are left", len(rows))
		}
		return err
	})
}

// TestCheckOfRows: a check finds nothing in a sound store, and each row of a followed document that cannot be read, or
// belongs to nothing.
func TestCheckOfRows(t *testing.T) {
	root := tuple.Subspace(tuple.Pack("r"))
	d := newDesk(t)
	d.fill(ids(3))
	d.know("d01", row{Rev: "1-a"}, true)
	job := d.held.ID
	d.do(func(tx kv.Tx) error { d.s.Keys.put(tx, job, "doc", row{Rev: "1-a"}); return nil })
	for name, c := range map[string]struct {
		key   []byte
		value string
		sound bool
	}{
		"nothing":                {key: d.s.Keys.due(job, "d01"), sound: true},
		"a document called due":  {key: d.s.Keys.due(job, "due"), sound: true},
		"a row of another kind":  {key: d.s.Keys.Rows.Pack(job, "other", "d00")},
		"a row called doc":       {key: d.s.Keys.Rows.Pack(job, "other", "doc")},
		"a row without document": {key: d.s.Keys.Rows.Pack(job, "doc")},
		"a row of no job":        {key: d.s.Keys.due("x/y/_replicator", "d00")},
		"a garbled row":          {key: d.s.Keys.doc(job, "d00"), value: "x"},
		"an empty row":           {key: d.s.Keys.doc(job, "d00")},
	} {
		before, err := kv.Run(t.Context(), d.db, func(tx kv.Tx) ([]byte, error) { return tx.Get(c.key) })
		if err != nil {
			t.Fatal(err)
		}
		d.do(func(tx kv.Tx) error { tx.Set(c.key, []byte(c.value)); return nil })
		var found []string
		k := check.New(check.Options{Root: root, Sections: Sections(root)})
		for done := false; !done; {
			var list []check.Finding
			if list, done, err = k.Step(d.db.Present()); err != nil {
				t.Fatal(err)
			}
			for _, f := range list {
				if strings.HasPrefix(f.Key, "follow/") || strings.HasPrefix(f.Key, "jobs/follow/") {
					found = append(found, f.Key)
				}
			}
		}
		if is := slices.Contains(found, check.Readable(root, c.key)); is == c.sound || c.sound && len(found) > 0 {
			t.Errorf("%s: found %q", name, found)
		}
		d.do(func(tx kv.Tx) error {
			if tx.Clear(c.key); before != nil {
				tx.Set(c.key, before)
			}
			return nil
		})
	}
}

// TestSettingsChange: what another configuration of a database does to its job and its mirror. What is the same changes
// nothing, not even the lock of who runs it.
func TestSettingsChange(t *testing.T) {
	is := Database{Section: "couch", Name: "reps", URL: "http://s/reps/"}
	moved, trusted := is, is
	moved.URL, trusted.Trusted = "http://other/reps/", true
	for name, c := range map[string]struct {
		to    Database
		epoch int64 // afterwards
		since peer.Seq
		docs  int // in the mirror
	}{
		"the same":         {to: is, since: "5", docs: 5},
		"another server":   {to: moved, epoch: 1, docs: 5},
		"trusted from now": {to: trusted},
	} {
		d := newDesk(t)
		d.fill(ids(5))
		d.ask(Opened{Held: d.held, Instance: "1"})
		before := d.db.Hash()
		var made, gone []string
		d.do(func(tx kv.Tx) (err error) {
			made, gone, err = Follow(tx, d.s, []Database{c.to}, []tuple.UUID{{2}}, d.now)
			return err
		})
		same := c.to == is
		if len(gone) > 0 || same != (len(made) == 0) || same != (d.db.Hash() == before) {
			t.Errorf("%s: made %q, gone %q", name, made, gone)
		}
		d.do(func(tx kv.Tx) error {
			j, err := d.s.Queue.Get(tx, is.ID())
			if err != nil {
				return err
			}
			data, err := decodeJob(j)
			if err != nil {
				return err
			}
			want := Job{Database: c.to, Instance: "1", Since: c.since, Epoch: c.epoch, Reconciling: c.epoch > 0}
			if !same {
				want.Instance = ""
			}
			if *data != want || same != (j.Lock == d.held.Lock) {
				t.Errorf("%s: the job is %+v under %v, want %+v", name, *data, j.Lock, want)
			}
			db, err := d.s.mirror(tx, is.ID())
			if err != nil {
				return err
			}
			if db.Follows != c.to.URL || db.Trusted != c.to.Trusted {
				t.Errorf("%s: the mirror follows %s, trusted %v", name, db.Follows, db.Trusted)
			}
			info, err := db.Info()
			rows, wrong := tx.GetRange(d.s.Keys.Rows.Range(), kv.RangeOptions{})
			if int(info.Docs) != c.docs || len(rows) != c.docs {
				t.Errorf("%s: %d documents in the mirror, %d rows", name, info.Docs, len(rows))
			}
			return cmp.Or(err, wrong)
		})
	}
}

// TestReleased: a job that a worker gives back without a pause is ready at once.
func TestReleased(t *testing.T) {
	d := newDesk(t)
	d.ask(Release{Held: d.held})
	d.do(func(tx kv.Tx) error {
		views, err := List(tx, d.s)
		if len(views) != 1 || views[0].Worker != "" || views[0].Due != 0 {
			t.Errorf("seen are %+v", views)
		}
		return err
	})
}

// TestViews: what operators see of followed databases, in the order of their names.
func TestViews(t *testing.T) {
	d := newDesk(t)
	list := []Database{
		{Section: "couch", Name: "reps", URL: "http://s/reps/"}, {Section: "a", Name: "x", URL: "http://a/x/"},
	}
	d.do(func(tx kv.Tx) error {
		_, _, err := Follow(tx, d.s, list, []tuple.UUID{{2}, {3}}, d.now)
		for i := range ManyStates + 5 {
			tx.Set(d.s.Keys.due(d.held.ID, fmt.Sprint(i)), nil)
		}
		tx.Set(d.s.Keys.due(list[1].ID(), "d"), nil)
		return err
	})
	see := func() (views []View) {
		d.do(func(tx kv.Tx) (err error) { views, err = List(tx, d.s); return err })
		return views
	}
	views := see()
	if len(views) != 2 || views[0].ID() != list[1].ID() || views[1].ID() != list[0].ID() {
		t.Fatalf("seen are %+v", views)
	}
	if a, b := views[0], views[1]; a.Worker != "" || a.States != 1 || b.Worker != "w" || b.States != ManyStates {
		t.Errorf("seen are %+v", views)
	}
	d.ask(Release{Held: d.held, Error: "timeout", Reason: "why", Errors: 2, Wait: time.Minute})
	if v := see()[1]; v.Worker != "" || v.Due != d.now.Add(time.Minute) || v.Error != "timeout" || v.Errors != 2 {
		t.Errorf("in its pause it is %+v", v)
	}
	d.do(func(tx kv.Tx) (err error) { views, err = List(tx, d.s, list[1].ID()); return err })
	if len(views) != 2 || views[0].ID() != list[1].ID() || views[0].Error != "unreadable" || views[0].States != 0 ||
		views[0].Behind != -1 || views[1].Error != "timeout" {
		t.Errorf("without one that cannot be read, seen are %+v", views)
	}
	for worker, node := range map[string]string{"": "", "n1/7": "n1", "a/b/7": "a/b", "w": ""} {
		if v := (View{Worker: worker}); v.Node() != node {
			t.Errorf("worker %q is of node %q, want %q", worker, v.Node(), node)
		}
	}
}
