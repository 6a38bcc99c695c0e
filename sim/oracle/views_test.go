package oracle

import (
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
)

func TestViews(t *testing.T) {
	running := jobstore.Record{
		Database: "a/_replicator", DocID: "doc", User: "u", RepID: "rep",
		Source: "http://s1/a1", Target: "http://s2/b1", State: jobstore.Running,
		Node: "n1", Created: 1, LastStart: 2, LastUpdated: 3,
		History: []jobstore.Event{{Type: "started", At: 2}}, Stats: jobstore.Stats{DocsRead: 1},
	}
	failed := running
	failed.State, failed.Reason, failed.Node = jobstore.Failed, "because", ""
	// shown has users see a view of a record that is right but for one change.
	shown := func(rec jobstore.Record, wrong func(*jobstore.View)) func(*rig) {
		return func(r *rig) {
			v := rec.View()
			wrong(&v)
			(&views{r.o.chronicle}).checkShown("job", &rec, v)
		}
	}
	right := func(*jobstore.View) {}
	account := func(rec jobstore.Record, name string) func(*rig) {
		return func(r *rig) { (&views{r.o.chronicle}).checkAccount("job", &rec, name) }
	}
	check(t, &viewSubject, []case_{
		{"running", shown(running, right), ""},
		{"failed", shown(failed, right), ""},
		{"never started", shown(jobstore.Record{State: jobstore.Pending}, right), ""},
		{"by another id", shown(running, func(v *jobstore.View) { v.RepID = "another" }), "S29n"},
		{"active when it is over", shown(failed, func(v *jobstore.View) { v.ActiveID = "rep" }), "S29n"},
		{"with crashes", shown(running, func(v *jobstore.View) { v.ErrorCount = 1 }), "S29n"},
		{"failed without an error", shown(failed, func(v *jobstore.View) { v.ErrorCount = 0 }), "S29n"},
		{"with another target", shown(running, func(v *jobstore.View) { v.Target = "http://s3/b1" }), "S29n"},
		{"at another time", shown(running, func(v *jobstore.View) { v.LastStart++ }), "S29n"},
		{"without its run", shown(running, func(v *jobstore.View) { v.Run = "" }), "S29n"},
		{"without history", shown(running, func(v *jobstore.View) { v.History = nil }), "S29n"},
		{"with a problem", shown(running, func(v *jobstore.View) { v.Problem = "because" }), "S29n"},
		{"failed for another reason", shown(failed, func(v *jobstore.View) { v.Problem = "so" }), "S29n"},
		{"without numbers", shown(running, func(v *jobstore.View) { v.Stats = nil }), "S29n"},
		{"with other numbers", shown(running, func(v *jobstore.View) {
			v.Stats = &jobstore.Stats{}
		}), "S29n"},

		{"account of the database", account(running, "a/_replicator"), ""},
		{"account of the user", account(jobstore.Record{User: "u"}, "user:u"), ""},
		{"account of nobody", account(jobstore.Record{}, "user:"), ""},
		{"account of the user instead of the database", account(running, "user:u"), "S9f"},

		{"waits, and is stored as running", func(r *rig) {
			r.store(nil, jobs.Job{ID: "job", State: jobs.Running, Lock: aLock}, running)
			waits := aJob(running)
			waits.header.State = jobs.Pending
			r.change(nil, aJob(running), waits)
		}, "S29n"},
		{"still runs", func(r *rig) {
			r.store(nil, jobs.Job{ID: "job", State: jobs.Running, Lock: aLock}, running)
			r.change(nil, aJob(failed), aJob(running))
		}, ""},
	})
}
