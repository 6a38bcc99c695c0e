package jobstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// members are those of a job's record, with its state as its header has it, and of its document.
func (b *bench) members(id string) map[string]string {
	b.t.Helper()
	all := map[string]string{}
	add := func(prefix string, raw []byte) {
		var parsed map[string]json.RawMessage
		if err := json.Unmarshal(raw, &parsed); err != nil {
			b.t.Fatal(err)
		}
		for name, value := range parsed { // order does not matter: into a map
			all[prefix+name] = string(value)
		}
	}
	if rec := b.record(jobID(id)); rec != nil {
		for i, e := range rec.History {
			all[fmt.Sprint("event", len(rec.History)-1-i)] = fmt.Sprintf("%s %s %s", e.Type, e.By, e.Reason)
		}
		rec.History = nil
		add("", rec.encode())
	}
	b.do1(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		doc, err := db.Read(id, docs.Want{})
		if err == nil {
			add("doc.", doc.Body)
		}
		return nil
	})
	j, err := kv.Run(b.t.Context(), b.db, func(tx kv.Tx) (string, error) {
		j, err := b.s.Jobs.Get(tx, jobID(id))
		if err != nil || j == nil {
			return "gone", err
		}
		return fmt.Sprintf("%s lot %q due in %s", j.State, j.Lot, max(j.Due, b.now).Sub(b.now).Round(time.Minute)), nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	all["queue"] = j
	for name, value := range all { // order does not matter: each value is changed alone
		n, is := strings.CutPrefix(value, `{"revisions_checked":0,"missing_revisions_found":0,"docs_read":`)
		if n, _, _ = strings.Cut(n, ","); is {
			all[name] = n + " read"
		}
	}
	return all
}

// changed are the members that differ, with what they are now.
func changed(before, after map[string]string) (list []string) {
	for name, value := range after { // order does not matter: sorted below
		if before[name] != value {
			list = append(list, name+": "+value)
		}
	}
	for name := range before { // order does not matter: sorted below
		if _, has := after[name]; !has {
			list = append(list, name+": gone")
		}
	}
	slices.Sort(list)
	return list
}

// TestWhatRunsWrite: what a run that goes on, or ends, leaves in its job, the queue and the document; nothing else
// changes. The job has crashed before, since its target asked to slow down.
func TestWhatRunsWrite(t *testing.T) {
	info := replication.Info{Counters: checkpoint.Counters{DocsRead: 13, DocsWritten: 14}, ChangesPending: 3}
	stats, finding := StatsOf(info), refusalOf("a", false)
	told := replication.Trouble{Error: "db_not_found", Reason: "no database"}
	throttled := replication.Trouble{Error: "too_many_requests", Reason: "slower", Throttled: true}
	const anHour, now = "1700003600000000", "last_updated: 1700003601000000" // after the beginning
	failed := []string{
		`doc._replication_state: "failed"`, `doc._replication_state_reason: "no database"`,
		`doc._replication_state_time: "2023-11-14T23:13:21Z"`, `error: "db_not_found"`,
		"event4: crashed  db_not_found: no database", now, "node: gone", `queue: finished lot "" due in 0s`,
		`reason: "no database"`, `state: "failed"`,
	}
	pending := []string{now, "node: gone", `queue: pending lot "" due in 0s`, `state: "pending"`}
	stopped := slices.Concat(pending, []string{"event4: stopped  ", "event5: pending  "})
	another := []string{`base_id: "base2"`, `rep_id: "rep2"`, "stats: 0 read"}
	for name, c := range map[string]struct {
		do   func(Owned, Turn) error // nil for the accept
		want []string
	}{
		"accept": {nil, []string{
			"event3: started  ", "last_start: " + anHour, "last_updated: " + anHour, `node: "node1"`,
			`queue: running lot "" due in 0s`, `state: "running"`,
		}},
		"claim": {
			func(h Owned, _ Turn) error { return h.Claim("rep2", "base2") }, slices.Concat(another, []string{now}),
		},
		"claim again": {func(h Owned, _ Turn) error { return h.Claim("rep1", "base1") }, []string{now}},
		"progress":    {func(h Owned, _ Turn) error { return h.Progress(stats) }, []string{now, "stats: 13 read"}},
		"refused": {
			func(h Owned, _ Turn) error { return h.StoreRefused("by", []replication.Finding{finding}) },
			[]string{now, `refused: {"listed":1,"by":"by","changes":1700000000000001,"left":1700000000000001,` +
				`"of":"base1"}`},
		},
		"complete": {func(h Owned, u Turn) error { return h.Complete(replication.End{Info: info}, u) }, []string{
			`doc._replication_state: "completed"`, `doc._replication_state_time: "2023-11-14T23:13:21Z"`,
			"doc._replication_stats: 13 read", "error: gone", "error_count: gone", "event4: stopped  ", now,
			"node: gone", `queue: finished lot "" due in 0s`, "reason: gone", `state: "completed"`, "stats: 13 read",
			"throttled: gone",
		}},
		"fail": {func(h Owned, u Turn) error { return h.Fail(told, u) }, failed},
		"fail refused": {
			func(h Owned, u Turn) error { return h.FailRefused(told, stats, finding, u) },
			slices.Concat(failed, []string{
				`refused: {"listed":1,"by":"end","changes":1700000000000001,"left":1700000000000001,"of":"base1"}`,
				"stats: 13 read",
			}),
		},
		"crash": {func(h Owned, u Turn) error { return h.Crash(told, nil, u, 1) }, []string{
			`error: "db_not_found"`, "error_count: 2", "event4: crashed  db_not_found: no database", now, "node: gone",
			`queue: pending lot "" due in 1m0s`, `reason: "no database"`, `state: "crashing"`, "throttled: gone",
		}},
		"slow down": {func(h Owned, u Turn) error { return h.Crash(throttled, &stats, u, 1) }, []string{
			"error_count: 2", "event4: crashed  too_many_requests: slower", now, "node: gone",
			`queue: pending lot "" due in 1m0s`, `state: "crashing"`, "stats: 13 read", "stuck: 1",
		}},
		"requeue": {
			func(h Owned, u Turn) error { return h.Requeue(&stats, u) },
			slices.Concat(stopped, []string{"stats: 13 read"}),
		},
		"stop": {func(h Owned, u Turn) error { return h.Requeue(nil, u) }, stopped},
		"stand by": {
			func(h Owned, u Turn) error { return h.StandBy("rep2", "base2", u) },
			slices.Concat(pending, another, []string{"event4: pending  "}),
		},
	} {
		b := newBench(t)
		b.put("r", `{"source":"http://u:p@h/a","target":"http://h/b","owner":"ann"}`, admin)
		w := b.accept()
		b.end(w, func(h Owned) error { return h.Claim("rep1", "base1") })
		first := StatsOf(replication.Info{Counters: checkpoint.Counters{DocsRead: 1}, ChangesPending: -1})
		b.end(w, func(h Owned) error { return h.Progress(first) })
		b.end(w, func(h Owned) error { return h.Crash(throttled, nil, Turn{Place: w.Place}, 1) })
		b.now = b.now.Add(time.Hour)
		b.do1(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 9); return err })
		before := b.members("r")
		w = b.accept()
		if c.do != nil {
			before = b.members("r")
			b.now = b.now.Add(time.Second)
			b.end(w, func(h Owned) error { return c.do(h, Turn{Place: w.Place}) })
		}
		slices.Sort(c.want)
		if got := changed(before, b.members("r")); !slices.Equal(got, c.want) {
			t.Errorf("%s changes\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// TestWhatUsersWrite: what orders of operators, and edits of a document that leave its replication as it is, change in
// the job. It goes on with all that it has: its place, its crashes, its numbers, its history.
func TestWhatUsersWrite(t *testing.T) {
	const now, parked = "last_updated: 1700000001000000", `queue: pending lot "paused" due in 0s`
	order := func(give func(o Operator, id, reason string) (bool, error)) func(b *bench) {
		return func(b *bench) { b.give(func(o Operator) (bool, error) { return give(o, jobID("r"), "why") }) }
	}
	edit := func(owner, more string) func(b *bench) {
		body := `{"source":"http://u:p@h/a","target":"http://h/b","owner":"` + owner + `"` + more + "}"
		return func(b *bench) { b.put("r", body, admin) }
	}
	for name, c := range map[string]struct {
		do      func(b *bench)
		want    []string
		waiting string   // also changed, unless the job runs
		crashed []string // also changed, if the job has crashed
		run     []string // also changed, if the job runs
	}{
		"pause": {
			do: order(Operator.Pause), waiting: parked,
			want: []string{"event: paused ann why", now, `pause: {"by":"ann","reason":"why","at":1700000001000000}`},
		},
		"reset": {
			do:      order(Operator.Reset),
			want:    []string{"event: reset ann why", now, "reset: 1700000001000000"},
			crashed: []string{"stats: 0 read"}, run: []string{"stats: 0 read"},
		},
		"retry":   {do: order(Operator.Retry), crashed: []string{"event: retried ann why", now}},
		"comment": {do: edit("ann", `,"comment":1`), want: []string{"doc.comment: 1", `unknown_fields: ["comment"]`}},
		"weight":  {do: edit("ann", `,"weight":300`), want: []string{"doc.weight: 300", "weight: 300"}},
		"owner":   {do: edit("bob", ""), want: []string{`doc.owner: "bob"`, `user: "bob"`}},
		"paused": {
			do: edit("ann", `,"paused":true`), waiting: parked,
			want: []string{"doc.paused: true", "event: paused  by the document", now, "paused_by_document: true"},
		},
	} {
		for _, state := range []string{"ready", "running", "crashing"} {
			b := newBench(t)
			edit("ann", "")(b)
			want := slices.Clone(c.want)
			if state != "ready" {
				w := b.accept()
				b.end(w, func(h Owned) error { return h.Progress(Stats{DocsRead: 1}) })
				if state == "crashing" {
					b.crash(w)
					want = append(want, c.crashed...)
				} else {
					want = append(want, c.run...)
				}
			}
			if state != "running" && c.waiting != "" {
				want = append(want, c.waiting)
			}
			b.now = b.now.Add(time.Second)
			before := b.members("r")
			c.do(b)
			got := changed(before, b.members("r"))
			for i, line := range got {
				if event, is := strings.CutPrefix(line, "event"); is {
					got[i] = "event" + strings.TrimLeft(event, "0123456789")
				}
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s of a job that is %s changes\n%s\nwant\n%s", name, state, strings.Join(got, "\n"),
					strings.Join(want, "\n"))
			}
		}
	}
}
