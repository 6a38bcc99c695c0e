package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// followed is a service that follows a database of another server.
type followed struct {
	*testing.T
	source string // a database with one document
	docs   string // the database with replication documents
	dir    string
	relay  *relay
}

func newFollowed(t *testing.T, server string) *followed {
	f := &followed{T: t, source: database(t, server), docs: database(t, server), dir: t.TempDir()}
	write(t, f.source, true, object{"_id": "document"})
	section := fmt.Sprintf("[follow it]\nurl = %s\ndatabases = %s\ntrusted = true\n", server, f.name())
	check(os.WriteFile(filepath.Join(f.dir, "follow.ini"), []byte(section), 0o600))
	return f
}

func (f *followed) name() string { return f.docs[strings.LastIndex(f.docs, "/")+1:] }

func (f *followed) serve() {
	f.relay = serve(f.T, f.dir, "--config", filepath.Join(f.dir, "follow.ini"))
}

// leaf writes a leaf of a replication document, as a replicator does. Each asks for a target of its own.
func (f *followed) leaf(id string, gen int, hash string, deleted bool) {
	ids := []string{strings.Repeat(hash, 32)}
	for n := gen - 1; n > 1; n-- {
		ids = append(ids, strings.Repeat(hash, 31)+fmt.Sprint(n))
	}
	write(f.T, f.docs, false, object{
		"_id": id, "_rev": fmt.Sprint(gen, "-", ids[0]), "_deleted": deleted,
		"_revisions": object{"start": gen, "ids": append(ids, strings.Repeat("0", 32))},
		"source":     f.source, "target": f.target(id, hash), "create_target": true,
	})
	f.Cleanup(func() { call(f.T, "DELETE", f.target(id, hash), nil) })
}

func (f *followed) target(id, hash string) string { return fmt.Sprintf("%s-%s-%s", f.source, id, hash) }

// completed waits until documents say that they are completed, and wants their leaves "b" to have been run.
func (f *followed) completed(ids ...string) {
	f.Helper()
	for _, id := range ids {
		await(f.T, "the end of "+id, func() bool {
			return want(f.T, 200, "GET", f.docs+"/"+id, nil)["_replication_state"] == "completed"
		})
		want(f.T, 200, "GET", f.target(id, "b")+"/document", nil)
	}
}

// lists reports whether the service has a document of the mirror.
func (f *followed) lists(id string) bool {
	mirror := strings.ReplaceAll("it/"+f.name()+"/_replicator", "/", "%2F")
	status, _ := call(f.T, "GET", f.relay.url+"_scheduler/docs/"+mirror+"/"+id, nil)
	return status == 200
}

// TestFollowed: replication documents of another server run in the revisions that win there, whatever conflicts with
// them and in whichever order the server names their leaves, and have their states there.
func TestFollowed(t *testing.T) {
	alongside(t)
	for name, server := range map[string]string{"PouchDB": pouch[0], "CouchDB": couch} {
		t.Run(name, func(t *testing.T) {
			if server == "" {
				t.Skip("there is no " + name)
			}
			f := newFollowed(t, server)
			f.leaf("wins-last", 2, "a", false)
			f.leaf("wins-last", 2, "b", false)
			f.leaf("wins-first", 2, "b", false)
			f.leaf("wins-first", 2, "a", false)
			f.leaf("resolved", 2, "b", false)
			f.leaf("resolved", 3, "c", true)
			f.serve()
			f.completed("wins-last", "wins-first", "resolved")
			f.relay.kill()
			f.whileAway()
			f.madeAnew()
		})
	}
}

// whileAway: what changes while the service is away counts when it is back.
func (f *followed) whileAway() {
	rev := want(f.T, 200, "GET", f.docs+"/resolved", nil)["_rev"]
	want(f.T, 200, "DELETE", fmt.Sprint(f.docs, "/resolved?rev=", rev), nil)
	f.leaf("late", 2, "b", false)
	f.serve()
	f.completed("late")
	if f.lists("resolved") || !f.lists("wins-last") {
		f.Error("a document is listed that was deleted, or one is not that is there")
	}
}

// madeAnew: a database that is made again has other documents, and more changes than the one before.
func (f *followed) madeAnew() {
	want(f.T, 200, "DELETE", f.docs, nil)
	want(f.T, 201, "PUT", f.docs, nil)
	for n := range 20 {
		f.leaf(fmt.Sprint("other", n), 2, "b", false)
	}
	f.completed("other0", "other19")
	await(f.T, "the jobs of former documents to go", func() bool { return !f.lists("wins-last") })
}
