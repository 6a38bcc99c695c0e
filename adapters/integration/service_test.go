package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"couchrelay/adapters/compare"
)

// TestKilledThreeTimes: a replication completes although the service is killed three times, and no change
// that a checkpoint covers is read twice.
func TestKilledThreeTimes(t *testing.T) {
	alongside(t)
	needPouch(t)
	const total = 10_000
	source, target := database(t, pouch[0]), database(t, pouch[1])
	documents := make([]object, total)
	for n := range documents {
		documents[n] = object{"_id": fmt.Sprintf("doc-%05d", n), "n": n, "text": strings.Repeat("x", 100)}
	}
	write(t, source, true, documents...)
	reads, writes := tap(t, pouch[0]), tap(t, pouch[1])
	through := func(w *wiretap, db string) string { return w.url + db[strings.LastIndex(db, "/")+1:] }
	dir := t.TempDir()
	r := serve(t, dir)
	want(t, 201, "PUT", r.url+"_replicator/big", object{
		"source": through(reads, source), "target": through(writes, target), "worker_batch_size": 250,
		"worker_processes": 2,
	})
	for kill := range 3 {
		moment := 1000 + rand.IntN(2000) + kill*2500
		await(t, fmt.Sprintf("%d documents", moment), func() bool {
			count, _ := want(t, 200, "GET", target, nil)["doc_count"].(float64)
			return int(count) >= moment
		})
		r.kill()
		covered, before := reads.checkpoint(t, pouch[0]), len(reads.reads()) // the source has it last
		r = serve(t, dir)
		await(t, "the next read", func() bool { return len(reads.reads()) > before })
		since := reads.reads()[before]
		if since != covered {
			t.Errorf("kill %d: the last checkpoint covered %s, but changes were read from %s on",
				kill, covered, since)
		}
		t.Logf("killed after %d documents; the checkpoint was at %s, and so was the next read",
			moment, covered)
	}
	await(t, "completion", func() bool { return r.docState(t, "big") == "completed" })
	same, err := compare.Databases(t.Context(), source, target)
	if err != nil || same.Documents != total {
		t.Errorf("%v, %v", same, err)
	}
	doc := want(t, 200, "GET", r.url+"_replicator/big", nil)
	if doc["_replication_state"] != "completed" {
		t.Errorf("document %v", doc)
	}
}

// TestContinuous: changes arrive while the job runs; cancelling ends it.
func TestContinuous(t *testing.T) {
	needPouch(t)
	source, target := database(t, pouch[0]), database(t, pouch[1])
	r := serve(t, t.TempDir())
	answer := want(t, 202, "POST", r.url+"_replicate",
		object{"source": source, "target": target, "continuous": true})
	id := fmt.Sprint(answer["_local_id"])
	for n := range 5 {
		write(t, source, true, object{"_id": fmt.Sprint("doc", n)})
		await(t, "the document", func() bool {
			status,
				_ := call(t, "GET", fmt.Sprint(target, "/doc", n), nil)
			return status == 200
		})
	}
	want(t, 200, "GET", r.url+"_scheduler/jobs/"+id, nil)
	want(t, 200, "POST", r.url+"_replicate", object{"cancel": true, "id": id})
	want(t, 404, "GET", r.url+"_scheduler/jobs/"+id, nil)
	await(t, "the run to end",
		func() bool {
			_, tasks := call(t, "GET", r.url+"_active_tasks",
				nil)
			return tasks["text"] == "[]\n"
		})
	write(t, source, true, object{"_id": "late"})
	if status, _ := call(t, "GET", target+"/late", nil); status != 404 {
		t.Errorf("a cancelled replication wrote: %d", status)
	}
}
