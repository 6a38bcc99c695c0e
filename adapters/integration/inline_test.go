package integration

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"couchrelay/adapters/compare"
)

// TestSmallAttachments: documents with small attachments travel in bulk between all pairs of servers, when they
// are new and when they change.
func TestSmallAttachments(t *testing.T) {
	alongside(t)
	all := servers(t)
	for from := range all {
		for to := range all {
			t.Run(from+"→"+to, func(t *testing.T) {
				source, target := database(t, all[from]), database(t, all[to])
				reads, writes := tap(t, all[from]), tap(t, all[to])
				arrive := func() {
					t.Helper()
					left := strings.Replace(source, strings.TrimSuffix(all[from], "/")+"/", reads.url, 1)
					right := strings.Replace(target, strings.TrimSuffix(all[to], "/")+"/", writes.url, 1)
					if out, status := replicate(t, left, right); status != 0 {
						t.Fatalf("status %d: %s", status, out)
					}
					same, err := compare.Databases(t.Context(), source, target)
					if err != nil || same.Attachments < 20 {
						t.Fatalf("%v, %v", same, err)
					}
					if reads.alone+writes.alone > 0 {
						t.Errorf("%d documents are read alone, and %d written", reads.alone, writes.alone)
					}
				}
				var docs []object
				for n := range 20 {
					data := bytes.Repeat([]byte{byte(n), 7, 200}, n*500)
					docs = append(docs, object{"_id": fmt.Sprint("ü", n), "_attachments": object{
						"ü.bin": object{"content_type": "application/x-incompressible", "data": data}}})
				}
				write(t, source, true, docs...)
				arrive()
				for n := range docs {
					doc := want(t, 200, "GET", source+"/"+fmt.Sprint("ü", n), nil)
					doc["edited"] = true // the attachment remains
					if n%2 == 0 {
						doc["_attachments"].(object)["new"] = object{"content_type": "application/x-incompressible",
							"data": []byte{1, 2, 3, byte(n)}}
					}
					docs[n] = doc
				}
				write(t, source, true, docs...)
				arrive()
			})
		}
	}
}
