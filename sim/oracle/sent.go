package oracle

import (
	"slices"

	"couchrelay/core/peer"
)

// sent are the logs that a run has sent, and which of them are checkpoints of its own. Only savings change it.
type sent struct {
	// put is the checkpoint that the run last sent to a side, there the one of these that was last written,
	// whole the last one that both sides had, and puts where the last four were that it sent.
	put, there [2]entry
	whole      entry
	puts       []peer.Seq
	// made is the last checkpoint that the run made itself, older whether it found a log of a side under an older id,
	// and moved whether it has asked to write such a log under the present one, or an empty one beside it.
	made  entry
	older [2]bool
	moved bool
	list  bool // the last one says that it relies on a list
}

// sends notes a checkpoint that a side is asked to write, when the run has begun to read changes or before.
func (s *sent) sends(op peer.PutLocal, begun bool, logs logs) {
	head, _ := logs.head(op.Body)
	if begun {
		s.made = head
	} else {
		s.moved = s.moved || s.older[op.Side]
	}
	if at := peer.Seq(head.seq); !slices.Contains(s.puts, at) {
		s.puts = append(s.puts[max(0, len(s.puts)-3):], at)
	}
	s.put[op.Side], s.list = head, logs.read(op.Body).relies() != list{}
}
