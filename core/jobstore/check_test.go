package jobstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// findings are what a check of the store finds. One that reads in pages, with few round trips, finds the same.
func (b *bench) findings() []check.Finding {
	b.t.Helper()
	all, paged := b.check(true, b.db.Present()), b.check(false, b.db.Present())
	for i := range all {
		if len(paged) != len(all) || paged[i].What != all[i].What {
			b.t.Errorf("at once %v is found, in pages %v", all, paged)
			break
		}
	}
	return all
}

func (b *bench) check(atOnce bool, r kv.Reader) (all []check.Finding) {
	b.t.Helper()
	root := tuple.Subspace(tuple.Pack("test"))
	c := check.New(check.Options{Root: root, Sections: Sections(root), AtOnce: atOnce})
	for done := false; !done; {
		found, last, err := c.Step(r)
		if err != nil {
			b.t.Fatal(err)
		}
		all, done = append(all, found...), last
	}
	if b.rows = int(c.Rows); int64(len(all)) != c.Findings+c.Unsure || b.rows == 0 {
		b.t.Errorf("the summary is %+v, and there are %d findings", c.Summary, len(all))
	}
	return all
}

// newFullBench is a bench with something of everything.
func newFullBench(t *testing.T) *bench {
	b := newBench(t)
	b.do1(func(tx kv.Tx) error {
		_, _, err := Init(tx, tuple.Subspace(tuple.Pack("fresh")), "uuid")
		return err
	})
	b.s.Jobs.Incarnation = get(b, func(tx kv.Tx) (int64, error) { return b.s.Keys.Jobs.Incarnate(tx) })
	b.s.Config.DuplicatesWait = true
	to := func(name, more string) string {
		return fmt.Sprintf(`{"source":"http://u:p@h/a","target":"http://%s.t/b"%s}`, name, more)
	}
	b.put("done", to("done", ""), admin)
	b.complete(b.accept())
	b.put("bad", to("bad", ""), admin)
	w := b.accept()
	b.end(w, func(h Owned) error { return h.Fail(crash.Trouble, Turn{Place: w.Place}) })
	b.replicate("ann")
	b.complete(b.accept())
	b.put("crash", to("crash", ""), admin)
	b.crash(b.accept())
	b.put("run", to("run", `,"weight":300`), admin)
	run := b.accept()
	b.list(run, 1, refusalOf("a", false), refusalOf("b", false))
	b.do(func(tx kv.Tx) error {
		o := b.by(tx)
		o.Now = b.now
		_, err := o.retryRefused(run.JobID, b.record(run.JobID))
		return err
	})
	b.put("wait", to("run", ""), admin)
	b.put("paused", to("paused", ""), admin)
	b.pause(jobID("paused"))
	b.give(func(o Operator) (bool, error) { return o.MakeHold(Hold{Server: "held.t"}) })
	b.put("held", to("held", ""), admin)
	if _, parked := b.tryAccept(); parked != 1 {
		t.Fatalf("%d jobs are parked", parked)
	}
	b.put("ready", to("ready", `,"doc_ids":["`+strings.Repeat("x", 100_000)+`"]`), admin)
	b.put("gone", to("gone", ""), admin)
	b.put("gone", `{"_deleted":true}`, admin)
	b.put("_design/d", `{"language":"x","_attachments":{"n":{"data":"AAAA"}}}`, admin)
	b.put("_local/l", `{"a":1}`, admin)
	b.do1(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err == nil {
			err = db.SetSecurity([]byte(`{"members":{"names":["ann","` + strings.Repeat("x", 100_000) + `"]}}`))
		}
		return err
	})
	b.do1(func(tx kv.Tx) error { tx.ClearRange(kv.PrefixRange(tuple.Pack("fresh"))); return nil })
	return b
}

// TestCheckOfSound: a sound store has no findings.
func TestCheckOfSound(t *testing.T) {
	for _, f := range newFullBench(t).findings() {
		t.Errorf("%s: %s", f.Key, f.What)
	}
}

// row is the only row of a space whose key has a text in it, and a number of elements.
func (b *bench) row(space tuple.Subspace, text string, size int) kv.KeyValue {
	b.t.Helper()
	var found []kv.KeyValue
	for _, row := range b.db.Pairs() {
		if e, err := space.Unpack(row.Key); err == nil && bytes.Contains(row.Key, []byte(text)) && len(e) == size {
			found = append(found, row)
		}
	}
	if len(found) != 1 {
		b.t.Fatalf("%d rows below %q have %q and %d elements", len(found), space, text, size)
	}
	return found[0]
}

// damage is something that goes wrong with a store.
type damage struct {
	name string
	do   func(b *bench, tx kv.Tx)
	// mends says that a repair brings exactly the rows back that there were.
	mends bool
	at    []byte // the row that is hit
	named bool   // and that a finding names; other findings are about what needs the row
}

// damages are told by the spaces and keys that they hit.
func damages(b *bench) []damage {
	k, root := b.s.Keys, tuple.Subspace(tuple.Pack("test"))
	q, in := k.Jobs, k.Docs.Sub(1, tuple.UUID{1})
	lost := func(name string, mends bool, space tuple.Subspace, text string, size int) damage {
		key := b.row(space, text, size).Key
		return damage{name: "lost " + name, do: func(_ *bench, tx kv.Tx) { tx.Clear(key) }, mends: mends, at: key}
	}
	changed := func(name string, mends bool, space tuple.Subspace, text string, size int, value string) damage {
		key := b.row(space, text, size).Key
		return damage{name: "changed " + name, do: func(_ *bench, tx kv.Tx) {
			tx.Set(key, []byte(value))
		}, mends: mends, at: key, named: true}
	}
	named := func(d damage) damage { d.named = true; return d }
	added := func(name string, mends bool, key []byte, value string) damage {
		return damage{name: "stray " + name, do: func(_ *bench, tx kv.Tx) {
			tx.Set(key, []byte(value))
		}, mends: mends}
	}
	counted := func(name string, mends bool, key []byte, n int64) damage {
		return damage{name: "wrong " + name, do: func(_ *bench, tx kv.Tx) { tx.Add(key, n) }, mends: mends}
	}
	stray := documentJobID(tuple.UUID{1}, "nobody")
	ready, run, none := jobID("ready"), jobID("run"), strings.Repeat("z", 32)+"|"
	return []damage{
		lost("ready row", true, q.Ready, "ready", 4), lost("waiting row", true, q.Waiting, "crash", 2),
		lost("parked row", true, q.Parked, "paused", 2), lost("owned row", true, q.Owned, "run", 3),
		lost("change", true, q.Changed, "done", 3), lost("lease", false, q.Worker, "w", 1),
		lost("heartbeat", false, q.Beat, "w", 1), lost("header", false, q.Job, "ready", 1),
		lost("record", false, q.Job, "crash", 2), lost("part of a replication", false, k.Spec.Sub(ready, 1), "", 0),
		changed("header", false, q.Job, "run", 1, "nonsense"), changed("record", false, q.Job, "run", 2, "{"),
		{name: "job of no database", do: func(b *bench, tx kv.Tx) {
			record := strings.ReplaceAll(string(b.row(q.Job, "crash", 2).Value), instancePrefix(tuple.UUID{1}), none)
			tx.Set(q.Job.Pack(none+"crash"), b.row(q.Job, "crash", 1).Value)
			tx.Set(q.Job.Pack(none+"crash", 0), []byte(record))
		}, at: q.Job.Pack(none + "crash"), named: true},
		changed("owned row", true, q.Owned, "run", 3, "S"), changed("ready row", true, q.Ready, "ready", 4, "other"),
		changed("lease", false, q.Worker, "w", 1, "?"),
		changed("incarnation", false, q.Incarnation, "", 0, string(tuple.Pack(0, 5))),
		added("ready row", true, append(bytes.Clone(q.Ready), tuple.Pack(0, 0, 0, run)...), run),
		added("waiting row", true, q.Waiting.Pack(5, ready), ""),
		added("waiting row of no job", true, append(bytes.Clone(q.Waiting), 0xfe, 1), ""),
		added("owned row of no job", true, q.Owned.Pack("w", 9, 9), ""),
		added("parked row", true, q.Parked.Pack("paused", stray), ""),
		added("owned row", true, q.Owned.Pack("w", 9, ready), ""),
		added("change", true, q.Changed.Pack(1, 2, ready), ""),
		added("heartbeat", true, q.Beat.Pack("x"), "0123456789"), added("call", true, q.Call.Pack("x"), "01234567"),
		added("part of a record", false, q.Job.Pack(stray, 0), "{}"),
		counted("counter of states", true, q.Count.Pack("ready", jobs.Bucket(ready)%16), 1),
		counted("counter of no state", false, q.Count.Pack("waiting", jobs.Bucket(ready)%16), -7),
		counted("counter of an account", true, k.Count.Pack("_replicator"), -2),
		counted("counter of no account", false, k.Count.Pack("user:eve"), 1),
		counted("weights", true, k.Weights.Pack("_replicator"), 5),
		lost("counter of an account", true, k.Count, "_replicator", 1),
		lost("label", true, k.Index.Sub(int64(0), byServer, "crash.t:80"), "", 1),
		lost("one of many labels", true, k.Index.Sub(int64(0), byServer, "h:80"), "ready", 1),
		added("label", true, k.labelRow(0, label{byServer, "h:80"}, stray), ""),
		added("label of another server", true, k.labelRow(0, label{byServer, "other:80"}, ready), ""),
		added("label of another group", true, k.labelRow(over, label{byState, "failed"}, ready), ""),
		counted("tally", true, k.tallyRow("", 0, label{byServer, "h:80"}), 3),
		counted("tally of a database", true, k.tallyRow(instancePrefix(tuple.UUID{1}), 0, label{byServer, "h:80"}), -1),
		counted("tally of nothing", false, k.tallyRow("", 0, label{byUser, "eve"}), 4),
		counted("tally of a database that has no such job", false,
			k.tallyRow(instancePrefix(tuple.UUID{7}), 0, label{byServer, "h:80"}), 4),
		lost("tally", true, k.Tally.Sub("", int64(over), byState, "failed"), "", 0),
		added("part of a job", false, q.Job.Pack(stray, 0), "{}"),
		added("replication", true, k.Spec.Pack(stray, 0), "x"), changed("replication", false, k.Spec, "crash", 2, "x"),
		added("part of a replication, behind a gap", false, k.Spec.Pack(run, 2), "x"),
		added("part of a replication, before the first", false, k.Spec.Pack(run, -1), "x"),
		added("claim", true, k.Claim.Pack("other"), stray), added("second claim", true, k.Claim.Pack("other"), run),
		lost("claim that a job waits for", false, k.Claim, b.record(run).RepID, 1),
		lost("expiry", true, k.Expire, "", 2), added("expiry", true, k.Expire.Pack(7, ready), ""),
		added("expiry of no job", true, k.Expire.Pack(7), ""),
		lost("refused document", false, k.Refused.Sub(run, "a"), "", 1),
		added("refused document", true, k.Refused.Pack(stray, "a", "1-a"), `{"error":"x","attempts":1}`),
		changed("refused document", false, k.Refused.Sub(run, "a"), "", 1, "["),
		added("demand", true, k.Retry.Pack(stray), "01234567"), changed("demand", false, k.Retry, "run", 1, ""),
		{name: "lost hold", do: func(_ *bench, tx kv.Tx) { tx.Clear(k.Held.Pack("server:held.t")) },
			at: b.row(q.Parked, "held.t", 2).Key, named: true},
		changed("hold", false, k.Held, "held", 1, "{}"),
		added("lifted hold", true, k.Lifted.Pack("server:held.t"), ""),
		added("lifted hold without a name", true, k.Lifted.Pack(5), ""),
		added("deleted database", false, k.Dropped.Pack("x"), ""),

		added("setting of nothing", false, append(bytes.Clone(k.Order), 1), "{}"),
		changed("layout", false, root.Sub("schema"), "", 0, ""), changed("uuid", false, root.Sub("uuid"), "", 0, ""),
		lost("layout", false, root.Sub("schema"), "", 0), lost("uuid", false, root.Sub("uuid"), "", 0),
		added("shares", false, k.Shares.Pack("a"), "x"), added("usage", false, k.Usage.Pack("a", 1, "w"), ""),
		added("settings", false, k.Order, "{"), added("key", false, root.Pack("nothing", 1), "x"),
		added("key that is no tuple", false, append(bytes.Clone(root), 0xfe, 1), "x"),
		lost("name of the database", false, k.Docs.Sub(0), "_replicator", 1), lost("sequence", false, in.Sub(0), "", 0),
		changed("description of the database", false, k.Docs.Sub(0), "_replicator", 1, "x"),
		lost("revisions", false, in.Sub(4), "crash", 1), changed("revisions", false, in.Sub(4), "crash", 1, "\x01x"),
		lost("entry", true, in.Sub(5), "crash", 1), changed("entry", true, in.Sub(5), "crash", 1, "short"),
		lost("entry of a deleted document", true, in.Sub(6), "gone", 1),
		added("entry", true, in.Pack(6, "crash"), strings.Repeat("x", 20)),
		lost("change of a document", true, in.Sub(7), "crash", 3),
		changed("change of a document", true, in.Sub(7), "crash", 3, "\x011-a"),
		added("change of a document", true, in.Pack(7, tuple.Versionstamp{User: 3}, 4, "crash"), "\x001-a"),
		added("change of no document", true, in.Pack(7, tuple.Versionstamp{User: 3}, 4, "x"),
			"\x001-"+strings.Repeat("a", 32)),
		lost("content", false, in.Sub(8), "crash", 3), changed("content", false, in.Sub(8), "crash", 3, "\x01["),
		added("content", true, in.Pack(8, "crash", 9, strings.Repeat("a", 32)), "\x01{}"),
		lost("part of content", false, in.Sub(8), "ready", 4),
		changed("local document", false, in.Sub(9), "_local/l", 1, ""),
		changed("content of a local document", false, in.Sub(9), "_local/l", 1, "\x01\x0101234567"),
		named(lost("bytes of an attachment", false, in.Sub(10), "", 2)),
		changed("security", false, in.Sub(3), "", 0, "\x01["),
		added("attachment", false, in.Pack(10, tuple.UUID{9}, 0), "x"),
		counted("counter of documents", true, in.Pack(1), 1),
		counted("counter of deleted documents", true, in.Pack(2), -1),
		added("kind of row", false, in.Pack(77, "x"), "x"),
		added("rows without a database", false, k.Docs.Pack(1, tuple.UUID{8}, 9, "_local/x"), "\x01\x01"),
		{name: "lost list of refused documents", do: func(_ *bench, tx kv.Tx) {
			tx.ClearRange(k.Refused.Sub(run).Range())
		}},
		{name: "document without its job", do: func(b *bench, tx kv.Tx) { _ = b.s.remove(tx, ready) }},
		{name: "job without its document", do: func(b *bench, tx kv.Tx) {
			db, _ := b.s.Docs.Open(tx, "_replicator")
			doc, _ := db.Read("ready", docs.Want{})
			tombstone := docs.Document{ID: "ready", Rev: doc.Rev, Deleted: true, Body: []byte("{}")}
			_, _ = db.Update([]docs.Edit{{Document: tombstone}})
		}},
		{name: "job over and not over", do: func(b *bench, tx kv.Tx) {
			j, rec, _ := readJob(b.s, tx, ready)
			rec.State = Completed
			_ = b.s.Jobs.Add(tx, ready, j.Schedule, rec.encode())
		}},
	}
}

// TestDamages: each damage is found; those that follow from other rows are repaired to the very rows that were there.
func TestDamages(t *testing.T) {
	first := newFullBench(t)
	list := damages(first)
	if len(list) < 30 {
		t.Errorf("there are %d damages", len(list))
	}
	pairs := first.db.Pairs()
	for _, d := range list {
		t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) {
			b := *first
			b.t = t
			before := first.db.Pairs()
			b.do1(func(tx kv.Tx) error { d.do(&b, tx); return nil })
			found := b.findings()
			if len(found) == 0 {
				t.Error("nothing was found")
			}
			name := check.Readable(tuple.Subspace(tuple.Pack("test")), d.at)
			if d.named && !slices.ContainsFunc(found, func(f check.Finding) bool { return f.Key == name }) {
				t.Errorf("%s is not named: %v", name, found)
			}
			for _, f := range found {
				if b.mend(&f) && !f.Mends() {
					t.Errorf("%s, %s: was mended all the same", f.Key, f.What)
				}
			}
			if d.mends {
				same(t, before, b.db.Pairs(), found)
			}
			for _, f := range b.findings() {
				if d.mends || f.Mends() {
					t.Errorf("after the repair, %s: %s", f.Key, f.What)
				}
			}
			b.restore(pairs)
		})
	}
}

// restore makes the rows of the store these.
func (b *bench) restore(pairs []kv.KeyValue) {
	b.do1(func(tx kv.Tx) error {
		tx.ClearRange(kv.PrefixRange(tuple.Pack("test")))
		for _, p := range pairs {
			tx.Set(p.Key, p.Value)
		}
		return nil
	})
}

func (b *bench) mend(f *check.Finding) (mended bool) {
	b.t.Helper()
	mended, err := kv.Run(context.Background(), b.db, func(tx kv.Tx) (bool, error) {
		repairs, err := check.Repairs(tx, testRoot)
		if err != nil {
			return false, err
		}
		return check.Mended(tx, f, repairs)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if mended && f.Repair == "" {
		b.t.Errorf("%s: %s is put right, and nothing says how", f.Key, f.What)
	}
	return mended
}

func same(t *testing.T, want, got []kv.KeyValue, found []check.Finding) {
	t.Helper()
	text := func(list []kv.KeyValue) map[string]string {
		m := map[string]string{}
		for _, p := range list {
			m[fmt.Sprintf("%q", p.Key)] = fmt.Sprintf("%q", p.Value)
		}
		return m
	}
	before, after := text(want), text(got)
	for key, value := range before {
		if after[key] != value {
			t.Errorf("%s was %.60s, and is %.60s", key, value, after[key])
		}
	}
	for key, value := range after {
		if _, was := before[key]; !was && key != fmt.Sprintf("%q", testRoot.Pack("repairs")) {
			t.Errorf("%s is new: %.60s", key, value)
		}
	}
	if t.Failed() {
		for _, f := range found {
			t.Logf("found %s: %s", f.Key, f.What)
		}
	}
}

// TestMendLooksAgain: what has changed since it was found is left alone.
func TestMendLooksAgain(t *testing.T) {
	b := newFullBench(t)
	key := b.row(b.s.Keys.Jobs.Ready, "ready", 4).Key
	b.do1(func(tx kv.Tx) error { tx.Clear(key); return nil })
	found := b.findings()
	if len(found) != 1 {
		t.Fatalf("found %+v", found)
	}
	b.do1(func(tx kv.Tx) error { return b.s.remove(tx, jobID("ready")) })
	before := b.db.Hash()
	if b.mend(&found[0]) || b.db.Hash() != before {
		t.Error("a job that is gone was queued again")
	}
}

// TestMendedLease: a lease without a heartbeat, or with a value that is none, is put right.
func TestMendedLease(t *testing.T) {
	first := newFullBench(t)
	q := first.s.Keys.Jobs
	lease, beat := first.row(q.Worker, "w", 1).Key, first.row(q.Beat, "w", 1).Key
	pairs := first.db.Pairs()
	for name, damage := range map[string]func(tx kv.Tx){
		"without heartbeat": func(tx kv.Tx) { tx.Clear(beat) }, "without value": func(tx kv.Tx) { tx.Set(lease, nil) },
	} {
		b := *first
		b.do1(func(tx kv.Tx) error { damage(tx); return nil })
		for _, f := range b.findings() {
			b.mend(&f)
		}
		if left := b.findings(); len(left) > 0 {
			t.Errorf("%s: left is %q", name, left[0].What)
		}
		b.restore(pairs)
	}
}

// TestCheckInPages: without one moment for all, sums are not judged, and all else is.
func TestCheckInPages(t *testing.T) {
	b := newFullBench(t)
	b.do1(func(tx kv.Tx) error {
		tx.Add(b.s.Keys.Count.Pack("_replicator"), 1)
		tx.Clear(b.row(b.s.Keys.Jobs.Ready, "ready", 4).Key)
		return nil
	})
	root := tuple.Subspace(tuple.Pack("test"))
	c := check.New(check.Options{Root: root, Sections: Sections(root)})
	for done := false; !done; {
		var err error
		if _, done, err = c.Step(b.db.Present()); err != nil {
			t.Fatal(err)
		}
	}
	if c.Findings != 1 || c.Unsure != 1 {
		t.Errorf("the summary is %+v", c.Summary)
	}
}

// TestVersionsOfLayouts: each layout that this release can read, the encrypted one too, is one that a check knows.
func TestVersionsOfLayouts(t *testing.T) {
	for version, finds := range map[int]bool{0: true, 1: false, sealedSchema: false, sealedSchema + 1: true} {
		b := newBench(t)
		b.do1(func(tx kv.Tx) error { tx.Set(b.s.Keys.Schema, []byte{byte(version), 7: 0}); return nil })
		if found := b.check(false, b.db.Present()); (len(found) > 0) != finds {
			t.Errorf("version %d: %v", version, found)
		}
	}
}

// TestCheckOfWholeCounters: counters of an early release, which are not spread over shards, count with those.
func TestCheckOfWholeCounters(t *testing.T) {
	for _, wrong := range []int64{0, 1} {
		b := newFullBench(t)
		b.do1(func(tx kv.Tx) error {
			rows, err := tx.GetRange(b.s.Keys.Jobs.Count.Range(), kv.RangeOptions{})
			for _, row := range rows {
				var standing string
				if err := b.s.Keys.Jobs.Count.Scan(row.Key, &standing, new(int64)); err != nil {
					return err
				}
				tx.Clear(row.Key)
				tx.Add(b.s.Keys.Jobs.Count.Pack(standing), kv.Counter(row.Value))
			}
			tx.Add(b.s.Keys.Jobs.Count.Pack("ready"), wrong)
			return err
		})
		if found := b.check(true, b.db.Present()); int64(len(found)) != wrong {
			t.Errorf("counted too many: %d; found %v", wrong, found)
		}
	}
}

// TestUnreadableRecordKeepsItsRows: of a job whose record cannot be read, no repair removes the rows that stand for the
// job in lists, or tell when it goes: they are right once the record is.
func TestUnreadableRecordKeepsItsRows(t *testing.T) {
	b := newFullBench(t)
	for _, row := range b.db.Pairs() {
		if e, err := b.s.Keys.Jobs.Job.Unpack(row.Key); err != nil || len(e) != 2 || e[1] != int64(0) {
			continue
		}
		b.do1(func(tx kv.Tx) error { tx.Set(row.Key, []byte("{")); return nil })
		for _, f := range b.findings() {
			if strings.HasPrefix(f.Key, "index/") || strings.HasPrefix(f.Key, "expire/") {
				t.Errorf("with a record that cannot be read at %q, of %s is told: %s", row.Key, f.Key, f.What)
			}
		}
		b.do1(func(tx kv.Tx) error { tx.Set(row.Key, row.Value); return nil })
	}
}
