package oracle

import (
	"fmt"
	"testing"

	"couchrelay/core/peer"
)

func TestHistories(t *testing.T) {
	// saveTwice has a run save at one sequence and then at one that a test chooses.
	saveTwice := func(at func(*saver) peer.Seq, then func(*saver)) func(*rig) {
		return func(r *rig) {
			s := r.savesIn(nil)
			s.has(r.edit(r.db("s1", "a1"), "a"))
			s.saves("one")
			s.has(at(s))
			if then != nil {
				then(s)
			}
			s.saves("two")
		}
	}
	here := func(s *saver) peer.Seq { return s.db("s1", "a1").Last() }
	further := func(s *saver) peer.Seq { return s.edit(s.db("s1", "a1"), "b") }
	// often has a run save n times, and forget some of its entries. Its first log is refused with a status, unless 0.
	often := func(n, keep, refused int) func(*rig) {
		return func(r *rig) {
			s := r.savesIn(nil)
			if refused > 0 {
				log := s.log("none", from, nil)
				s.fails(s.run, peer.PutLocal{Side: peer.Target, ID: logID, Body: log}, status(refused))
				s.entries = nil
			}
			for i := range n {
				s.has(r.edit(r.db("s1", "a1"), fmt.Sprint("new", i)))
				s.entries = s.entries[:min(len(s.entries), keep)]
				s.saves(fmt.Sprint("session", i))
			}
		}
	}
	check(t, along(&historySubject, &lookupKept, &savingKept, &feedSubject), []case_{
		{"as it is", write(nil), ""},
		{"begun elsewhere", write(func(_, newest map[string]any) { newest["start_last_seq"] = 9 }), "S14j"},
		{"come elsewhere", write(func(_, newest map[string]any) { newest["end_last_seq"] = 9 }), "S14j"},
		{"more above the history", write(func(log, _ map[string]any) { log["docs_read"] = 1 }), "S14j"},
		{"other counters", write(func(_, newest map[string]any) { newest["docs_read"] = 1 }), "S14k"},
		{"another time", write(func(_, newest map[string]any) { newest["end_time"] = "yesterday" }), "S14k"},
		{"an entry changed", saveTwice(further, func(s *saver) { s.entries[0]["docs_read"] = 1 }), "S14l"},
		{"two checkpoints", saveTwice(further, nil), ""},
		{"a checkpoint again", saveTwice(here, nil), "S21a"},
		{"a checkpoint again, of a source that repeats changes", saveTwice(here, func(s *saver) {
			s.run.GoBack()
		}), ""},
		{"a checkpoint where an older log was", func(r *rig) {
			s := r.looksIn(nil)
			here := r.edit(r.db("s1", "a1"), "a")
			older := s.log("older", here, nil)
			s.does(s.run, peer.GetLocal{Side: peer.Target, ID: "older id"}, peer.Local{Found: true, Body: older})
			s.puts(peer.Target, older)
			s.does(s.run, peer.ReadChanges{Since: from}, rows(from))
			s.has(here)
			s.saves("one")
		}, ""},
		{"a checkpoint after logs that were discarded", func(r *rig) {
			s := r.savesIn(nil)
			before, here := r.edit(r.db("s1", "a1"), "a"), r.edit(r.db("s1", "a1"), "b")
			empty := []byte(`{"session_id":"","source_last_seq":0}`)
			for _, log := range [][]byte{empty, s.log("older", before, nil), empty} {
				s.puts(peer.Target, log)
			}
			s.entries = nil
			s.has(here)
			s.saves("one")
		}, ""},
		{"the one before dropped", saveTwice(further, func(s *saver) { s.entries = nil }), "S21b"},
		{"six checkpoints, all kept", often(6, 6, 0), ""},
		{"two of eight kept", often(8, 1, 0), "S21c"},
		{"two of eight kept, and a log was too long", often(8, 1, 413), ""},
		{"two of eight kept, and a log was refused", often(8, 1, 500), "S21c"},
	})
}
