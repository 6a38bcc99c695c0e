package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"couchrelay/adapters/config"
)

// TestNumbersAreFresh: what this node's runs have copied is shown as soon as the target has it, though the store hears
// of it seldom.
func TestNumbersAreFresh(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Node.ProgressInterval, c.Replicator.Parse.CheckpointInterval = time.Hour, time.Hour
	r.start(c)
	r.fill(5)
	id := r.want(202, "POST", "_replicate", r.body(`,"continuous":true`))["_local_id"]
	for round := range 8 {
		r.await("the documents", func() bool {
			var info struct {
				Count int `json:"doc_count"`
			}
			return request("GET", r.target.url+"copy", nil, &info) == nil && info.Count == 5*(round+1)
		})
		var tasks []object
		r.await("the run to hear of the answer", func() bool {
			tasks = r.tasks()
			return tasks[0]["docs_written"] == float64(5*(round+1))
		})
		info, _ := r.want(200, "GET", fmt.Sprint("_scheduler/jobs/", id), "")["info"].(object)
		for _, numbers := range []object{tasks[0], info} {
			if numbers["docs_written"] != float64(5*(round+1)) || numbers["through_seq"] == "" {
				t.Errorf("round %d: %v", round, numbers)
			}
		}
		r.add(5*(round+1), 5)
	}
}

// tasks is the list of active tasks.
func (r *rig) tasks() (list []object) {
	r.t.Helper()
	answer, err := http.Get(r.url + "_active_tasks")
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		r.t.Fatalf("tasks: %s, %v", raw, err)
	}
	return list
}
