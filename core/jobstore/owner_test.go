package jobstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
)

// TestRedact: nothing of an endpoint is left that could be secret.
func TestRedact(t *testing.T) {
	for body, want := range map[string]string{
		`{"source":"https://u:hidden@h:1/a?token=hidden#hidden","target":"http://h/b"}`: `{"source":"https://h:1/a",` +
			`"target":"http://h/b"}`,
		`{"source":{"url":"http://u:hidden@h/a?x=hidden","headers":{"A":"hidden"},"x":"hidden",` +
			`"auth":{"basic":{"password":"hidden"}}}}`: `{"source":{"url":"http://h/a"}}`,
		`{"source":{"headers":{"A":"hidden"}},"target":["hidden"]}`: `{"source":{},"target":null}`,
		`{"source":"http://u:hid%zzden@h/","target":"hidden"}`:      `{"source":"","target":""}`,
		`{"proxy":"http://u:hidden@p:1","source_proxy":"socks5://u:hidden@p","selector":{"a":1}}`: `{"proxy":` +
			`"http://p:1","source_proxy":"socks5://p","selector":{"a":1}}`,
		`{"_replication_state_reason":"GET http://u:hidden@h/a?t=hidden: 500"}`: `{"_replication_state_reason":` +
			`"GET http://h/a 500"}`,
		`{"_replication_state_reason":"http://u:hidden@hidden@h/ and https://h:1?x=hidden."}`: `{` +
			`"_replication_state_reason":"http://h/ and https://h:1"}`,
	} {
		got, err := Redact([]byte(body))
		if err != nil || string(got) != want || strings.Contains(string(got), "hidden") {
			t.Errorf("%s\n got %s, %v", body, got, err)
		}
	}
}

// TestRedactedView: who may know of a job and no more sees no query of its URLs, and none in its errors, of now and of
// before; the view of others stays as it is.
func TestRedactedView(t *testing.T) {
	const address, text = "http://h/a?t=hidden", "GET http://h/a?t=hidden: 500"
	v := View{Source: address, Target: address, SourceProxy: address, TargetProxy: address, Problem: text,
		History: []Event{{Type: "crashed", Reason: text}, {Type: "crashed", Reason: text}}}
	if shown := fmt.Sprintf("%+v", v.Redacted()); strings.Contains(shown, "hidden") ||
		strings.Count(shown, "http://h/a") != 7 {
		t.Error(shown)
	}
	if shown := fmt.Sprintf("%+v", v); strings.Count(shown, "hidden") != 7 {
		t.Errorf("the view itself: %s", shown)
	}
}

// TestOthersDocuments: whatever a write says, the document of another owner stays.
func TestOthersDocuments(t *testing.T) {
	b := newBench(t)
	joe, eve := Writer{Name: "joe"}, Writer{Name: "eve"}
	if refusal := b.put("r", simple, joe); refusal != nil {
		t.Fatal(refusal)
	}
	for _, body := range []string{simple, `{"source":"http://h/x","target":"http://h/b"}`,
		`{"source":"http://h/x","target":"http://h/b","owner":"joe"}`,
		`{"source":"http://h/x","target":"http://h/b","owner":"eve"}`} {
		for _, by := range []Writer{eve, {}} {
			if refusal := b.put("r", body, by); refusal == nil || refusal.Kind != docs.Denied {
				t.Errorf("%s by %q: %v", body, by.Name, refusal)
			}
		}
	}
	if refusal := b.put("_design/d", `{"a":1}`, joe); refusal == nil || refusal.Kind != docs.Denied {
		t.Errorf("a design document: %v", refusal)
	}
	if refusal := b.put("r", `{"source":"http://h/y","target":"http://h/b"}`, joe); refusal != nil {
		t.Error(refusal)
	}
}

// TestOthersConflicts: a conflict of another owner stays, too, though the winner is the writer's. What is hidden in it
// would be the writer's otherwise.
func TestOthersConflicts(t *testing.T) {
	b := newBench(t)
	eve, bobs := Writer{Name: "eve"}, revtree.Rev{Gen: 1, ID: "aaaa"}
	write := func(by Writer, e docs.Edit) (refusal *docs.Error) {
		t.Helper()
		e.ID, e.Token = "r", token
		token++
		b.do1(func(tx kv.Tx) error {
			db, err := b.s.Docs.Open(tx, "_replicator")
			if err != nil {
				return err
			}
			written, err := b.s.WriteDocs(tx, db, []docs.Edit{e}, by, b.now)
			if err == nil {
				refusal = written[0].Err
			}
			return err
		})
		return refusal
	}
	branch := func(rev revtree.Rev, owner, password string) docs.Edit {
		const body = `{"source":"http://u:%s@h/a","target":"http://h/b","owner":%q}`
		text := fmt.Appendf(nil, body, password, owner)
		return docs.Edit{Replicated: true, Document: docs.Document{Rev: rev, Body: text}}
	}
	for rev, owner := range map[revtree.Rev]string{bobs: "bob", {Gen: 1, ID: "bbbb"}: "eve"} {
		if refusal := write(admin, branch(rev, owner, "hidden")); refusal != nil {
			t.Fatal(refusal)
		}
	}
	edit := branch(bobs, "eve", "*****")
	edit.Replicated = false
	if refusal := write(eve, edit); refusal == nil || refusal.Kind != docs.Denied {
		t.Errorf("eve replaced bob's revision: %v", refusal)
	}
	edit = branch(revtree.Rev{Gen: 2, ID: "cccc"}, "eve", "*****")
	edit.Ancestors = []string{bobs.ID}
	if refusal := write(eve, edit); refusal == nil || refusal.Kind != docs.Denied {
		t.Errorf("eve replicated over bob's revision: %v", refusal)
	}
	edit = branch(revtree.Rev{Gen: 1, ID: "bbbb"}, "eve", "*****")
	edit.Replicated = false
	if refusal := write(eve, edit); refusal != nil {
		t.Errorf("eve may not replace her own: %v", refusal)
	}
}

// TestOthersTombstones: a document that was deleted is free for all, and what its tombstone hides is not.
func TestOthersTombstones(t *testing.T) {
	b := newBench(t)
	bob, eve := Writer{Name: "bob"}, Writer{Name: "eve"}
	const body = `{"source":"http://u:hidden@h/a","target":"http://h/b"`
	masked := strings.Replace(body, "hidden", "*****", 1)
	if refusal := b.put("r", body+"}", bob); refusal != nil {
		t.Fatal(refusal)
	}
	// Many clients delete so: they set _deleted, and leave the rest as it is.
	if refusal := b.put("r", body+`,"_deleted":true}`, bob); refusal != nil {
		t.Fatal(refusal)
	}
	if refusal := b.put("r", masked+"}", eve); refusal == nil || refusal.Kind != docs.Denied {
		t.Errorf("eve's document has bob's password: %s", b.doc("r"))
	}
	if refusal := b.put("r", `{"source":"http://h/a","target":"http://h/b"}`, eve); refusal != nil {
		t.Error(refusal)
	}
}

// TestUserOfDocuments: the job of a document is listed under its owner, under who user_ctx names only without one,
// and under the new owner from then on, though the job goes on.
func TestUserOfDocuments(t *testing.T) {
	with := func(more string) string { return strings.TrimSuffix(simple, "}") + more + "}" }
	b := newBench(t)
	wanted, long := map[string]string{}, strings.Repeat("c", 300)
	check := func(what string) {
		t.Helper()
		for _, user := range []string{"joe", "eve", "ctx", "adm"} {
			var want []string
			for _, id := range slices.Sorted(maps.Keys(wanted)) { // order does not matter: it is sorted
				if wanted[id] == user {
					want = append(want, jobID(id))
				}
			}
			got := b.pages(Listing{Filter: Filter{User: user, Documents: true}, Limit: 2})
			if !slices.Equal(got, want) {
				t.Errorf("%s: of %s are %q, want %q", what, user, got, want)
			}
		}
		b.do1(func(tx kv.Tx) error { return b.s.Audit(tx) })
	}
	for _, c := range []struct {
		body string
		by   Writer
		want string
	}{
		{simple, Writer{Name: "joe"}, "joe"},
		{with(`,"user_ctx":{"name":"ctx"}`), Writer{Name: "joe"}, "joe"},
		{with(`,"owner":"eve"`), admin, "eve"},
		{with(`,"user_ctx":{"name":"ctx"}`), Writer{Admin: true}, "ctx"},
		{with(`,"_replication_state":"completed"`), admin, "adm"},
		{simple, Writer{Admin: true}, ""},
		{with(`,"user_ctx":{"name":"` + long + `"}`), Writer{Admin: true}, long},
		{with(`,"owner":"` + strings.Repeat("o", maxUser) + `"`), admin, strings.Repeat("o", maxUser)},
		{with(`,"owner":"` + strings.Repeat("o", maxUser+1) + `"`), admin, ""},
	} {
		id := fmt.Sprint("r", len(wanted))
		b.put(id, c.body, c.by)
		if wanted[id] = c.want; b.record(jobID(id)).User != c.want {
			t.Errorf("%s by %s is of %q, want %q", c.body, c.by.Name, b.record(jobID(id)).User, c.want)
		}
	}
	check("at first")
	b.tryAccept()
	history := len(b.record(jobID("r0")).History)
	b.put("r0", with(`,"owner":"eve"`), admin)
	wanted["r0"] = "eve"
	check("of another owner")
	if rec := b.record(jobID("r0")); rec.State != Running || len(rec.History) != history {
		t.Errorf("a new owner makes the job anew: %+v", rec)
	}
	b.put("r0", `{"_deleted":true}`, admin)
	delete(wanted, "r0")
	check("after a deletion")
}
