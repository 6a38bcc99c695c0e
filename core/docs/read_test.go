package docs

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/docs/revtree"
)

// conflicted is a world with a document of three leaves, the winner 3-c.
func conflicted(t *testing.T) *world {
	w := newWorld(t)
	w.replicate(t, `{"_id":"a","_revisions":{"start":3,"ids":["c","b","a"]},"n":3}`)
	w.replicate(t, `{"_id":"a","_revisions":{"start":2,"ids":["x","a"]},"n":2}`)
	w.replicate(t, `{"_id":"a","_revisions":{"start":3,"ids":["y","b","a"]},"_deleted":true}`)
	return w
}

func TestReadMeta(t *testing.T) {
	w := conflicted(t)
	for _, c := range []struct {
		want   Want
		format Format
		text   string
	}{
		{Want{}, Format{}, `{"_id":"a","_rev":"3-c","n":3}`},
		{Want{Rev: rev("2-x")}, Format{Revisions: true},
			`{"_id":"a","_rev":"2-x","n":2,"_revisions":{"start":2,"ids":["x","a"]}}`},
		{Want{Rev: rev("3-y")}, Format{}, `{"_id":"a","_rev":"3-y","_deleted":true}`},
		{Want{Conflicts: true}, Format{}, `{"_id":"a","_rev":"3-c","n":3,"_conflicts":["2-x"]}`},
		{Want{DeletedConflicts: true}, Format{}, `{"_id":"a","_rev":"3-c","n":3,"_deleted_conflicts":["3-y"]}`},
		{Want{RevsInfo: true}, Format{},
			`{"_id":"a","_rev":"3-c","n":3,"_revs_info":[{"rev":"3-c","status":"available"},` +
				`{"rev":"2-b","status":"missing"},{"rev":"1-a","status":"missing"}]}`},
		{Want{Rev: rev("3-y"), RevsInfo: true}, Format{},
			`{"_id":"a","_rev":"3-y","_deleted":true,"_revs_info":[{"rev":"3-y","status":"deleted"},` +
				`{"rev":"2-b","status":"missing"},{"rev":"1-a","status":"missing"}]}`},
		{Want{Rev: rev("2-b")}, Format{}, `missing`},
		{Want{Rev: rev("2-nope")}, Format{}, `missing`},
		{Want{LocalSeq: true}, Format{},
			`{"_id":"a","_rev":"3-c","n":3,"_local_seq":"` + w.info(t).UpdateSeq.String() + `"}`},
	} {
		if got := w.get(t, "a", c.want, c.format); got != c.text {
			t.Errorf("%+v:\n got %s\nwant %s", c.want, got, c.text)
		}
	}
	w.replicate(t, `{"_id":"a","_revisions":{"start":2,"ids":["w","a"]}}`)
	if got := w.get(t, "a", Want{Conflicts: true}, Format{}); !strings.Contains(got, `"_conflicts":["2-x","2-w"]`) {
		t.Errorf("with two conflicts: %s", got)
	}
	long := strings.Repeat("x", 9000)
	for _, id := range []string{"nope", "", long, "_local/nope", "_local/" + long} {
		if got := w.get(t, id, Want{}, Format{}); got != "missing" {
			t.Errorf("%.20s: %s", id, got)
		}
	}
}

func TestOpenRevs(t *testing.T) {
	w := conflicted(t)
	for asked, want := range map[string]string{
		"all":                 "3-c 2-x 3-y",
		"3-y 2-x":             "3-y 2-x",
		"2-b 9-z":             "missing:2-b missing:9-z",
		"3-c 3-c":             "3-c",
		"latest 2-b":          "3-c 3-y",
		"latest 1-a 3-y":      "3-c 2-x 3-y",
		"latest 9-z 2-x":      "2-x missing:9-z",
		"":                    "",
		"latest 2-b 3-c 8-no": "3-c 3-y missing:8-no",
		"2-x 0-1":             "2-x missing:0-1",
	} {
		wanted := Wanted{ID: "a", Revs: []revtree.Rev{}}
		asked, latest := strings.CutPrefix(asked, "latest ")
		for _, r := range strings.Fields(asked) {
			if r != "all" {
				wanted.Revs = append(wanted.Revs, rev(r))
			} else {
				wanted.Revs = nil
			}
		}
		opened := must(t, w, func(db *Database) ([][]Opened, error) { return db.OpenRevs([]Wanted{wanted}, latest) })
		var got []string
		for _, o := range opened[0] {
			if o.Doc == nil {
				got = append(got, "missing:"+o.Missing.String())
			} else {
				got = append(got, o.Doc.Rev.String())
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s (latest %v): %v, want %s", asked, latest, got, want)
		}
	}
	none := must(t, w, func(db *Database) ([][]Opened, error) {
		return db.OpenRevs([]Wanted{{ID: "nope"}, {ID: "nope", Revs: []revtree.Rev{rev("1-a"), {}}}}, true)
	})
	if fmt.Sprint(none) != "[[] [{<nil> 1-a} {<nil> 0-}]]" {
		t.Errorf("documents that do not exist: %v", none)
	}
}

// TestOpenRevsPages asks for more than one transaction reads.
func TestOpenRevsPages(t *testing.T) {
	w := newWorld(t)
	var wanted []Wanted
	for i := range 130 {
		id := fmt.Sprint("d", i)
		w.put(t, `{"_id":"`+id+`","t":"`+strings.Repeat("x", i%3*chunkSize)+`"}`)
		wanted = append(wanted, Wanted{ID: id})
	}
	for pages := 0; len(wanted) > 0; pages++ {
		opened := must(t, w, func(db *Database) ([][]Opened, error) { return db.OpenRevs(wanted, false) })
		if len(opened) == 0 || len(opened) > 60 && pages == 0 {
			t.Fatalf("page of %d", len(opened))
		}
		for i, o := range opened {
			if len(o) != 1 || o[0].Doc.ID != wanted[i].ID {
				t.Fatalf("%s: %+v", wanted[i].ID, o)
			}
		}
		wanted = wanted[len(opened):]
	}
}

func TestDiff(t *testing.T) {
	w := conflicted(t)
	revs := func(s string) (revs []revtree.Rev) {
		for _, r := range strings.Fields(s) {
			revs = append(revs, rev(r))
		}
		return revs
	}
	wanted := []Wanted{{"a", revs("3-c 2-b 1-a")}, {"a", revs("2-x 4-n 4-n 3-y")}, {"b", revs("1-a 2-b")},
		{"a", revs("1-q")}, {"c", nil}}
	diffs := must(t, w, func(db *Database) ([]Diff, error) {
		diffs, n, err := db.Diff(wanted)
		if n != len(wanted) {
			t.Errorf("compared %d", n)
		}
		return diffs, err
	})
	if got := fmt.Sprint(diffs); got != "[{a [4-n] [3-c 2-x 3-y]} {b [1-a 2-b] []} {a [1-q] []}]" {
		t.Errorf("diffs %s", got)
	}
	_, n, err := func() (d []Diff, n int, err error) {
		must(t, w, func(db *Database) (int, error) { d, n, err = db.Diff(make([]Wanted, 1000)); return 0, err })
		return
	}()
	if n != diffDocs || err != nil {
		t.Errorf("compared %d, %v", n, err)
	}
}

func TestLocal(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ doc, want string }{
		{`{"_id":"_local/a","n":1}`, "0-1"},
		{`{"_id":"_local/a","n":2}`, "conflict"},
		{`{"_id":"_local/a","_rev":"0-2","n":2}`, "conflict"},
		{`{"_id":"_local/a","_rev":"0-1","_revisions":{"start":0,"ids":["1"]},"n":"` + strings.Repeat("x",
			200_000) + `"}`, "0-2"},
		{`{"_id":"_local/a","_revisions":{"start":0,"ids":["2"]},"n":3}`, "0-3"},
		{`{"_id":"_local/b","_rev":"0-1"}`, "conflict"},
		{`{"_id":"_local/b","_deleted":true}`, "not_found"},
		{`{"_id":"_local/b","_attachments":{"f":{"data":""}}}`, "bad_request"},
		{`{"_id":"_local/c"}`, "0-1"},
		{`{"_id":"_local/c","_rev":"0-1","_deleted":true}`, "0-0"},
		{`{"_id":"_local/c","_rev":"0-0"}`, "conflict"},
		{`{"_id":"_local/c","again":true}`, "0-1"},
	} {
		if got := w.put(t, c.doc); got != c.want {
			t.Errorf("%.60s: %s, want %s", c.doc, got, c.want)
		}
	}
	if got := w.get(t, "_local/a", Want{}, Format{}); got != `{"_id":"_local/a","_rev":"0-3","n":3}` {
		t.Errorf("read %s", got)
	}
	if info := w.info(t); info.Docs != 0 || w.changes(t, Query{}) != "" || w.keys(t, keyLocal) != "[2]" {
		t.Errorf("local documents are counted or in the feed: %+v, keys %s", info, w.keys(t, keyLocal))
	}
}

// TestCountDesigns: deleted ones do not count, and neither does what stands around them.
func TestCountDesigns(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"_design/a", "_design/b", "_design/c", "_design/gone", "a", "Z"} {
		w.put(t, `{"_id":"`+id+`"}`)
	}
	w.put(t, `{"_id":"_design/gone","_rev":"`+w.doc(t, "_design/gone").Rev.String()+`","_deleted":true}`)
	for id, want := range map[string]int64{"_design/": 0, "_design/b": 1, "_design/bb": 2, "_design/z": 3} {
		type counts struct{ total, before int64 }
		got := must(t, w, func(db *Database) (c counts, err error) {
			c.total, c.before, err = CountDesigns(db, id)
			return c, err
		})
		if got != (counts{3, want}) {
			t.Errorf("before %s: %+v", id, got)
		}
	}
}

// TestManyDesigns: design documents are found and counted, however many there are.
func TestManyDesigns(t *testing.T) {
	w := newWorld(t)
	var edits []Edit
	for i := range scanRows + 1 {
		edits = append(edits, replicated(t, fmt.Sprintf(`{"_id":"_design/%04d","_rev":"1-a"}`, i)))
	}
	w.update(t, edits...)
	found := must(t, w, Designs)
	for i, d := range found {
		if d.ID != edits[i].ID {
			t.Fatalf("design document %d is %s", i, d.ID)
		}
	}
	total := must(t, w, func(db *Database) (int64, error) {
		total, _, err := CountDesigns(db, "_design/")
		return total, err
	})
	if len(found) != len(edits) || total != int64(len(edits)) {
		t.Errorf("found %d of %d, counted %d", len(found), len(edits), total)
	}
}
