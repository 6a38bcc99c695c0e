package replication

import (
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// TestVerdictsOfBulkWrites: only what the target does not want is left out. What it could not write is copied by itself,
// or else the run ends without a checkpoint.
func TestVerdictsOfBulkWrites(t *testing.T) {
	for name, c := range map[string]struct {
		verdict    peer.Refusal
		put        int // status that a write of doc0 alone is answered with, 0 when it works
		copied     []string
		failures   int64
		trouble    string
		checkpoint peer.Seq
	}{
		"forbidden":       {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "forbidden"}, failures: 1, checkpoint: `"3-opaque"`},
		"unauthorized":    {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "unauthorized"}, failures: 1, checkpoint: `"3-opaque"`},
		"server error":    {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "internal_server_error"}, copied: []string{"doc0"}, checkpoint: `"3-opaque"`},
		"conflict":        {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "conflict"}, copied: []string{"doc0"}, checkpoint: `"3-opaque"`},
		"no revision":     {verdict: peer.Refusal{ID: "doc0", Error: "timeout"}, copied: []string{"doc0"}, checkpoint: `"3-opaque"`},
		"another spelled": {verdict: peer.Refusal{ID: "doc0", Rev: "01-A", Error: "timeout"}, copied: []string{"doc0"}, checkpoint: `"3-opaque"`},
		"no document":     {verdict: peer.Refusal{Error: "error"}, copied: []string{"doc0", "doc1", "doc2"}, checkpoint: `"3-opaque"`},
		"too large alone": {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "error"}, put: 413, copied: []string{"doc0"}, failures: 1, checkpoint: `"3-opaque"`},
		"gone alone":      {verdict: peer.Refusal{ID: "doc0", Rev: "1-a", Error: "not_found"}, put: 404, copied: []string{"doc0"}, trouble: "doc_write_failed", checkpoint: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(3)
			if c.failures > 0 {
				w.refuses["doc0"] = true
			}
			w.reply = func(call Call) *peer.Reply {
				switch op := call.Op.(type) {
				case peer.WriteDocs:
					if c.verdict.ID != "" {
						w.writeDocs(w.dbs[peer.Target], op.Docs[1:])
					}
					return &peer.Reply{Result: peer.Written{Refused: []peer.Refusal{c.verdict}}}
				case peer.CopyDoc:
					if op.ID == "doc0" && c.put > 0 {
						return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Refused: &peer.Refusal{ID: "doc0", Rev: "1-a", Status: c.put}}}}}
					}
				}
				return nil
			}
			w.begin()
			end := w.runToEnd(first)
			var copied []string
			for _, call := range w.calls {
				if id, is := strings.CutPrefix(call, "copy "); is {
					copied = append(copied, strings.Split(id, `"`)[1])
				}
			}
			i := end.Info
			if !slices.Equal(copied, c.copied) || i.DocWriteFailures != c.failures || end.Trouble.Error != c.trouble || i.CheckpointedSeq != c.checkpoint {
				t.Errorf("copied %v, %d failures, %s, checkpoint %s", copied, i.DocWriteFailures, end, i.CheckpointedSeq)
			}
			if c.trouble == "" && i.DocsWritten != 3-c.failures {
				t.Errorf("%d documents written", i.DocsWritten)
			}
		})
	}
}
