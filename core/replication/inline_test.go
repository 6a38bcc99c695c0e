package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
)

// attached returns a world whose source has n documents of a size with their attachments, and a run that reads
// up to 16,000 bytes at once.
func attached(t *testing.T, n, size int) *world {
	w := newWorld(t)
	w.plan.Memory, w.plan.Workers, w.plan.BatchSize = 64_000, 2, 50
	w.fill(n)
	for i := range n {
		w.inline[fmt.Sprint("doc", i)] = size
	}
	return w
}

// count returns how many calls begin with a text.
func (w *world) count(prefix string) (n int) {
	for _, call := range w.calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

// fetches tells of each bulk read with attachments how many documents it asks for.
func (w *world) fetches() (n []int) {
	for _, call := range w.calls {
		var docs int
		if _, err := fmt.Sscanf(call, "fetch %d docs with attachments", &docs); err == nil {
			n = append(n, docs)
		}
	}
	return n
}

func TestInline(t *testing.T) {
	w := attached(t, 100, 1000)
	w.fill(120) // twenty more, without attachments
	w.begin()
	most := 0
	for w.end == nil {
		w.proceed(first)
		most = max(most, w.run.work.memory)
	}
	end := w.wantEnd(Completed, "")
	if got := w.fetches(); slices.Max(got) != 16 || len(got) != 8 || w.count("copy") > 0 {
		t.Errorf("%v documents at once, and %d copies; want 16 of 1,000 bytes in 16,000", got, w.count("copy"))
	}
	info := end.Info
	if info.DocsRead != 120 || info.DocsWritten != 120 || info.BulkGetDocs != 120 || info.BulkGetAttempts != 220 ||
		info.BytesWritten != 102_000 {
		t.Errorf("%+v", info)
	}
	if most > w.plan.Memory || most < 32_000 {
		t.Errorf("held %d bytes", most)
	}
}

// TestInlineSize: documents of unknown size and large ones are copied alone.
func TestInlineSize(t *testing.T) {
	for _, c := range []struct {
		size, memory int
		inline       bool
	}{
		{1000, 16_000, true}, {1001, 16_000, false}, {1000, 15_999, false},
		{256 << 10, 16 << 20, true}, {256 << 10, 1 << 30, true}, {256<<10 + 1, 1 << 30, false},
	} {
		w := attached(t, 1, c.size)
		w.plan.Memory = c.memory
		w.begin()
		w.wantEnd(Completed, "")
		if inline := w.count("copy") == 0; inline != c.inline || len(w.fetches()) > 0 != c.inline {
			t.Errorf("%d bytes in %d: %v", c.size, c.memory, w.calls)
		}
	}
	w := attached(t, 1, 0)
	w.attachments["doc0"] = true
	w.begin()
	if w.wantEnd(Completed, ""); w.count("copy") != 1 || len(w.fetches()) > 0 {
		t.Errorf("unknown size: %v", w.calls)
	}
}

// TestInlineWithin: of the documents to be read with their attachments one goes at least, however small the budget has
// become since they were queued.
func TestInlineWithin(t *testing.T) {
	b := &batch{inline: []inlined{{size: 10}, {size: 20}, {size: 30}}}
	for budget, want := range map[int]int{5: 1, 29: 1, 30: 2, 60: 3} {
		if docs, _ := b.inlineWithin(budget); len(docs) != want {
			t.Errorf("%d documents within %d bytes, want %d", len(docs), budget, want)
		}
	}
}

// TestInlineSince: the source is told which attachments the target has, in bulk and when that fails.
func TestInlineSince(t *testing.T) {
	w := attached(t, 0, 0)
	w.inline["a"] = 500
	w.dbs[peer.Source].write("a", "2-b", "1-a")
	w.dbs[peer.Target].write("a", "1-a")
	var since [][]string
	w.reply = func(c Call) *peer.Reply {
		switch op := c.Op.(type) {
		case peer.FetchDocs:
			since = append(since, op.Docs[0].Since)
		case peer.WriteDocs:
			return &peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: 412, Error: "missing_stub"}}
		case peer.CopyDoc:
			since = append(since, op.Since)
		}
		return nil
	}
	w.begin()
	w.wantEnd(Completed, "")
	if fmt.Sprint(since) != "[[1-a] [1-a] [1-a]]" || !w.dbs[peer.Target].has("a", "2-b") {
		t.Errorf("asked for attachments since %v: %v", since, w.calls)
	}
}

// failing has one kind of request fail.
func failing[O peer.Op](f peer.Failure, fails func(O) bool) func(Call) *peer.Failure {
	return func(c Call) *peer.Failure {
		if op, is := c.Op.(O); is && fails(op) {
			return &f
		}
		return nil
	}
}

// TestInlineDropped: servers that cannot read or write attachments in bulk are not asked to for long, and the
// documents arrive. What has no attachments is read in bulk all the while. After 37 seconds they are tried
// again.
func TestInlineDropped(t *testing.T) {
	reads := func(op peer.FetchDocs) bool { return op.Attachments }
	var w *world
	writes := func(op peer.WriteDocs) bool {
		doc := op.Docs[0]
		return w.inline[w.kept[doc.Fetch][doc.Index].ID] > 0
	}
	stubs := func(c Call) *peer.Reply {
		op, is := c.Op.(peer.FetchDocs)
		if !is || !op.Attachments {
			return nil
		}
		fates := make([]peer.FetchedDoc, len(op.Docs))
		for i := range fates {
			fates[i] = peer.FetchedDoc{Fate: peer.Attachments, Size: 500}
		}
		return &peer.Reply{Result: peer.Fetched{Docs: fates}}
	}
	for name, c := range map[string]struct {
		fails   func(Call) *peer.Failure
		replies func(Call) *peer.Reply
	}{
		"reads fail":          {fails: failing(status(404), reads)},
		"reads time out":      {fails: failing(peer.Failure{Kind: peer.Malformed}, reads)},
		"reads bring stubs":   {replies: stubs},
		"stubs are missing":   {fails: failing(status(412), writes)},
		"a name is not right": {fails: failing(status(400), writes)},
		"encoded":             {fails: failing(status(415), writes)},
		"too large":           {fails: failing(status(413), writes)},
		"writes fail":         {fails: failing(status(500), writes)},
		"writes are cut":      {fails: failing(peer.Failure{Kind: peer.Broken}, writes)},
	} {
		t.Run(name, func(t *testing.T) {
			w = attached(t, 400, 500)
			for i := range 200 {
				delete(w.inline, fmt.Sprint("doc", 2*i))
			}
			w.plan.BatchSize, w.plan.Retries, w.plan.Continuous = 20, 0, true
			w.answer, w.reply = c.fails, c.replies
			w.begin()
			for w.run.info.DocsWritten < 400 {
				w.proceed(first)
			}
			n := len(w.fetches())
			if plain := w.count("fetch") - n; n == 0 || n > 5 || plain < 20 {
				t.Errorf("%d reads with attachments, and %d without", n, plain)
			}
			if info := w.run.info; info.DocWriteFailures > 0 || w.count("copy") != 200 {
				t.Errorf("%d failures, %d copies", info.DocWriteFailures, w.count("copy"))
			}
			before := len(w.fetches())
			w.now = w.now.Add(forceAfter + time.Second)
			w.answer, w.reply = nil, nil
			w.inline["later"] = 500
			w.dbs[peer.Source].write("later", "1-a")
			for w.run.info.DocsWritten < 401 {
				w.proceed(first)
			}
			if len(w.fetches()) != before+1 {
				t.Errorf("not tried again: %v", w.calls[len(w.calls)-10:])
			}
		})
	}
}

// TestInlineWriteFails: only what may be about attachments has the documents copied alone.
func TestInlineWriteFails(t *testing.T) {
	w := attached(t, 1, 500)
	w.failOn("write", 0, status(418))
	w.begin()
	w.wantEnd(Crashed, "bulk_docs_failed")

	w = attached(t, 1, 500)
	w.failOn("write", 0, peer.Failure{Kind: peer.Insecure})
	w.begin()
	w.wantEnd(Crashed, "tls_failed")

	w = newWorld(t)
	w.fill(1)
	w.failOn("write", 0, status(412))
	w.begin()
	w.wantEnd(Crashed, "bulk_docs_failed") // there are no attachments
}

// TestInlineHalved: a write with attachments that is too large is halved, as others are.
func TestInlineHalved(t *testing.T) {
	w := attached(t, 16, 1000)
	w.maxWrite = 4
	w.begin()
	w.wantEnd(Completed, "")
	if w.count("write") != 7 || w.count("copy") > 0 {
		t.Errorf("%v", w.calls)
	}
}

// TestInlineLeft: documents that an answer leaves out are asked for again, fewer at once; if it leaves out
// all, they are copied alone.
func TestInlineLeft(t *testing.T) {
	for came, want := range map[int]string{1: "[16 4 4 4 3]", 0: "[16]"} {
		w := attached(t, 16, 900)
		answers := 0
		w.reply = func(c Call) *peer.Reply {
			op, is := c.Op.(peer.FetchDocs)
			if !is || !op.Attachments {
				return nil
			}
			if answers++; answers > 1 {
				return nil
			}
			r := peer.Reply{Result: w.fetch(c.ID, op, came)}
			return &r
		}
		w.begin()
		w.wantEnd(Completed, "")
		if got := fmt.Sprint(w.fetches()); got != want || w.count("copy") != 16*(1-came) {
			t.Errorf("%d came: read %s, %d copies", came, got, w.count("copy"))
		}
	}
}
