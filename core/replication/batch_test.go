package replication

import (
	"strings"
	"testing"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// TestAncestorsAreAskedFor: a target that lacks all revisions, but has others of the documents, is asked about each
// batch: attachments that it has are not sent to it again.
func TestAncestorsAreAskedFor(t *testing.T) {
	for _, has := range []bool{false, true} {
		w := newWorld(t)
		for i := range 200 {
			id := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
			w.dbs[peer.Source].write(id, "2-b", "1-a")
			if has {
				w.dbs[peer.Target].write(id, "1-a")
			}
		}
		w.begin()
		w.wantEnd(Completed, "")
		if batches := 200 / w.plan.BatchSize; has != (w.count("diff") == batches) {
			t.Errorf("has ancestors %t: %d of %d batches were asked about", has, w.count("diff"), batches)
		}
	}
}

// TestCopiesLeaveConnections: documents that are copied one by one leave a connection to each worker and to the feed.
func TestCopiesLeaveConnections(t *testing.T) {
	for connections, want := range map[int]int{2: 1, 6: 2, 7: 3} {
		w := newWorld(t)
		w.plan.UseBulkGet, w.plan.Connections = false, connections
		w.fill(100)
		w.begin()
		most := 0
		for w.end == nil {
			copies := 0
			for _, c := range w.flying {
				if isCopy(c.Op) {
					copies++
				}
			}
			most = max(most, copies)
			w.proceed(first)
		}
		if most != want {
			t.Errorf("of %d connections %d copy, want %d", connections, most, want)
		}
	}
}

// TestSourceSeqIsTheFurthest: how far the run has read does not go back when an earlier batch is done later.
func TestSourceSeqIsTheFurthest(t *testing.T) {
	r := New(Plan{Options: Options{Workers: 3, BatchSize: 4, Connections: 6}})
	for _, last := range []peer.Seq{"1", "2"} {
		r.work.queueBatch(nil, last)
	}
	for _, b := range []*batch{r.work.batches[1], r.work.batches[0]} {
		b.stage = moving
		r.work.pump(b)
		if r.info.SourceSeq != "2" {
			t.Errorf("after batch %d the run has read up to %s", b.number, r.info.SourceSeq)
		}
	}
}

// TestBehindAFilter: a run whose source filters out all changes tells the end of the feed as read.
func TestBehindAFilter(t *testing.T) {
	w := newWorld(t)
	w.rows = func(peer.ReadChanges) peer.Changes { return peer.Changes{LastSeq: `"9-x"`, End: true} }
	w.begin()
	i := w.wantEnd(Completed, "").Info
	if [3]peer.Seq{i.SourceSeq, i.ThroughSeq, i.CheckpointedSeq} != [3]peer.Seq{`"9-x"`, `"9-x"`, `"9-x"`} {
		t.Errorf("read up to %s, through %s, with a checkpoint at %s", i.SourceSeq, i.ThroughSeq, i.CheckpointedSeq)
	}
}

// TestAncestorsAreBounded: of what a target says to have of documents with long histories, no more is held than rows
// may take, however many batches are under way.
func TestAncestorsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.fill(12) // three batches
	w.plan.MaxWorkers = 3
	long := strings.Repeat("x", 2<<20)
	held, all := map[string]int{}, 0
	down := peer.Failure{Side: peer.Source, Kind: peer.TimedOut}
	w.reply = func(c Call) *peer.Reply {
		switch op := c.Op.(type) {
		case peer.DiffRevs:
			var diff peer.Diff
			for _, d := range op.Docs {
				m := peer.DocMissing{ID: d.ID, Missing: d.Revs, Ancestors: []string{long}}
				diff.Docs = append(diff.Docs, m)
			}
			return &peer.Reply{Result: diff}
		case peer.FetchDocs:
			for _, d := range op.Docs {
				held[d.ID] = revBytes(d.Since)
			}
			return &peer.Reply{Failure: &down}
		}
		return nil
	}
	w.begin()
	w.runToEnd(first)
	for _, n := range held {
		all += n
	}
	if len(held) != 12 || all > DefaultMemory || all < DefaultMemory/2 {
		t.Errorf("of %d documents %d bytes of ancestors are held", len(held), all)
	}
}

// TestLastChange: a batch is known by its last row with a revision, and by the sequence of that one. Behind it may be
// rows of which a source tells no revision.
func TestLastChange(t *testing.T) {
	var p pipeline
	p.queueBatch([]peer.Change{{Seq: "1", ID: "a", Revs: []string{"2-a", "1-b"}}, {Seq: "2", ID: "b"}}, "2")
	want := checkpoint.Change{Mark: peer.Mark{ID: "a", Rev: "2-a", Others: "1-b"}, Seq: "1"}
	if b := p.batches[0]; b.row != want || b.last != "2" {
		t.Errorf("the last change is %+v, up to %s", b.row, b.last)
	}
}
