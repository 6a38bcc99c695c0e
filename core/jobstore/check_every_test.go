package jobstore

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// testRoot is where a bench has its rows.
var testRoot = tuple.Subspace(tuple.Pack("test"))

// TestEveryRowIsLookedAt: the check reports any row of the store whose value is not valid, by its key or by that of
// what it is a part of, and after one repair it has nothing more to repair. The test leaves out rows for which every
// such value is valid, or which are never read.
func TestEveryRowIsLookedAt(t *testing.T) {
	b := newFullBench(t)
	parts := []string{"docs/1/", "spec/", "uuid", "jobs/replication/job/"} // of texts, and of what has grown
	free := map[string][]string{
		"nonsense": {"jobs/replication/signal/", "retry/", "index/", "uuid"}, "cut": parts, "half": parts,
	}
	pairs := b.db.Pairs()
	for name, damage := range map[string]func([]byte) []byte{
		"empty":    func([]byte) []byte { return []byte{} },
		"nonsense": func([]byte) []byte { return []byte("nonsense") },
		"cut":      func(value []byte) []byte { return value[:max(0, len(value)-1)] },
		"half":     func(value []byte) []byte { return value[:len(value)/2] },
	} {
		for _, row := range pairs {
			value := damage(row.Value)
			key := check.Readable(testRoot, row.Key)
			mayBe := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
			if bytes.Equal(row.Value, value) || mayBe("jobs/replication/call/") {
				continue
			}
			b.do1(func(tx kv.Tx) error { tx.Set(row.Key, value); return nil })
			found := b.check(true, b.db.Present())
			first := strings.TrimSuffix(key, "/1")                  // part of what the row is a part of
			worker := strings.Replace(key, "/beat/", "/worker/", 1) // whose heartbeat it is
			if !slices.ContainsFunc(found, func(f check.Finding) bool {
				return f.Key == key || strings.HasPrefix(f.Key, first) && first != key || f.Key == worker
			}) && !slices.ContainsFunc(free[name], mayBe) {
				t.Errorf("%s is %s, and was not found: %v", key, name, found)
			}
			repaired := false
			for _, f := range found {
				repaired = b.mend(&f) || repaired
			}
			if !repaired {
				b.do1(func(tx kv.Tx) error { tx.Set(row.Key, row.Value); return nil })
				continue
			}
			for _, f := range b.check(true, b.db.Present()) {
				if f.Mends() {
					t.Errorf("%s was %s, and after a repair another is needed: %s: %s", key, name, f.Key, f.What)
				}
			}
			b.restore(pairs)
		}
	}
}

// TestEveryStrayRowIsFound: the check reports a row that stands beside any row of the store under a key whose last
// element is another. The test leaves out counters that are 0 or of queues, where only sums count, signals, and
// content that may be longer than anything asks for.
func TestEveryStrayRowIsFound(t *testing.T) {
	b := newFullBench(t)
	db := "docs/1/" + strings.TrimSuffix(instancePrefix(tuple.UUID{1}), "|") + "/"
	free := []string{"jobs/replication/count/", "jobs/replication/signal/", db + "3/", db + "9/", db + "10/"}
	there := map[string]bool{}
	for _, row := range b.db.Pairs() {
		there[string(row.Key)] = true
	}
	for _, row := range b.db.Pairs() {
		elements, err := testRoot.Unpack(row.Key)
		if err != nil {
			t.Fatal(err)
		}
		switch last := &elements[len(elements)-1]; e := (*last).(type) {
		case string:
			*last = e + "x"
		case int64:
			*last = e + 1
		case tuple.UUID:
			e[0]++
			*last = e
		default:
			t.Fatalf("%T", e)
		}
		stray := testRoot.Pack(elements...)
		key := check.Readable(testRoot, stray)
		is := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
		if there[string(stray)] || slices.ContainsFunc(free, is) || bytes.Equal(row.Value, make([]byte, 8)) {
			continue
		}
		b.do1(func(tx kv.Tx) error { tx.Set(stray, row.Value); return nil })
		if len(b.check(true, b.db.Present())) == 0 {
			t.Errorf("nothing was found of %s", key)
		}
		b.do1(func(tx kv.Tx) error { tx.Clear(stray); return nil })
	}
}

// TestSealedRowsAreNamed: the check reports each sealed row that cannot be decrypted, under the key of that row, and
// says nothing else of it, nor that the content of which it is a part cannot be read.
func TestSealedRowsAreNamed(t *testing.T) {
	b := newFullBench(t)
	opened := map[string]bool{}
	look := func(closed []byte) (keys []string) {
		c := check.New(check.Options{Root: testRoot, Sections: Sections(testRoot), AtOnce: true})
		c.Open = func(key, value []byte) ([]byte, error) {
			opened[string(key)] = true
			if string(key) == string(closed) {
				return nil, errors.New("another key")
			}
			return value, nil
		}
		for done := false; !done; {
			found, last, err := c.Step(b.db.Present())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				keys = append(keys, f.Key+": "+f.What)
			}
			done = last
		}
		return keys
	}
	if found := look(nil); len(found) > 0 || len(opened) < 20 {
		t.Fatalf("%d rows were opened, and found is %q", len(opened), found)
	}
	for _, row := range b.db.Pairs() {
		if in := b.s.Keys.Docs; !opened[string(row.Key)] || in.Contains(row.Key) && !docs.IsContent(in, row.Key) {
			continue
		}
		key := check.Readable(testRoot, row.Key) + ": "
		found := slices.DeleteFunc(look(row.Key), func(f string) bool {
			return !strings.HasPrefix(f, key) && !strings.Contains(f, ": the content of document")
		})
		if want := []string{key + "the value cannot be read: another key"}; !slices.Equal(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
	}
}

// TestContradictions: a job whose record says something else than what stands beside it is reported, with what does
// not go together.
func TestContradictions(t *testing.T) {
	first := newFullBench(t)
	pairs := first.db.Pairs()
	over := ""
	for _, row := range pairs {
		if id := ""; first.s.Keys.Expire.Scan(row.Key, new(int64), &id) == nil {
			over = id
		}
	}
	const unforgotten = "the job is over, and it is not known when it is forgotten"
	for _, c := range []struct {
		id   string
		do   func(j *jobs.Job, rec *Record)
		want string
	}{
		{jobID("ready"), func(_ *jobs.Job, rec *Record) { rec.State = Completed },
			"the record of the job says completed, and its header pending"},
		{jobID("done"), func(_ *jobs.Job, rec *Record) { rec.State = Pending },
			"the record of the job says pending, and its header finished"},
		{jobID("ready"), func(_ *jobs.Job, rec *Record) { rec.DocID = "other" },
			`the record is of document "other" of "_replicator", and the job is not`},
		{jobID("ready"), func(_ *jobs.Job, rec *Record) { rec.Database, rec.DocID, rec.Instance = "", "", "" },
			`the record is of document "" of "", and the job is not`},
		{over, func(_ *jobs.Job, rec *Record) { rec.Expires = 0 }, unforgotten},
		{jobID("done"), func(_ *jobs.Job, rec *Record) { rec.Expires = 9 }, unforgotten},
		{jobID("ready"), func(j *jobs.Job, _ *Record) { j.Priority = []byte("x") },
			"the place of the job in the queue cannot be read"},
	} {
		b := *first
		b.t = t
		b.do1(func(tx kv.Tx) error {
			j, rec, err := readJob(b.s, tx, c.id)
			if err != nil {
				return err
			}
			state := j.State
			c.do(j, rec)
			if state == jobs.Finished {
				tx.Set(b.s.Keys.Jobs.Job.Pack(c.id, 0), rec.encode())
				return nil
			}
			return b.s.Jobs.Add(tx, c.id, j.Schedule, rec.encode())
		})
		found := b.findings()
		if !slices.ContainsFunc(found, func(f check.Finding) bool { return f.What == c.want }) {
			t.Errorf("found %v, want %q", found, c.want)
		}
		b.restore(pairs)
	}
}

// TestEveryKeyIsLookedAt: the check reports a row whose key has an element too many, or some too few, or is cut, or is
// no tuple. The test leaves out keys that rows may have: of a counter that is not spread, and of parts of long values.
func TestEveryKeyIsLookedAt(t *testing.T) {
	b := newFullBench(t)
	db := "docs/1/01000000000000000000000000000000/"
	free := []string{db + "3/9", db + `9/"_local/l"/9`}
	for _, standing := range []string{"ready", "waiting", "running", "finished", "parked"} {
		free = append(free, "jobs/replication/count/"+standing)
	}
	tried := map[string]bool{}
	for _, row := range b.db.Pairs() {
		elements, err := testRoot.Unpack(row.Key)
		if err != nil {
			t.Fatal(err)
		}
		keys := [][]byte{
			append(slices.Clone(row.Key), tuple.Pack(int64(9))...),
			append(slices.Clone(row.Key), 0xfe),
			row.Key[:len(row.Key)-1],
		}
		for n := range len(elements) {
			keys = append(keys, testRoot.Pack(elements[:n]...))
		}
		for _, key := range keys {
			if tried[string(key)] {
				continue
			}
			tried[string(key)] = true
			if slices.ContainsFunc(b.db.Pairs(), func(o kv.KeyValue) bool { return bytes.Equal(o.Key, key) }) {
				continue
			}
			b.do1(func(tx kv.Tx) error { tx.Set(key, row.Value); return nil })
			found, readable := b.check(true, b.db.Present()), check.Readable(testRoot, key)
			named := func(f check.Finding) bool { return f.Key == readable }
			if !slices.ContainsFunc(found, named) && !slices.Contains(free, readable) {
				t.Errorf("%s was not found: %v", readable, found)
			}
			b.do1(func(tx kv.Tx) error { tx.Clear(key); return nil })
		}
	}
}

// TestCheckOfRefusalsWithoutList: a check finds rows of refused documents of a job whose record counts none.
func TestCheckOfRefusalsWithoutList(t *testing.T) {
	b := newBench(t)
	b.put("r", refusing, admin)
	w := b.accept()
	row := Refusal{Error: "forbidden", Attempts: 1}
	b.do1(func(tx kv.Tx) error {
		tx.Set(b.s.Keys.Refused.Pack(w.JobID, "a", "1-a"), row.encode())
		return nil
	})
	found := b.findings()
	if len(found) != 1 || found[0].What != "the job lists 0 refused documents, of which there are 1" {
		t.Errorf("found %v", found)
	}
}
