package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
)

// TestLastCheckpoint: a run whose job goes, or becomes another, writes a checkpoint first, so that whoever has the
// replication next goes on from there.
func TestLastCheckpoint(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig, rev, id string){
		"deleted": func(r *rig, rev, _ string) { r.want(200, "DELETE", "x%2F_replicator/doc?rev="+rev, "") },
		"edited": func(r *rig, rev, _ string) {
			r.want(201, "PUT", "x%2F_replicator/doc?rev="+rev, r.body(`,"continuous":true,"worker_processes":2`))
		},
		"paused": func(r *rig, rev, _ string) {
			r.want(201, "PUT", "x%2F_replicator/doc?rev="+rev, r.body(`,"continuous":true,"paused":true`))
		},
		"database deleted": func(r *rig, _, _ string) { r.want(200, "DELETE", "x%2F_replicator", "") },
		"canceled": func(r *rig, _, id string) {
			r.want(200, "POST", "_replicate", `{"cancel":true,"id":"`+id+`"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.stop()
			c := config.Default()
			c.Replicator.Parse.CheckpointInterval = time.Hour
			r.start(c)
			r.fill(5)
			rev, id := "", ""
			if name == "canceled" {
				id = fmt.Sprint(r.want(202, "POST", "_replicate", r.body(`,"continuous":true`))["_local_id"])
			} else {
				r.want(201, "PUT", "x%2F_replicator", "")
				rev = fmt.Sprint(r.want(201, "PUT", "x%2F_replicator/doc", r.body(`,"continuous":true`))["rev"])
				r.await("the id", func() bool {
					_, job := r.call("GET", "_scheduler/docs/x%2F_replicator/doc", "")
					id, _ = job["id"].(string)
					return id != ""
				})
			}
			var info struct {
				Count int `json:"doc_count"`
			}
			r.await("the documents", func() bool {
				return request("GET", r.target.url+"copy", nil, &info) == nil && info.Count == 5
			})
			r.await("the answer to the write, which a run that stops does not wait for", func() bool {
				_, job := r.call("GET", "_scheduler/jobs/"+url.PathEscape(id), "")
				info, _ := job["info"].(map[string]any)
				return info["docs_written"] == 5.0
			})
			base, _, _ := strings.Cut(id, "+")
			log := func() (seq any) {
				var checkpoint map[string]any
				if request("GET", r.target.url+"copy/_local/"+base, nil, &checkpoint) != nil {
					return nil
				}
				return checkpoint["source_last_seq"]
			}
			if seq := log(); seq != nil {
				t.Fatalf("a checkpoint at %v before its time", seq)
			}
			end(r, rev, id)
			var source struct {
				Seq any `json:"update_seq"`
			}
			if err := request("GET", r.source.url+"db", nil, &source); err != nil {
				t.Fatal(err)
			}
			r.await("the last checkpoint", func() bool { seq := log(); return seq != nil && seq == source.Seq })
		})
	}
}
