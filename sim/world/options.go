package world

import (
	"encoding/json"
	"maps"

	"couchrelay/core/jobstore"
	"couchrelay/core/prng"
	"couchrelay/sim/decide"
)

// optionActions are those of users who edit the options of documents. A swarm draws them by themselves.
var optionActions = []action{
	{name: "job-options", where: "a frontend", most: 100_000, do: editOptions,
		what: "a document gets other options, loses some, or gets back those that it had before"},
}

// drawOptions has one world of three be one whose users edit options.
func (c *Config) drawOptions(seed uint64) {
	if r := prng.Fork(seed, "options"); r.Intn(3) == 0 {
		for _, a := range optionActions {
			c.Actions[a.name] = 1 + r.Intn(a.most)
		}
	}
}

// option gives a replication an option, another value of it, or takes it away.
type option func(u *users, body map[string]any, site *decide.Site)

var options = []option{
	reselect, startElsewhere, makeOrNot, refuse,
	oneOf("continuous", true, false),
	oneOf("use_checkpoints", false, true), oneOf("use_bulk_get", false, true),
	oneOf("worker_batch_size", 1, 4, 30), oneOf("worker_processes", 1, 2, 4), oneOf("http_connections", 1, 4, 20),
	oneOf("checkpoint_interval", 1000, 10_000, 90_000), oneOf("retries_per_request", 1, 3, 6),
}

// oneOf is an option with some of its values.
func oneOf(name string, values ...any) option {
	return func(_ *users, body map[string]any, site *decide.Site) {
		if n := site.Int(len(values) + 1); n > 0 {
			body[name] = values[n-1]
		} else {
			delete(body, name)
		}
	}
}

// reselect has a replication select other documents, or all.
func reselect(u *users, body map[string]any, site *decide.Site) {
	for _, name := range []string{"selector", "filter", "query_params", "doc_ids", "winning_revs_only"} {
		delete(body, name)
	}
	if site.Int(4) > 0 {
		choose(u, body, site)
	}
}

func startElsewhere(u *users, body map[string]any, site *decide.Site) {
	source, _ := body["source"].(string)
	if db := u.w.net.find(source); db != nil && site.Int(2) == 1 {
		body["since_seq"] = json.RawMessage(db.Last())
	} else {
		delete(body, "since_seq")
	}
}

// makeOrNot has a replication make its target, or use the one that there is.
func makeOrNot(u *users, body map[string]any, site *decide.Site) {
	target, _ := body["target"].(string)
	delete(body, "create_target_params")
	switch n := site.Int(3); {
	case n == 0 && u.w.net.find(target) != nil:
		delete(body, "create_target")
		return
	case n == 1:
		body["create_target_params"] = map[string]any{"q": 3}
	}
	body["create_target"] = true
}

// refuse says what becomes of documents that the target refuses, where users of this world say that.
func refuse(u *users, body map[string]any, site *decide.Site) {
	if u.w.Config.choosesOnRefusal() {
		oneOf("on_refusal", "retry", "fail", "skip")(u, body, site)
	}
}

// editOptions changes an option or two of a document, or puts back what it had before the last such edit.
func editOptions(u *users, site *decide.Site) {
	j := anyAside(u, site)
	if j == nil || j.busy {
		return
	}
	body := maps.Clone(j.body)
	if j.before != nil && site.Int(4) == 0 {
		body = j.before
	} else {
		for range 1 + site.Int(2) {
			options[site.Int(len(options))](u, body, site)
		}
	}
	j.body, j.before = body, j.body
	j.keeps = u.touch.Int(4) == 3
	u.write(j, site, false)
}

// anyAside chooses a replication document, half of the time one whose job waits after a crash, is parked or is over.
func anyAside(u *users, site *decide.Site) *JobDoc {
	if site.Int(2) == 1 {
		aside := jobsThat(u, func(rec *jobstore.Record) bool {
			return rec.State == jobstore.Crashing || rec.State.Terminal() || rec.Parking != (jobstore.Parking{})
		})
		if len(aside) > 0 {
			return aside[site.Int(len(aside))]
		}
	}
	return u.anyJob(site)
}

// jobsThat are the replication documents whose jobs are of a kind at present.
func jobsThat(u *users, are func(*jobstore.Record) bool) (all []*JobDoc) {
	for _, j := range u.jobs {
		rec, err := u.w.store.Record(u.w.db.Present(), j.JobID())
		if err == nil && rec != nil && are(rec) {
			all = append(all, j)
		}
	}
	return all
}
