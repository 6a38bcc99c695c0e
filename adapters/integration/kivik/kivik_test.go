package kivik

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	kivik "github.com/go-kivik/kivik/v4"
	"github.com/go-kivik/kivik/v4/couchdb"
)

type object = map[string]any

// rig is a client that has logged in in one of the ways.
type rig struct {
	*testing.T
	*kivik.Client
	databases string // ends in a slash
}

func slash(address string) string { return strings.TrimSuffix(address, "/") + "/" }

// TestClients runs all tests with each way to log in.
func TestClients(t *testing.T) {
	server, err := url.Parse(slash(os.Getenv("SERVER")))
	if err != nil || server.User == nil {
		t.Skip("SERVER is not set; run the tests of adapters/integration")
	}
	name := server.User.Username()
	password, _ := server.User.Password()
	plain := *server
	plain.User = nil
	for way, open := range map[string]func() (*kivik.Client, error){
		"URL": func() (*kivik.Client, error) { return kivik.New("couch", server.String()) },
		"basic": func() (*kivik.Client, error) {
			return kivik.New("couch", plain.String(), couchdb.BasicAuth(name, password))
		},
		"cookie": func() (*kivik.Client, error) {
			return kivik.New("couch", plain.String(), couchdb.CookieAuth(name, password))
		},
	} {
		t.Run(way, func(t *testing.T) {
			client, err := open()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range tests {
				t.Run(c.name, func(t *testing.T) { c.test(rig{t, client, slash(os.Getenv("DATABASES"))}) })
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		name := unique("user") // adm would be locked after a few of these
		for _, option := range []kivik.Option{couchdb.BasicAuth(name, "wrong"), couchdb.CookieAuth(name, "wrong")} {
			client, err := kivik.New("couch", plain.String(), option)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.AllDBs(t.Context())
			if kivik.HTTPStatus(err) != http.StatusUnauthorized {
				t.Errorf("%v: %v", option, err)
			}
		}
	})
}

var tests = []struct {
	name string
	test func(rig)
}{
	{"Version", rig.version},
	{"Ping", rig.ping},
	{"Session", rig.session},
	{"databases", rig.replicatorDatabases},
	{"documents", rig.documents},
	{"bulk", rig.bulk},
	{"attachments", rig.attachments},
	{"Changes", rig.changes},
	{"Security", rig.security},
	{"Config", rig.config},
	{"Membership", rig.membership},
	{"Replicate", rig.replicate},
	{"Replicate, continuous", rig.continuous},
	{"Replicate, an error", rig.failing},
	{"GetReplications", rig.list},
	{"users", rig.users},
}

func (r rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r rig) status(err error, want int) {
	r.Helper()
	if got := kivik.HTTPStatus(err); got != want {
		r.Errorf("status %d (%v), want %d", got, err, want)
	}
}

func unique(name string) string { return fmt.Sprintf("kivik-%s-%d", name, time.Now().UnixNano()) }

// replicator makes a replicator database, which is gone after the test.
func (r rig) replicator() *kivik.DB {
	r.Helper()
	name := unique("db") + "/_replicator"
	r.ok(r.CreateDB(r.Context(), name))
	r.Cleanup(func() { _ = r.DestroyDB(context.Background(), name) })
	return r.DB(name)
}

// over returns a replication document that makes no job.
func (r rig) over(more object) object {
	doc := object{"source": r.databases + "a", "target": r.databases + "b", "_replication_state": "completed"}
	for name, value := range more {
		doc[name] = value
	}
	return doc
}

// source makes a database with two documents, and returns its URL with that of a target.
func (r rig) endpoints() (source, target string) {
	r.Helper()
	client, err := kivik.New("couch", r.databases)
	r.ok(err)
	name := unique("source")
	r.ok(client.CreateDB(r.Context(), name))
	for _, id := range []string{"a", "b"} {
		_, err := client.DB(name).Put(r.Context(), id, object{})
		r.ok(err)
	}
	r.Cleanup(func() {
		_ = client.DestroyDB(context.Background(), name)
		_ = client.DestroyDB(context.Background(), name+"-copy")
	})
	return r.databases + name, r.databases + name + "-copy"
}

// await waits until a replication is in a state. It may be so from the beginning, but has its numbers from Update
// alone.
func (r rig) await(rep *kivik.Replication, state kivik.ReplicationState) {
	r.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		r.ok(rep.Update(r.Context()))
		if rep.State() == state {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("the replication is %s (%v), not %s", rep.State(), rep.Err(), state)
		}
	}
}

func (r rig) version() {
	v, err := r.Version(r.Context())
	r.ok(err)
	if !strings.HasPrefix(v.Version, "3.") || v.Vendor == "" {
		r.Errorf("%+v", v)
	}
}

func (r rig) ping() {
	if up, err := r.Ping(r.Context()); err != nil || !up {
		r.Error(up, err)
	}
}

func (r rig) session() {
	s, err := r.Session(r.Context())
	r.ok(err)
	if s.Name == "" || !slices.Contains(s.Roles, "_admin") || s.AuthenticationMethod == "" {
		r.Errorf("%+v", s)
	}
}

func (r rig) replicatorDatabases() {
	db := r.replicator()
	r.status(r.CreateDB(r.Context(), db.Name()), http.StatusPreconditionFailed)
	if exists, err := r.DBExists(r.Context(), db.Name()); err != nil || !exists {
		r.Error(exists, err)
	}
	if exists, err := r.DBExists(r.Context(), unique("none")+"/_replicator"); err != nil || exists {
		r.Error(exists, err)
	}
	names, err := r.AllDBs(r.Context())
	r.ok(err)
	if !slices.Contains(names, db.Name()) {
		r.Error(names)
	}
	stats, err := db.Stats(r.Context())
	r.ok(err)
	if stats.Name != db.Name() || stats.DocCount != 0 {
		r.Errorf("%+v", stats)
	}
	all, err := r.DBsStats(r.Context(), []string{db.Name()})
	r.ok(err)
	if len(all) != 1 || all[0].Name != db.Name() {
		r.Errorf("%+v", all)
	}
	r.ok(r.DestroyDB(r.Context(), db.Name()))
	_, err = db.Stats(r.Context())
	r.status(err, http.StatusNotFound)
}

func (r rig) documents() {
	db := r.replicator()
	rev, err := db.Put(r.Context(), "one", r.over(object{"n": 1}))
	r.ok(err)
	_, err = db.Put(r.Context(), "one", r.over(nil))
	r.status(err, http.StatusConflict)
	var doc object
	r.ok(db.Get(r.Context(), "one").ScanDoc(&doc))
	if doc["_rev"] != rev || doc["n"] != 1.0 {
		r.Error(doc)
	}
	if got, err := db.GetRev(r.Context(), "one"); err != nil || got != rev {
		r.Error(got, err)
	}
	id, _, err := db.CreateDoc(r.Context(), r.over(nil))
	r.ok(err)
	rows := db.AllDocs(r.Context(), kivik.Param("include_docs", true))
	var ids []string
	for rows.Next() {
		id, err := rows.ID()
		r.ok(err)
		ids = append(ids, id)
	}
	r.ok(rows.Err())
	if meta, err := rows.Metadata(); err != nil || meta.TotalRows != 2 || !slices.Contains(ids, id) {
		r.Error(ids, meta, err)
	}
	revs := db.OpenRevs(r.Context(), "one", []string{rev})
	if !revs.Next() {
		r.Error(revs.Err())
	}
	r.ok(revs.Close())
	_, err = db.Delete(r.Context(), "one", rev)
	r.ok(err)
	r.status(db.Get(r.Context(), "one").Err(), http.StatusNotFound)
}

func (r rig) bulk() {
	db := r.replicator()
	results, err := db.BulkDocs(r.Context(), []any{r.over(object{"_id": "a"}), r.over(object{"_id": "b"})})
	r.ok(err)
	if len(results) != 2 || results[0].Error != nil || results[1].ID != "b" {
		r.Errorf("%+v", results)
	}
	got := db.BulkGet(r.Context(), []kivik.BulkGetReference{{ID: "a"}})
	if !got.Next() {
		r.Fatal(got.Err())
	}
	var doc object
	r.ok(got.ScanDoc(&doc))
	if doc["_id"] != "a" {
		r.Error(doc)
	}
	r.ok(got.Close())
	const rev = "1-0123456789abcdef0123456789abcdef"
	diff := db.RevsDiff(r.Context(), map[string][]string{"a": {rev}})
	var missing kivik.RevDiff
	if !diff.Next() || diff.ScanValue(&missing) != nil || !slices.Equal(missing.Missing, []string{rev}) {
		r.Error(diff.Err(), missing)
	}
	r.ok(diff.Close())
	r.ok(db.Flush(r.Context()))
}

func (r rig) attachments() {
	db := r.replicator()
	rev, err := db.Put(r.Context(), "a", r.over(nil))
	r.ok(err)
	_, err = db.PutAttachment(r.Context(), "a", &kivik.Attachment{Filename: "x", ContentType: "x/y",
		Content: io.NopCloser(strings.NewReader("text"))}, kivik.Rev(rev))
	r.ok(err)
	got, err := db.GetAttachment(r.Context(), "a", "x")
	r.ok(err)
	text, err := io.ReadAll(got.Content)
	if err != nil || string(text) != "text" || got.ContentType != "x/y" {
		r.Error(text, got, err)
	}
	r.ok(got.Content.Close())
	rev, err = db.GetRev(r.Context(), "a")
	r.ok(err)
	_, err = db.DeleteAttachment(r.Context(), "a", rev, "x")
	r.ok(err)
}

func (r rig) changes() {
	db := r.replicator()
	_, err := db.Put(r.Context(), "a", r.over(nil))
	r.ok(err)
	feed := db.Changes(r.Context(), kivik.Params(object{"feed": "continuous", "include_docs": true, "heartbeat": 1000}))
	defer feed.Close()
	for _, want := range []string{"a", "b"} {
		if !feed.Next() {
			r.Fatal(feed.Err())
		}
		if feed.ID() != want || len(feed.Changes()) != 1 || feed.Seq() == "" {
			r.Error(feed.ID(), feed.Changes(), feed.Seq())
		}
		if want == "a" {
			_, err := db.Put(r.Context(), "b", r.over(nil))
			r.ok(err)
		}
	}
	normal := db.Changes(r.Context())
	n := 0
	for normal.Next() {
		n++
	}
	meta, err := normal.Metadata()
	if err != nil || n != 2 || meta.LastSeq == "" {
		r.Error(n, meta, err)
	}
}

func (r rig) security() {
	db := r.replicator()
	want := kivik.Security{Members: kivik.Members{Names: []string{"ann"}, Roles: []string{"dev"}}}
	r.ok(db.SetSecurity(r.Context(), &want))
	got, err := db.Security(r.Context())
	r.ok(err)
	if !slices.Equal(got.Members.Names, want.Members.Names) || !slices.Equal(got.Members.Roles, want.Members.Roles) {
		r.Errorf("%+v", got)
	}
}

func (r rig) config() {
	all, err := r.Config(r.Context(), "_local")
	r.ok(err)
	if all["chttpd"]["bind_address"] != "127.0.0.1" {
		r.Error(all["chttpd"])
	}
	_, err = r.SetConfigValue(r.Context(), "_local", "replicator", "max_churn", "19")
	r.ok(err)
	old, err := r.SetConfigValue(r.Context(), "_local", "replicator", "max_churn", "20")
	if err != nil || old != "19" {
		r.Error(old, err)
	}
	if got, err := r.ConfigValue(r.Context(), "_local", "replicator", "max_churn"); err != nil || got != "20" {
		r.Error(got, err)
	}
	if all, err := r.ConfigSection(r.Context(), "_local", "replicator"); err != nil || all["max_churn"] != "20" {
		r.Error(all, err)
	}
	_, err = r.DeleteConfigKey(r.Context(), "_local", "replicator", "max_churn")
	r.ok(err)
}

func (r rig) membership() {
	m, err := r.Membership(r.Context())
	if err != nil || len(m.AllNodes) == 0 || len(m.ClusterNodes) == 0 {
		r.Error(m, err)
	}
}

func (r rig) replicate() {
	source, target := r.endpoints()
	rep, err := r.Replicate(r.Context(), target, source, kivik.Param("create_target", true))
	r.ok(err)
	r.await(rep, kivik.ReplicationComplete)
	if rep.IsActive() || rep.DocsWritten() != 2 || rep.EndTime().IsZero() || rep.Err() != nil {
		r.Errorf("%d documents written, ended %s, %v", rep.DocsWritten(), rep.EndTime(), rep.Err())
	}
	r.ok(rep.Delete(r.Context()))
	r.status(rep.Update(r.Context()), http.StatusNotFound)
}

func (r rig) continuous() {
	source, target := r.endpoints()
	rep, err := r.Replicate(r.Context(), target, source,
		kivik.Params(object{"create_target": true, "continuous": true}))
	r.ok(err)
	r.await(rep, "running")
	for end := time.Now().Add(30 * time.Second); rep.DocsWritten() != 2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("%d documents written", rep.DocsWritten())
		}
		r.ok(rep.Update(r.Context()))
	}
	if !rep.IsActive() {
		r.Error(rep.State())
	}
	r.ok(rep.Delete(r.Context()))
}

func (r rig) failing() {
	_, target := r.endpoints()
	rep, err := r.Replicate(r.Context(), target, r.databases+unique("none"))
	r.ok(err)
	r.await(rep, "crashing")
	var status interface{ HTTPStatus() int }
	if !errors.As(rep.Err(), &status) || status.HTTPStatus() != http.StatusNotFound {
		r.Errorf("%v", rep.Err())
	}
	r.ok(rep.Delete(r.Context()))
}

func (r rig) list() {
	source, target := r.endpoints()
	_, err := r.Replicate(r.Context(), target, source,
		kivik.Params(object{"create_target": true, "continuous": true}))
	r.ok(err)
	reps, err := r.GetReplications(r.Context())
	r.ok(err)
	name := func(address string) string { return path.Base(strings.TrimSuffix(address, "/")) } // the password is masked
	i := slices.IndexFunc(reps, func(rep *kivik.Replication) bool { return name(rep.Source) == name(source) })
	if i < 0 {
		r.Fatalf("%d replications, and not that of %s", len(reps), source)
	}
	if name(reps[i].Target) != name(target) {
		r.Error(reps[i].Target)
	}
	r.ok(reps[i].Delete(r.Context()))
	one, err := r.GetReplications(r.Context(), kivik.Params(object{"limit": 1}))
	if err != nil || len(one) > 1 {
		r.Error(len(one), err)
	}
}

func (r rig) users() {
	users := r.DB("_users")
	name := unique("user")
	id := "org.couchdb.user:" + name
	rev, err := users.Put(r.Context(), id,
		object{"name": name, "password": "secret", "roles": []string{"dev"}, "type": "user"})
	r.ok(err)
	server, err := url.Parse(slash(os.Getenv("SERVER")))
	r.ok(err)
	server.User = nil
	for _, login := range []kivik.Option{couchdb.BasicAuth(name, "secret"), couchdb.CookieAuth(name, "secret")} {
		client, err := kivik.New("couch", server.String(), login)
		r.ok(err)
		s, err := client.Session(r.Context())
		r.ok(err)
		if s.Name != name || !slices.Equal(s.Roles, []string{"dev"}) {
			r.Errorf("%v: %+v", login, s)
		}
	}
	_, err = users.Delete(r.Context(), id, rev)
	r.ok(err)
}
