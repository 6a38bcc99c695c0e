package replication

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// TestWords: recorded logs and their replay show what happened to a run, and what it did, in these words.
func TestWords(t *testing.T) {
	info := Info{Counters: checkpoint.Counters{DocsRead: 1, DocsWritten: 2, DocWriteFailures: 3}}
	info.SourceSeq, info.ThroughSeq, info.CheckpointedSeq = "6", "5", "4"
	oops := Trouble{Error: "oops", Reason: "it broke"}
	broken := peer.Reply{Failure: &peer.Failure{Method: "GET", URL: "http://a/", Status: 500}}
	for want, event := range map[string]fmt.Stringer{
		"begin": Begin{}, "identified": Identified{}, "wake": Wake{}, "give way": GiveWay{}, "stop": Stop{},
		"stored": Stored{}, "try refused": TryRefused{},
		"page of 2 refused, more true":       RefusedPage{Docs: make([]Listed, 2), More: true},
		"reply 7":                            Reply{ID: 7},
		"reply 7 peer.Pending{Count:5}":      Reply{ID: 7, Reply: peer.Reply{Result: peer.Pending{Count: 5}}},
		"reply 7 failed: GET http://a/: 500": Reply{ID: 7, Reply: broken},

		"identify id":          Identify{ID: "id", Base: "base"},
		"call 7 commit target": Call{ID: 7, Op: peer.Commit{Side: peer.Target}},
		"cancel 7":             Cancel{ID: 7},
		"progress read 1 written 2 failed 3 through 5": Progress{Info: info},
		"gives way":                      GivesWay{},
		"read 9 refused after \"d\" 1-a": ReadRefused{ID: "d", Rev: "1-a", Limit: 9},
		"refused [{Refusal:{ID:d Rev: Status:0 Error: Reason:} Over:true Failed:false Refused:false " +
			"Demand:1970-01-01T00:00:00.000000Z}]": Refused{
			Findings: []Finding{{Refusal: peer.Refusal{ID: "d"}, Over: true}},
		},
		"end completed":               End{Cause: Completed, Trouble: oops},
		"end stopped":                 End{Cause: Stopped, Trouble: oops},
		"end changed":                 End{Cause: Changed, Trouble: oops},
		"end crashed: oops: it broke": End{Cause: Crashed, Trouble: oops},
		"end failed: oops: it broke":  End{Cause: Failed, Trouble: oops},
	} {
		if got := event.String(); got != want {
			t.Errorf("%T: %s, want %s", event, got, want)
		}
	}
	long := Reply{Reply: peer.Reply{Result: peer.Filter{Code: strings.Repeat("x", 1000)}}}
	if got := len(long.String()); got != len("reply 0 ")+300 {
		t.Errorf("a long answer takes %d bytes", got)
	}
}
