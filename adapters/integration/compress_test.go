package integration

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/adapters/compare"
)

// TestCompressed writes documents to all kinds of servers in compressed requests, with attachments inside and without.
func TestCompressed(t *testing.T) {
	alongside(t)
	all := servers(t)
	source := database(t, all["couchrelay"])
	var docs []object
	for n := range 1500 {
		doc := object{"_id": fmt.Sprint("ü", n), "text": strings.Repeat(fmt.Sprint("Zeit ist Geld ", n), 20)}
		if n%50 == 0 {
			doc["_attachments"] = object{"ü.bin": object{"content_type": "application/x-bytes",
				"data": []byte(strings.Repeat("\x00\xff7", 1000+n))}}
		}
		docs = append(docs, doc)
	}
	write(t, source, true, docs...)
	for to := range all {
		t.Run(to, func(t *testing.T) {
			target, writes := database(t, all[to]), tap(t, all[to])
			through := strings.Replace(target, strings.TrimSuffix(all[to], "/")+"/", writes.url, 1)
			if out, status := replicate(t, source, through, "--compression", "on"); status != 0 {
				t.Fatalf("status %d: %s", status, out)
			}
			same, err := compare.Databases(t.Context(), source, target)
			if err != nil || same.Documents != len(docs) || same.Attachments != 30 {
				t.Fatalf("%+v, %v", same, err)
			}
			if writes.packed < 3 || writes.alone > 0 {
				t.Errorf("%d compressed writes, %d documents alone", writes.packed, writes.alone)
			}
		})
	}
}
