package oracle

import (
	"encoding/json"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
)

// lists has commits store the list of refused documents of rig.run's job, by document in the revision that the
// target refused, and how many rows the job counts.
func (s *saver) lists(rev string, count int64, rows map[string]jobstore.Refusal) {
	s.listsOf("", 0, rev, count, rows)
}

// listsOf is lists for a job with a base id that was made at some time.
func (s *saver) listsOf(base string, made instant.Time, rev string, count int64, rows map[string]jobstore.Refusal) {
	k := s.w.View().Store().Keys
	s.commit(nil, func(tx kv.Tx) error {
		tx.ClearRange(k.Refused.Sub("job").Range())
		for id, row := range rows {
			value, err := json.Marshal(row)
			if err != nil {
				return err
			}
			tx.Set(k.Refused.Pack("job", id, rev), value)
		}
		return nil
	})
	header := jobs.Job{ID: "job", State: jobs.Running, Lock: aLock}
	record := jobstore.Record{State: jobstore.Running, BaseID: base, Created: made}
	record.Refused = &jobstore.RefusedDocs{Listed: count}
	s.store(nil, header, record)
}

// rev is the revision of document a, which is on the source.
func (s *saver) rev() string { return s.db("s1", "a1").Latest("a").Rev.String() }

// arrives has the target get that revision.
func arrives(s *saver) {
	doc := *s.db("s1", "a1").Latest("a")
	s.db("s2", "b1").Write([]docs.Edit{{Document: doc, Replicated: true}})
}

// replaces has a user write document a again.
func replaces(s *saver) {
	doc := *s.db("s1", "a1").Latest("a")
	s.db("s1", "a1").Write([]docs.Edit{{Document: doc}})
}

func TestRefusedLists(t *testing.T) {
	row := jobstore.Refusal{Status: 403, Error: "forbidden", First: 1, Last: 1, Attempts: 1}
	listed := map[string]jobstore.Refusal{"a": row}
	// refuses has the target refuse document a, before something else happens.
	refuses := func(then func(*saver)) func(*rig) {
		return func(r *rig) {
			at := r.edit(r.db("s1", "a1"), "a")
			r.pass(time.Second)
			s := r.savesIn(nil)
			v := peer.Refusal{ID: "a", Rev: s.rev(), Status: 403}
			s.does(s.run, peer.CopyDoc{ID: "a", Revs: []string{v.Rev}},
				peer.Copied{Revs: []peer.CopiedRev{{Rev: v.Rev, Refused: &v}}})
			s.lists(s.rev(), 0, nil)
			s.has(at)
			then(s)
		}
	}
	// saves has the run write a checkpoint that covers document a.
	saves := func(s *saver) { s.puts(peer.Target, s.log("one", s.db("s1", "a1").Last(), nil)) }
	again := func(attempts int, first instant.Time) func(*saver) {
		return func(s *saver) {
			s.lists(s.rev(), 1, listed)
			next := row
			next.First, next.Last, next.Attempts = first, 2, attempts
			s.lists(s.rev(), 1, map[string]jobstore.Refusal{"a": next})
		}
	}
	leaves := func(before func(*saver)) func(*saver) {
		return func(s *saver) {
			rev := s.rev()
			s.lists(rev, 1, listed)
			s.pass(time.Second)
			before(s)
			s.lists(rev, 0, nil)
		}
	}
	// anew has a user edit the document of a job with a list, which becomes a job with another one.
	anew := func(base string, rows map[string]jobstore.Refusal) func(*saver) {
		return func(s *saver) {
			s.listsOf("base", 1, s.rev(), 1, listed)
			s.pass(time.Second)
			s.listsOf(base, 2, s.rev(), int64(len(rows)), rows)
		}
	}
	// claims has a job that was made anew learn its base id.
	claims := func(base string, rows map[string]jobstore.Refusal) func(*saver) {
		return func(s *saver) {
			anew("", listed)(s)
			s.pass(time.Second)
			s.listsOf(base, 2, s.rev(), int64(len(rows)), rows)
		}
	}
	check(t, &refusedSubject, []case_{
		{"kept, for the same", refuses(anew("base", listed)), ""},
		{"lost, for the same", refuses(anew("base", nil)), "S42e"},
		{"kept, for another", refuses(anew("other", listed)), "S42e"},
		{"lost, for another", refuses(anew("other", nil)), ""},
		{"lost before it is known", refuses(anew("", nil)), "S42e"},
		{"kept, as it is known", refuses(claims("base", listed)), ""},
		{"kept, though it is known", refuses(claims("other", listed)), "S42e"},
		{"lost, as it is known", refuses(claims("other", nil)), ""},
		{"covered and listed", refuses(func(s *saver) { s.lists(s.rev(), 1, listed); saves(s) }), ""},
		{"covered and not listed", refuses(saves), "S42a"},
		{"covered by another run of that moment", refuses(func(s *saver) {
			s.run = s.rig.run(nil)
			s.run.Identify(logID)
			saves(s)
		}), ""},
		{"covered and on the target", refuses(func(s *saver) { arrives(s); saves(s) }), ""},
		{"not listed and not covered", refuses(func(s *saver) { s.puts(peer.Target, s.log("one", from, nil)) }), ""},
		{"listed with another status", refuses(func(s *saver) {
			other := row
			other.Status = 413
			s.lists(s.rev(), 1, map[string]jobstore.Refusal{"a": other})
		}), "S42b"},
		{"listed and never refused", refuses(func(s *saver) {
			s.lists(s.rev(), 1, map[string]jobstore.Refusal{"b": row})
		}), "S42b"},
		{"refused again", refuses(again(2, 1)), ""},
		{"refused again, for the first time", refuses(again(1, 1)), "S42b"},
		{"refused again, begun anew", refuses(again(2, 2)), "S42b"},
		{"left, and not on the target", refuses(leaves(func(*saver) {})), "S42c"},
		{"left, and on the target", refuses(leaves(arrives)), ""},
		{"left, and replaced", refuses(leaves(replaces)), ""},
		{"one that is not counted", refuses(func(s *saver) { s.lists(s.rev(), 0, listed) }), "S42d"},
		{"one that is counted and not there", refuses(func(s *saver) { s.lists(s.rev(), 1, nil) }), "S42d"},
	})
}
