package replication

import (
	"fmt"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// TestQuestionTooLong: a proxy before the target takes no question about more than a few documents, as large batches
// and long ids make it. It is asked in parts, of new batches and of the list of refused documents.
func TestQuestionTooLong(t *testing.T) {
	for _, most := range []int{3, 0} {
		w := refusing(t, spec.RetryRefused)
		w.dbs[peer.Target].write("doc1", "1-a")
		w.plan.BatchSize = 40
		for i := range 6 {
			w.keep(Finding{Refusal: peer.Refusal{ID: fmt.Sprint("doc", 3*i), Rev: "1-a", Status: 403}})
		}
		w.reply = func(c Call) *peer.Reply {
			if op, is := c.Op.(peer.DiffRevs); is && len(op.Docs) > most {
				return &peer.Reply{Failure: &peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 413}}
			}
			return nil
		}
		w.begin()
		w.wantEnd(Completed, "")
		written := int64(13) // what the target has, and was not asked about, is written once more
		if most == 0 {
			written++
		}
		if i := w.end.Info; i.DocsWritten != written || len(w.list) != 6 || i.MissingChecked != 20 {
			t.Errorf("with %d at most: %s, checked %d, listed %v", most, i, i.MissingChecked, w.list)
		}
	}
}
