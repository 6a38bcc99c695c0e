package jobstore

import (
	"cmp"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
)

// TestAdminsAnswerForTheirOwn: a document has an admin's rights if an admin of the server who wrote it is its owner.
// They stay when another admin edits it, and go with an edit of anybody else.
func TestAdminsAnswerForTheirOwn(t *testing.T) {
	root := []string{"_admin"}
	token := Writer{Name: "token", Admin: true, Roles: root} // of no configuration
	other := Writer{Name: "other", Admin: true, Roles: root}
	former := Writer{Name: "token", Roles: []string{"dev", "_admins"}}
	ofDB := Writer{Name: "token", Admin: true, Roles: []string{"dev"}}
	const a = `{"source":"http://h/a","target":"http://h/b"}`
	const ann = `{"source":"http://h/c","target":"http://h/b","owner":"ann"}`
	const tokens = `{"source":"http://h/c","target":"http://h/b","owner":"token"}`
	const claims = `{"source":"http://h/a","target":"http://h/b",` +
		`"user_ctx":{"name":"x","roles":["_admin"],"admin":true}}`
	type write struct {
		body string
		by   Writer
		want bool
	}
	for name, writes := range map[string][]write{
		"an admin":                {{a, token, true}},
		"an ordinary user":        {{a, Writer{Name: "ann"}, false}},
		"who claims to be one":    {{claims, Writer{Name: "ann"}, false}},
		"an admin of a database":  {{a, ofDB, false}},
		"without a login":         {{a, Writer{Admin: true, Roles: root}, false}},
		"an admin for a user":     {{ann, token, false}},
		"for another admin":       {{tokens, other, false}},
		"edited by another admin": {{a, token, true}, {tokens, other, true}},
		"given away":              {{a, token, true}, {ann, other, false}},
		"no admin any more":       {{a, token, true}, {tokens, former, false}},
		"the same, no more":       {{a, token, true}, {a, former, false}},
		"an admin now":            {{a, former, false}, {a, token, true}},
		"of a database now":       {{a, token, true}, {tokens, ofDB, false}},
	} {
		bench := newBench(t)
		for i, w := range writes {
			if refusal := bench.put("r", w.body, w.by); refusal != nil {
				t.Fatalf("%s: %v", name, refusal)
			}
			rep := get(bench, func(tx kv.Tx) (*spec.Replication, error) { return bench.s.Spec(tx, jobID("r")) })
			if rep.User.Admin != w.want {
				t.Errorf("%s: after write %d an admin's: %t", name, i+1, rep.User.Admin)
			}
		}
	}
}

// TestOrdersGiveNoRights: an order to run a document again leaves it to its owner, or to nobody, and its job with the
// rights that this had, whoever gives it.
func TestOrdersGiveNoRights(t *testing.T) {
	const a = `{"source":"http://h/a","target":"http://h/b"}`
	root := []string{"_admin"}
	for name, c := range map[string]struct {
		by    Writer
		owner string
		want  bool
	}{
		"the user's own":     {Writer{Name: "ann"}, "ann", false}, // it is ann who gives the order
		"of another user":    {Writer{Name: "bob"}, "bob", false},
		"of nobody":          {Writer{}, "", false},
		"of an admin":        {Writer{Name: "token", Admin: true, Roles: root}, "token", true},
		"the admin's own":    {Writer{Name: "ann", Admin: true, Roles: root}, "ann", true},
		"admin without name": {Writer{Admin: true, Roles: root}, "", false},
	} {
		b, id := newBench(t), jobID("r")
		if refusal := b.put("r", a, c.by); refusal != nil {
			t.Fatalf("%s: %v", name, refusal)
		}
		w := b.accept()
		b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
		if changed, obstacle := b.retry(id); !changed || obstacle != "" {
			t.Fatalf("%s: the job does not run again: %s", name, obstacle)
		}
		if owner, user := OwnerOf([]byte(b.doc("r"))), b.record(id).User; owner != c.owner || user != c.owner {
			t.Errorf("%s: the document is of %q, its job of %q", name, owner, user)
		}
		rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, id) })
		if rep.User.Admin != c.want {
			t.Errorf("%s: an admin's: %t", name, rep.User.Admin)
		}
	}
}

// TestOrderMakesNoAdmin: the job of a user who has become an admin of the server since, and gives the order to run it
// again, does not run as an admin's.
func TestOrderMakesNoAdmin(t *testing.T) {
	b, id := newBench(t), jobID("r")
	b.put("r", simple, Writer{Name: "ann"})
	w := b.accept()
	b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
	// What is stored names the owner, as a document does that an admin of the server wrote for a user.
	b.do1(func(tx kv.Tx) error {
		rep, err := b.s.Spec(tx, id)
		if err != nil {
			return err
		}
		rep.Owner = "ann"
		return b.s.setSpec(tx, id, rep)
	})
	if changed, obstacle := b.retry(id); !changed || obstacle != "" {
		t.Fatalf("the job does not run again: %s", obstacle)
	}
	rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, id) })
	if rep.Owner != "ann" || rep.User.Admin {
		t.Errorf("it has the rights of %q, an admin's: %t", rep.Owner, rep.User.Admin)
	}
}

// TestKeptBody: an admin who attaches a file to a document, and has not written its body, leaves its job as it is.
func TestKeptBody(t *testing.T) {
	b, id := newBench(t), jobID("r")
	b.put("r", simple, admin)
	w := b.accept()
	b.do1(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		doc, err := db.Read("r", docs.Want{})
		if err != nil {
			return err
		}
		doc.Attachments = []docs.Attachment{{Name: "a", Content: docs.Inline, Data: []byte("x")}}
		by := Writer{Name: "root", Admin: true, Roles: admin.Roles}
		written, err := b.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Kept: true}}, by, b.now)
		if err == nil && written[0].Err != nil {
			err = written[0].Err
		}
		return err
	})
	if rec := b.record(id); rec.State != Running || rec.LastStart != w.Record.LastStart {
		t.Errorf("the job is %s", rec.State)
	}
	rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, id) })
	if rep.Owner != "adm" || !rep.User.Admin {
		t.Errorf("it has the rights of %q, an admin's: %t", rep.Owner, rep.User.Admin)
	}
}

// TestRightsInMirrors: a job of a mirror has the rights of the owner that its document names if the mirror is trusted.
func TestRightsInMirrors(t *testing.T) {
	for trusted, want := range map[bool]string{false: "", true: "ann"} {
		b := newBench(t)
		body, err := ejson.Parse([]byte(`{"source":"http://h/a","target":"http://h/b","owner":"ann"}`))
		if err != nil {
			t.Fatal(err)
		}
		b.do1(func(tx kv.Tx) error {
			db, err := b.s.Docs.Open(tx, "_replicator")
			if err != nil {
				return err
			}
			docs.Mirror(db, "http://h/_replicator/", trusted)
			_, err = Mirror(b.s, tx, db, []Mirrored{{ID: "r", Body: body}}, b.now)
			return err
		})
		rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, jobID("r")) })
		if rep.Owner != want || rep.User.Admin {
			t.Errorf("trusted %t: the rights of %q, an admin's: %t", trusted, rep.Owner, rep.User.Admin)
		}
	}
}

// TestNamedOwners: a job has the rights of the owner that its document names if a server admin wrote it. An admin of
// the database can name any owner, and an order to run it again believes it no more.
func TestNamedOwners(t *testing.T) {
	const a = `{"source":"http://h/a","target":"http://h/b"}`
	const adms = `{"source":"http://h/c","target":"http://h/b","owner":"adm"}`
	const ended = `{"source":"http://h/d","target":"http://h/b","owner":"adm","_replication_state":"failed"}`
	ofDB, root := Writer{Name: "joe", Admin: true}, Writer{Name: "root", Admin: true, Roles: admin.Roles}
	type write struct {
		body string
		by   Writer
	}
	for name, c := range map[string]struct {
		writes []write
		want   string
	}{
		"an admin's":                     {[]write{{a, admin}}, "adm"},
		"an admin's for another":         {[]write{{adms, root}}, "adm"},
		"of an admin of the database":    {[]write{{adms, ofDB}}, ""},
		"edited by one":                  {[]write{{a, admin}, {adms, ofDB}}, ""},
		"ended by one":                   {[]write{{a, admin}, {ended, ofDB}}, ""},
		"of a user with an admin's name": {[]write{{a, Writer{Name: "adm"}}}, ""},
	} {
		b, id := newBench(t), jobID("r")
		owner := func() string {
			rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, id) })
			if rep == nil {
				return ""
			}
			return rep.Owner
		}
		for _, w := range c.writes {
			if refusal := b.put("r", w.body, w.by); refusal != nil {
				t.Fatalf("%s: %v", name, refusal)
			}
		}
		if got := owner(); got != c.want {
			t.Errorf("%s: it has the rights of %q", name, got)
		}
		if !b.record(id).State.Terminal() {
			w := b.accept()
			b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
		}
		if changed, obstacle := b.retry(id); !changed || obstacle != "" {
			t.Fatalf("%s: the job does not run again: %s", name, obstacle)
		}
		if got := owner(); got != c.want {
			t.Errorf("%s: it runs again with the rights of %q", name, got)
		}
	}
}

// TestBranchIsNotTheAdmins: a server admin who deletes the winner of a document does not answer for a branch of an
// admin of the database that wins then. Of what it writes in one request it answers for whatever wins.
func TestBranchIsNotTheAdmins(t *testing.T) {
	const a = `{"source":"http://h/a","target":"http://h/b","owner":"adm"}`
	const other = `{"source":"http://h/c","target":"http://h/b","owner":"adm"}`
	ofDB := Writer{Name: "joe", Admin: true}
	rights := func(b *bench) (owner string, admin bool) {
		rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, jobID("r")) })
		return rep.Owner, rep.User.Admin
	}
	for _, first := range []Writer{ofDB, admin} {
		b := newBench(t)
		if err := cmp.Or(b.replicated("r", "1-a", other, ofDB), b.replicated("r", "1-b", a, first)); err != nil {
			t.Fatal(err)
		}
		if refusal := b.put("r", `{"_deleted":true}`, admin); refusal != nil {
			t.Fatal(refusal)
		}
		if doc := b.doc("r"); !strings.Contains(doc, "http://h/c") {
			t.Fatalf("the winner is %s", doc)
		}
		if owner, admin := rights(b); owner != "" || admin {
			t.Errorf("beside a branch of %s the job has the rights of %q, of an admin: %t", first.Name, owner, admin)
		}
	}
	b := newBench(t)
	both := []docs.Edit{{Replicated: true}, {Replicated: true}}
	for i, rev := range []string{"1-b", "1-a"} {
		body := `{"_id":"r","_rev":"` + rev + `",` + []string{a, other}[i][1:]
		doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
		if err != nil {
			t.Fatal(err)
		}
		both[i].Document = *doc
	}
	if written, _ := b.writeSome(both); len(written) != 2 {
		t.Fatalf("%d of 2 are written", len(written))
	}
	if owner, admin := rights(b); owner != "adm" || !admin {
		t.Errorf("of an admin's branches the job has the rights of %q, of an admin: %t", owner, admin)
	}
}

// TestNameOfAnAdmin: the job of a request has the rights of its user's name only if the user was a server admin, which
// a user of a token or of a CouchDB with the name of an admin need not be.
func TestNameOfAnAdmin(t *testing.T) {
	for isAdmin, want := range map[bool]string{false: "", true: "adm"} {
		b := newBench(t)
		rep, err := spec.ParseRequest([]byte(simple), b.s.Config.Parse)
		if err != nil {
			t.Fatal(err)
		}
		rep.User.Admin = isAdmin
		id := get(b, func(tx kv.Tx) (string, error) { return b.s.Replicate(tx, rep, "adm", b.now) })
		stored := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, id) })
		if stored.User.Name != want || stored.User.Admin != isAdmin || b.record(id).User != "adm" {
			t.Errorf("the job of %q has the rights of %+v", b.record(id).User, stored.User)
		}
	}
}

// TestEditedWhenOver: a job that is over, and whose document is edited and stays over, runs again with the rights of
// who edited it.
func TestEditedWhenOver(t *testing.T) {
	const a = `{"source":"http://h/a","target":"http://h/b"}`
	const edited = `{"source":"http://h/own","target":"http://h/b","owner":"adm","_replication_state":"failed"}`
	for by, want := range map[*Writer]bool{
		{Name: "joe", Admin: true}:                      false,
		{Name: "root", Admin: true, Roles: admin.Roles}: true,
	} {
		b, id := newBench(t), jobID("r")
		if refusal := b.put("r", a, admin); refusal != nil {
			t.Fatal(refusal)
		}
		w := b.accept()
		b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
		if refusal := b.put("r", edited, *by); refusal != nil {
			t.Fatal(refusal)
		}
		if changed, obstacle := b.retry(id); !changed || obstacle != "" {
			t.Fatalf("the job does not run again: %s", obstacle)
		}
		rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, id) })
		if rep.Source.URL != "http://h/own/" || rep.User.Admin != want || (rep.Owner == "adm") != want {
			t.Errorf("edited by %s: %s with the rights of %q, of an admin: %t",
				by.Name, rep.Source.URL, rep.Owner, rep.User.Admin)
		}
	}
}

// TestEditedToNothing: nothing is kept of the replication of a job that is over once its document asks for none.
func TestEditedToNothing(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
	b.put("r", `{"source":7,"_replication_state":"failed"}`, admin)
	b.wantState(w.JobID, Failed)
	rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, w.JobID) })
	if rep != nil {
		t.Errorf("there is still a replication from %s", rep.Source.URL)
	}
}
