package follow_test

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobs"
	"couchrelay/core/peer"
)

// TestWords: traces tell what a worker is told, asks for and does, in words that name whom and how much it is about.
func TestWords(t *testing.T) {
	held := follow.Held{ID: "j", Lock: jobs.Lock{Worker: "w", Batch: 3}}
	two := []follow.Written{{ID: "a"}, {ID: "b"}}
	reps := follow.Database{Section: "couch", Name: "reps"}
	found := peer.Reply{Result: peer.RevFound{Found: true}}
	gone := peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: 404}}
	for want, is := range map[string]fmt.Stringer{
		"join as w":                          follow.Join{Worker: "w"},
		"beat of w":                          follow.Beat{Worker: "w"},
		"look at leases":                     follow.Watch{},
		"expire w":                           follow.Expire{Worker: "w"},
		"accept 2 as w/3":                    follow.Accept{Worker: "w", Batch: 3, Max: 2},
		"release j under w/3 for 5s timeout": follow.Release{Held: held, Error: "timeout", Wait: 5 * time.Second},
		`opened j under w/3, instance 7, lost {"d" "1-x" ""}`: follow.Opened{
			Held: held, Instance: "7", Lost: peer.MarkOf("d", "1-x", nil),
		},
		"apply 2 to j under w/3, since 9, at end true": follow.Apply{
			Held: held, Docs: make([]follow.Incoming, 2), Since: "9", AtEnd: true,
		},
		`sweep j under w/3 after "a"`:   follow.Sweep{Held: held, After: "a"},
		"look at j under w/3 after 5-x": follow.Look{Held: held, Looked: "5-x"},
		`prepare j under w/3, 1 changed, looked 5-x, after "a"`: follow.Prepare{
			Held: held, Changed: []string{"d"}, Looked: "5-x", After: "a",
		},
		"sent 2 states of j under w/3":            follow.Sent{Held: held, Docs: two},
		`configure ["j"]`:                         follow.Configure{Jobs: []string{"j"}},
		"answer 4 store error down <nil>":         follow.Answer{ID: 4, Outcome: follow.StoreDown, Text: "down"},
		"answer 4 committed  {Whole:true}":        follow.Answer{ID: 4, Result: follow.Expired{Whole: true}},
		"run 2 refused: why":                      follow.Refused{Run: 2, Reason: "why"},
		"run 2: the mirror changed":               follow.Changed{Run: 2},
		"wake":                                    follow.Wake{},
		"drain":                                   follow.Drain{},
		"run 2 reply 5 peer.RevFound{Found:true}": follow.Reply{Run: 2, ID: 5, Reply: found},
		"run 2 reply 5 <nil><nil> failed: " + gone.Failure.String(): follow.Reply{Run: 2, ID: 5, Reply: gone},
		"ask 4 beat of w":                      follow.Ask{ID: 4, Request: follow.Beat{Worker: "w"}},
		"open run 2 of couch/reps/_replicator": follow.Open{Run: 2, Job: follow.Job{Database: reps}},
		"run 2 call 5 " + peer.Open{}.String(): follow.Call{Run: 2, ID: 5, Op: peer.Open{}},
		"run 2 cancel 5":                       follow.Cancel{Run: 2, ID: 5},
		"run 2 await changes of j after 0":     follow.Await{Run: 2, Job: "j"},
		"close run 2":                          follow.Close{Run: 2},
		"note follow_failed j timeout: why": follow.Note{
			What: "follow_failed", Job: "j", Error: "timeout", Text: "why",
		},
		"exit":       follow.Exit{},
		"halted":     follow.Halted,
		"lease lost": follow.LeaseLost,
	} {
		if got := is.String(); got != want {
			t.Errorf("%T is %q, want %q", is, got, want)
		}
	}
}
