package replication

import (
	"fmt"
	"slices"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// TestReserved: a bulk read reserves twice what its documents should have, and room for the largest one, so that many
// are in flight; one with attachments, whose sizes are known, what they have and room for one more.
func TestReserved(t *testing.T) {
	w := attached(t, 100, 2000)
	w.fill(400)
	w.plan.Memory, w.docSize = 1<<20, 1000
	plain, inline := 0, 0
	w.reply = func(c Call) *peer.Reply {
		op, is := c.Op.(peer.FetchDocs)
		if !is {
			return nil
		}
		n := len(op.Docs)
		switch {
		case op.Attachments:
			if inline++; op.Budget != 2000*n+1<<16 {
				t.Errorf("%d reserved for %d documents with attachments", op.Budget, n)
			}
		default:
			plain++
			if known := plain > 2*w.plan.Workers; known && (op.Budget < 2000*n+1000 || op.Budget > 2050*n+1000) {
				t.Errorf("%d reserved for %d documents", op.Budget, n)
			}
		}
		return nil
	}
	w.begin()
	if w.wantEnd(Completed, ""); plain < 8 || inline < 2 {
		t.Errorf("%d reads, %d with attachments", plain, inline)
	}
}

// TestFirstRead: before a size is known, documents are taken for such of a kilobyte.
func TestFirstRead(t *testing.T) {
	r := New(Plan{Options: Options{Workers: 1, BatchSize: 20, Connections: 6, Memory: 4 * 8 << 10}})
	op := r.work.nextFetch(&batch{fetch: make([]peer.DocRev, 20)})
	if len(op.Docs) != 8 || op.Budget != 8<<10 {
		t.Errorf("%d documents for %d bytes", len(op.Docs), op.Budget)
	}
}

// TestAverageOfBulk: reads in bulk that bring nothing count as in CouchDB's replicator, each for a quarter.
func TestAverageOfBulk(t *testing.T) {
	p := &New(Plan{}).work
	for _, want := range []int64{250_000, 437_500, 578_125} {
		p.useless(false, 1, 1)
		p.useless(true, 1, 1)
		if p.skipBulk.value != want || p.skipInline.value != want {
			t.Errorf("%d and %d millionths, want %d", p.skipBulk.value, p.skipInline.value, want)
		}
	}
}

// TestRoomForTheLargest: a bulk read has room for the largest document so far, however small the ones after it were.
func TestRoomForTheLargest(t *testing.T) {
	r := New(Plan{Options: Options{Workers: 1, BatchSize: 4, Connections: 6}})
	p := &r.work
	const large = 100_000
	for _, size := range []int{large, 10} {
		g := &group{docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}, came: make([]string, 1)}
		p.sortFetched(&batch{}, g, []peer.FetchedDoc{{Fate: peer.Taken, Size: size}})
	}
	b := &batch{fetch: []peer.DocRev{{ID: "b", Rev: "1-b"}}}
	if op := p.nextFetch(b); op.Budget < large {
		t.Errorf("%d reserved", op.Budget)
	}
}

// TestSizesApart: the sizes of documents with attachments do not count for reads of others.
func TestSizesApart(t *testing.T) {
	w := attached(t, 100, 4000)
	w.fill(300)
	w.begin()
	w.wantEnd(Completed, "")
	if p := w.run.work; len(w.fetches()) == 0 || p.docSize > 200 || p.maxDoc != 100 {
		t.Errorf("documents of 100 bytes count as %d, and the largest one as %d", p.docSize, p.maxDoc)
	}
}

// TestSizeOfThoseThatCame: documents that do not come with a read make the others no smaller.
func TestSizeOfThoseThatCame(t *testing.T) {
	w := newWorld(t)
	w.docSize = 4000
	w.fill(80)
	for i := range 40 {
		w.attachments[fmt.Sprint("doc", 2*i)] = true
	}
	w.begin()
	w.wantEnd(Completed, "")
	if p := w.run.work; w.count("fetch") < 10 || p.docSize < 3500 || p.docSize > 4000 {
		t.Errorf("documents of 4000 bytes count as %d after %d reads", p.docSize, w.count("fetch"))
	}
}

// TestMergedBatches: when batches are done behind one that is not, their rows become those of the last.
func TestMergedBatches(t *testing.T) {
	r := New(Plan{Options: Options{Workers: 3, BatchSize: 4, Connections: 6}})
	p := &r.work
	for i, id := range []string{"a", "b", ""} {
		rows := []peer.Change{{ID: id, Seq: seqOf(int64(i)), Revs: []string{"1-" + id}}}
		if id == "" {
			rows = nil // as behind what a filter has left out
		}
		p.queueBatch(rows, seqOf(int64(i)))
		p.batches[i].stage = done
	}
	p.batches[0].stage = moving
	p.passThrough()
	if len(p.batches) != 2 {
		t.Fatalf("%d batches", len(p.batches))
	}
	if b := p.batches[1]; b.first != 2 || b.number != 3 || b.rows != 1 || b.row.ID != "b" || b.last != seqOf(2) {
		t.Errorf("merged into %+v", b)
	}
}

// TestNothingKept: an answer that brings nothing to write is released like any other.
func TestNothingKept(t *testing.T) {
	w := newWorld(t)
	w.fill(20)
	for i := range 20 {
		w.attachments[fmt.Sprint("doc", i)] = true
	}
	w.begin()
	if w.wantEnd(Completed, ""); len(w.kept) > 0 {
		t.Errorf("%d answers are kept", len(w.kept))
	}
}

// TestBulkReadsOfNothing: a source whose bulk reads bring nothing is soon read one by one.
func TestBulkReadsOfNothing(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	w.reply = func(c Call) *peer.Reply {
		if _, is := c.Op.(peer.FetchDocs); is {
			return &peer.Reply{Result: peer.Fetched{}}
		}
		return nil
	}
	w.begin()
	if w.wantEnd(Completed, ""); w.count("fetch") > 8 {
		t.Errorf("%d bulk reads that brought nothing", w.count("fetch"))
	}
}

// TestInlineRefused: that a target does not want documents tells nothing of whether it takes attachments in bulk.
func TestInlineRefused(t *testing.T) {
	w := attached(t, 400, 500)
	for id := range w.inline {
		w.refuses[id] = true
	}
	w.plan.BatchSize = 20
	w.begin()
	w.wantEnd(Completed, "")
	if n := len(w.fetches()); n != 20 || w.count("copy") > 0 || w.run.info.DocWriteFailures != 400 {
		t.Errorf("%d reads with attachments, %d copies, %d refused", n, w.count("copy"), w.run.info.DocWriteFailures)
	}
}

// TestInlineFailsEach: a target that fails on each document with attachments, but on no write as a whole, gets no more
// of them in bulk.
func TestInlineFailsEach(t *testing.T) {
	w := attached(t, 400, 500)
	w.plan.BatchSize = 20
	w.reply = func(c Call) *peer.Reply {
		op, is := c.Op.(peer.WriteDocs)
		if !is {
			return nil
		}
		var got peer.Written
		for _, k := range op.Docs {
			d := w.kept[k.Fetch][k.Index]
			got.Refused = append(got.Refused, peer.Refusal{ID: d.ID, Rev: d.Rev, Error: "internal_server_error"})
		}
		return &peer.Reply{Result: got}
	}
	w.begin()
	w.wantEnd(Completed, "")
	if n := len(w.fetches()); n > 5 || w.count("copy") != 400 || w.run.info.DocsWritten != 400 {
		t.Errorf("%d reads with attachments, %d copies, %d written", n, w.count("copy"), w.run.info.DocsWritten)
	}
}

// TestTooLargeIsNoRefusal: a write that the target does not take as it is either, since it is too large, tells nothing
// of compression.
func TestTooLargeIsNoRefusal(t *testing.T) {
	w := newWorld(t)
	w.docSize, w.maxWrite = 1000, 2
	w.plan.Compression = spec.CompressOn
	w.answer = func(c Call) *peer.Failure {
		if op, is := c.Op.(peer.WriteDocs); is && op.Gzip {
			return &peer.Failure{Kind: peer.Status, Status: 415}
		}
		return nil
	}
	w.fill(4)
	w.begin()
	w.wantEnd(Completed, "")
	if n := w.run.work.packing.refusals; n > 0 || w.count("write") != 4 {
		t.Errorf("%d refusals: %v", n, w.calls)
	}
}

// TestManyVerdicts: an answer about each document of a large write takes no time that others would notice.
func TestManyVerdicts(t *testing.T) {
	const many = 200_000
	r := New(Plan{Options: Options{Workers: 1, BatchSize: many, Connections: 6}})
	r.refused.begin()
	g, b := &group{}, &batch{}
	var op peer.WriteDocs
	var verdicts []peer.Refusal
	for i := range many {
		id := fmt.Sprint("doc", i)
		g.docs, g.came = append(g.docs, peer.DocRev{ID: id, Rev: "1-a"}), append(g.came, "1-a")
		op.Docs = append(op.Docs, peer.Kept{Index: i})
		if word := []string{"forbidden", "conflict", "error", ""}[i%4]; word == "error" {
			verdicts = append(verdicts, peer.Refusal{ID: id, Rev: "1-b", Error: word})
		} else if word != "" {
			verdicts = append(verdicts, peer.Refusal{ID: id, Rev: "1-a", Error: word})
		}
	}
	r.work.judge(b, g, op, verdicts)
	if i := r.info; i.Refused != many/4 || i.Written != many/4 || len(b.copies) != many/2 || b.copies[1].ID != "doc2" {
		t.Errorf("%d refused, %d written, %d copied alone", i.Refused, i.Written, len(b.copies))
	}
}

// TestManyVerdictsOfOne: so it is if all of a write is one revision, which a source sends in the place of those that it
// replaces, and if the answer names nothing.
func TestManyVerdictsOfOne(t *testing.T) {
	const many = 200_000
	for _, v := range []peer.Refusal{
		{ID: "doc", Rev: "2-b", Error: "conflict"}, {ID: "doc", Rev: "3-c", Error: "conflict"},
		{Error: "forbidden"},
	} {
		r := New(Plan{Options: Options{Workers: 1, BatchSize: many, Connections: 6}})
		r.refused.begin()
		g, b := &group{}, &batch{}
		var op peer.WriteDocs
		for i := range many {
			g.docs = append(g.docs, peer.DocRev{ID: "doc", Rev: fmt.Sprint("1-", i)})
			g.came, op.Docs = append(g.came, "2-b"), append(op.Docs, peer.Kept{Index: i})
		}
		r.work.judge(b, g, op, slices.Repeat([]peer.Refusal{v}, many-1))
		want := many
		if v.Rev == "2-b" {
			want--
		}
		if len(b.copies) != 1 || len(b.copies[0].Revs) != want || r.info.Written != int64(many-want) {
			t.Errorf("after %+v: %d copies, %d documents are written", v, len(b.copies), r.info.Written)
		}
	}
}
