package jobstore

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// acceptAll accepts until nothing is ready, and says how many jobs came each time.
func (b *bench) acceptAll() (counts []int) {
	b.t.Helper()
	for {
		b.batch++
		work := get(b, func(tx kv.Tx) ([]Work, error) {
			taken, err := b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: b.batch, Max: 50, Seed: 7}, b.now)
			work := taken.Work
			return work, err
		})
		if len(work) == 0 {
			return counts
		}
		counts = append(counts, len(work))
	}
}

// TestAcceptOfLongHistories: jobs that crashed for years are accepted under the longest max_history.
func TestAcceptOfLongHistories(t *testing.T) {
	b := newBench(t)
	b.s.Config.MaxHistory = 1000
	crashed := Event{Type: "crashed", At: b.now, Reason: strings.Repeat("r", 600)}
	var long Record
	for range 500 {
		long.note(b.s.Config.MaxHistory, Event{Type: "started", At: b.now}, crashed)
	}
	for i := range 50 {
		b.put(fmt.Sprint("doc", i), fmt.Sprintf(`{"source":"http://s/x%d","target":"http://t/x%d"}`, i, i), admin)
	}
	for i := range 50 { // after all documents are there, as the whole store is checked with each
		id := jobID(fmt.Sprint("doc", i))
		b.do1(func(tx kv.Tx) error {
			j, err := b.s.Jobs.Get(tx, id)
			if err != nil {
				return err
			}
			rec, err := decodeRecord(j)
			if err != nil {
				return err
			}
			rec.History = long.History
			return b.s.Jobs.Add(tx, id, j.Schedule, rec.encode())
		})
	}
	if counts := b.acceptAll(); len(counts) > 10 || counts[0] > 20 {
		t.Errorf("accepts brought %v jobs", counts)
	}
	rec := b.record(jobID("doc7"))
	if rec.State != Running || rec.History[0].Type != "started" || rec.History[1].Reason != crashed.Reason ||
		len(rec.History) < 500 {
		t.Errorf("%s, %d events, the newest %+v", rec.State, len(rec.History), rec.History[0])
	}
}

// TestAcceptOfLongNames: an accept takes no more jobs than it may write, whose long ids are in many keys.
func TestAcceptOfLongNames(t *testing.T) {
	b := newBench(t)
	for i := range 30 {
		id := fmt.Sprint(i, strings.Repeat("x", 3000))
		b.put(id, fmt.Sprintf(`{"source":"http://s/x%d","target":"http://t/x%d"}`, i, i), admin)
	}
	if counts := b.acceptAll(); counts[0] > 15 || len(counts) > 5 {
		t.Errorf("accepts brought %v jobs", counts)
	}
}

// TestAcceptOfLongReplications: an accept reads no more replications than it has time for.
func TestAcceptOfLongReplications(t *testing.T) {
	b := newBench(t)
	ids := ""
	for i := range 1000 { // a megabyte
		ids += fmt.Sprintf(`,"%d%s"`, i, strings.Repeat("x", 1000))
	}
	for i := range 6 {
		b.put(fmt.Sprint("doc", i),
			fmt.Sprintf(`{"source":"http://s/x%d","target":"http://t/x%d","doc_ids":[%s]}`, i, i, ids[1:]), admin)
	}
	if counts := fmt.Sprint(b.acceptAll()); counts != "[3 3]" {
		t.Errorf("accepts brought %s jobs", counts)
	}
}

// TestAcceptRepeated: an accept that had committed returns all that it took, whatever it is by now.
func TestAcceptRepeated(t *testing.T) {
	b := newBench(t)
	for i := range 5 {
		b.put(fmt.Sprint("doc", i), fmt.Sprintf(`{"source":"http://s/x%d","target":"http://t/x%d"}`, i, i), admin)
	}
	accept := func(tx kv.Tx) ([]Work, error) {
		taken, err := b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: 1, Max: 5}, b.now)
		work := taken.Work
		return work, err
	}
	for _, w := range get(b, accept) {
		b.do1(func(tx kv.Tx) error {
			j, err := b.s.Jobs.Get(tx, w.JobID)
			if err != nil {
				return err
			}
			return b.s.Jobs.Update(tx, w.JobID, w.Lock, append(j.Data, strings.Repeat(" ", acceptBytes/2)...))
		})
	}
	if again := get(b, accept); len(again) != 5 {
		t.Errorf("the repeated accept returned %d of 5 jobs", len(again))
	}
}

// TestBulkOfSmallDocuments: however many documents are written at once, whatever their ids, each transaction fits, in
// bytes and in time.
func TestBulkOfSmallDocuments(t *testing.T) {
	for name, c := range map[string]struct {
		id, url string
		n       int
	}{
		"small":     {"%d", "http://h/", 2500},
		"long ids":  {"%d" + strings.Repeat("x", 1000), "http://h/", 500},
		"zeros":     {"%d" + strings.Repeat("\x00", 4000), "http://h/", 100},
		"long URLs": {"%d", "http://h/" + strings.Repeat("&", 60_000), 40},
	} {
		b := newBench(t)
		bulk := func(rest string, old []docs.Written) (all []docs.Written) {
			var edits []docs.Edit
			for i := range c.n {
				d, err := docs.ParseDocument(fmt.Appendf(nil,
					`{"source":"http://s/%d","target":"http://t","proxy":"%s"%s}`, i, c.url, rest))
				if err != nil {
					t.Fatal(err)
				}
				if d.ID = fmt.Sprintf(c.id, i); old != nil {
					d.Rev = old[i].Rev
				}
				token++
				edits = append(edits, docs.Edit{Document: *d, Token: token})
			}
			for len(edits) > 0 {
				written, reads := b.writeSome(edits)
				if reads > 4010 {
					t.Errorf("%s: a transaction of %d edits reads %d times", name, len(written), reads)
				}
				all, edits = append(all, written...), edits[len(written):]
			}
			return all
		}
		bulk(`,"continuous":true`, bulk("", nil))
		b.do1(func(tx kv.Tx) error { return b.s.Audit(tx) })
		counts := get(b, func(tx kv.Tx) (jobs.Counts, error) { return b.s.Jobs.Counts(tx) })
		if counts.Ready != int64(c.n) {
			t.Errorf("%s: %d of %d jobs", name, counts.Ready, c.n)
		}
	}
}

// writeSome writes as many edits as one transaction should, and says how often it read.
func (b *bench) writeSome(edits []docs.Edit) ([]docs.Written, uint64) {
	b.t.Helper()
	before := b.db.Stats().Reads
	written := get(b, func(tx kv.Tx) ([]docs.Written, error) {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return nil, err
		}
		return b.s.WriteDocs(tx, db, edits, admin, b.now)
	})
	for _, w := range written {
		if w.Err != nil {
			b.t.Fatal(w.Err)
		}
	}
	return written, b.db.Stats().Reads - before
}

// TestRecordsAreBounded: nothing that servers say or documents hold makes a record large.
func TestRecordsAreBounded(t *testing.T) {
	b := newBench(t)
	b.s.Config.MaxHistory = 1000
	b.put("r", simple, admin)
	long := strings.Repeat("ü", 2_000_000)
	for range 30 {
		w := b.accept()
		b.do1(func(tx kv.Tx) error {
			seq := SeqText(long)
			stats := Stats{CheckpointedSourceSeq: seq, SourceSeq: seq, ThroughSeq: seq}
			return b.s.Owned(tx, w.JobID, w.Lock, b.now).Crash(replication.Trouble{Error: "boom", Reason: long},
				&stats, Turn{}, 1)
		})
		b.now = b.now.Add(1 << 50)
		b.do1(func(tx kv.Tx) error { _, _, err := b.s.Jobs.Promote(tx, b.now, 1); return err })
	}
	b.put("done", fmt.Sprintf(`{"source":"http://h/a","target":"http://h/b","_replication_state":"failed",`+
		`"_replication_state_reason":%q,"_replication_stats":{"source_seq":%q}}`,
		long[:2_000_000], long[:2_000_000]), admin)
	for _, id := range []string{"r", "done"} {
		rec := b.record(jobID(id))
		if size := len(rec.encode()); size > 1_000_000 || !strings.HasPrefix(rec.Reason, "üüü") ||
			!strings.HasSuffix(rec.Reason, "ü...") {
			t.Errorf("record of %s has %d bytes, reason %.20s", id, size, rec.Reason)
		}
	}
	if rec := b.record(jobID("r")); len(rec.History) < 3 || rec.History[0].Type != "crashed" {
		t.Errorf("%d events, the newest %+v", len(rec.History), rec.History[0].Type)
	}
}

// TestMirroredReasonIsBounded: nor does what is wrong with a followed document make its copy large.
func TestMirroredReasonIsBounded(t *testing.T) {
	b := newBench(t)
	b.do1(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		_, err = Mirror(b.s, tx, db, []Mirrored{{ID: "d", Refusal: strings.Repeat("x", 2*maxReason)}}, b.now)
		return err
	})
	b.wantState(jobID("d"), Failed)
	if n := len(b.doc("d")); n < maxReason || n > maxReason+1000 {
		t.Errorf("the copy has %d bytes", n)
	}
}

// TestMirrorInParts: more documents of a followed database than one transaction should write are written by several.
func TestMirrorInParts(t *testing.T) {
	b := newBench(t)
	list := make([]Mirrored, 2*editsAtOnce)
	for i := range list {
		list[i] = Mirrored{ID: fmt.Sprintf("d%03d", i), Deleted: true}
	}
	var n int
	b.do1(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err == nil {
			n, err = Mirror(b.s, tx, db, list, b.now)
		}
		return err
	})
	if n == 0 || n > editsAtOnce {
		t.Errorf("%d documents are written at once", n)
	}
}
