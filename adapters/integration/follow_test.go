package integration

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFollowed: replication documents of another server run in the revisions that win there, whatever conflicts with
// them and in whichever order the server names their leaves, and have their states there.
func TestFollowed(t *testing.T) {
	for name, server := range map[string]string{"PouchDB": pouch[0], "CouchDB": couch} {
		t.Run(name, func(t *testing.T) {
			if server == "" {
				t.Skip("there is no " + name)
			}
			source, docs := database(t, server), database(t, server)
			write(t, source, true, object{"_id": "document"})
			at, err := url.Parse(docs)
			if err != nil {
				t.Fatal(err)
			}
			leaf := func(id string, gen int, hash string, deleted bool) {
				ids := []string{strings.Repeat(hash, 32)}
				for n := gen - 1; n > 1; n-- {
					ids = append(ids, strings.Repeat(hash, 31)+fmt.Sprint(n))
				}
				write(t, docs, false, object{
					"_id": id, "_rev": fmt.Sprint(gen, "-", ids[0]), "_deleted": deleted,
					"_revisions": object{"start": gen, "ids": append(ids, strings.Repeat("0", 32))},
					"source":     source, "target": fmt.Sprintf("%s-%s-%s", source, id, hash), "create_target": true,
				})
				t.Cleanup(func() { call(t, "DELETE", fmt.Sprintf("%s-%s-%s", source, id, hash), nil) })
			}
			leaf("wins-last", 2, "a", false)
			leaf("wins-last", 2, "b", false)
			leaf("wins-first", 2, "b", false)
			leaf("wins-first", 2, "a", false)
			leaf("resolved", 2, "b", false)
			leaf("resolved", 3, "c", true)

			dir := t.TempDir()
			config := filepath.Join(dir, "follow.ini")
			base, db := *at, at.Path[strings.LastIndex(at.Path, "/")+1:]
			base.Path = ""
			check(os.WriteFile(config, fmt.Appendf(nil, "[follow it]\nurl = %s\ndatabases = %s\ntrusted = true\n",
				&base, db), 0o600))
			serve(t, dir, "--config", config)
			for _, id := range []string{"wins-last", "wins-first", "resolved"} {
				await(t, "the end of "+id, func() bool {
					return want(t, 200, "GET", docs+"/"+id, nil)["_replication_state"] == "completed"
				})
				want(t, 200, "GET", fmt.Sprintf("%s-%s-b/document", source, id), nil)
			}
		})
	}
}
