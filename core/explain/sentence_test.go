package explain

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/ratelimit"
)

const at = instant.Time(1_700_000_000_000_000) // 2023-11-14T22:13:20Z

func TestSentences(t *testing.T) {
	minutes := func(n int) *time.Duration { d := time.Duration(n) * time.Minute; return &d }
	problem := &Problem{Error: "unauthorized", Reason: "no", Advice: "correct it", Count: 3}
	hold := jobstore.Hold{Server: "h", Reason: "disks", By: "bob", At: at}
	slots := Slots{Nodes: 2, MaxJobs: 8, Running: 8}
	for _, c := range []struct {
		e    Explanation
		want string
	}{
		{Explanation{Why: []Cause{Completed, Refused}, View: jobstore.View{Refused: 6}},
			"The job is completed without some documents, and runs again only if it is retried. " +
				"The target refused 6 revisions of documents and has not got them since."},
		{Explanation{Why: []Cause{Failed}, Problem: problem},
			"The job has failed for good, with unauthorized (no); what to do: correct it."},
		{Explanation{Why: []Cause{Running}, Node: &Node{Name: "n1"}, View: jobstore.View{LastStart: at}},
			"The job runs on n1, since 2023-11-14T22:13:20Z."},
		{Explanation{Why: []Cause{Running, Lost}},
			"The job runs on a node that has no lease any more. " +
				"That node is silent and was given up, so the job is about to be queued again."},
		{Explanation{Why: []Cause{Running, Stopping, ByDoc}, Node: &Node{Name: "n1"}},
			`The job runs on n1. Its run is about to stop, with a checkpoint. ` +
				`The job is paused as long as its document says "paused": true.`},
		{Explanation{Why: []Cause{Paused}, View: jobstore.View{
			Control: jobstore.Control{Pause: &jobstore.Pause{By: "ann", Reason: "disks", At: at}}}},
			"The job is paused until it is resumed, by ann since 2023-11-14T22:13:20Z, because: disks."},
		{Explanation{Why: []Cause{Held}, Holds: []jobstore.Hold{hold}},
			"The job may not run while hold server:h (by bob since 2023-11-14T22:13:20Z, because: disks) is in force."},
		{Explanation{Why: []Cause{Held}, Holds: []jobstore.Hold{{Database: "_replicator", At: at},
			{Server: "h", At: at}}},
			"The job may not run while any of the holds database:_replicator (since 2023-11-14T22:13:20Z) and " +
				"server:h (since 2023-11-14T22:13:20Z) is in force."},
		{Explanation{Why: []Cause{Lifted}, View: jobstore.View{
			Control: jobstore.Control{Parking: jobstore.Parking{HeldBy: "server:h"}}}},
			"Hold server:h, which kept the job, is lifted, and the job comes back within a minute or so."},
		{Explanation{Why: []Cause{Waits}, Behind: &Behind{RepID: "rep"}},
			"The job waits for replication rep, which no job has any more, and is about to get it."},
		{Explanation{Why: []Cause{Waits}, Behind: &Behind{RepID: "rep", JobID: "j", Database: "_replicator",
			DocID: "d", State: "running"}},
			"The job waits for the end of another one, which has its replication rep: document d of " +
				"_replicator, which is running."},
		{Explanation{Why: []Cause{Waits}, Behind: &Behind{RepID: "rep", State: "running"}},
			"The job waits for the end of another one, which has its replication rep, and which is running."},
		{Explanation{Why: []Cause{Waits}, Behind: &Behind{RepID: "rep", JobID: "j", State: "pending"}},
			"The job waits for the end of another one, which has its replication rep: job j of a request, which " +
				"is pending."},
		{Explanation{Why: []Cause{Running, Slowed}, Node: &Node{Name: "n1"}, Endpoint: [2]Endpoint{
			{Limiter: []ratelimit.Kept{
				{Verdict: ratelimit.Verdict{Wait: 200 * time.Millisecond}},
				{Verdict: ratelimit.Verdict{Wait: 9800 * time.Millisecond}},
				{Verdict: ratelimit.Verdict{Wait: time.Second}},
			}},
			{Limiter: []ratelimit.Kept{
				{Verdict: ratelimit.Verdict{Wait: time.Minute, Closed: true}}, {Verdict: ratelimit.Verdict{}},
			}},
		}},
			"The job runs on n1. The source has asked for fewer requests (429): the next one goes there within 10s. " +
				"The target has asked for fewer requests (429): a probe goes there within 1m."},
		{Explanation{Why: []Cause{Running, Slowed}, Node: &Node{Name: "n1"}, Endpoint: [2]Endpoint{
			1: {Limiter: []ratelimit.Kept{{}}},
		}},
			"The job runs on n1. The target has asked for fewer requests (429): the next one goes there within 1s."},
		{Explanation{At: at, Due: at.Add(4 * time.Minute), Why: []Cause{Backoff, Throttled}, Problem: problem},
			"The job waits until 2023-11-14T22:17:20Z (in 4m) after 3 crashes in a row, the last with " +
				"unauthorized (no); " +
				"what to do: correct it. Its last run ended since a server asked for fewer requests (429), and " +
				"the next is gentler."},
		{Explanation{At: at, Due: at, Why: []Cause{Backoff}, Problem: &Problem{Error: "stalled", Count: 1}},
			"The job waits until 2023-11-14T22:13:20Z (now: it is about to become ready) after 1 crash, the " +
				"last with stalled."},
		{Explanation{At: at, Due: at.Add(90 * time.Second), Why: []Cause{Held, Backoff},
			Holds: []jobstore.Hold{hold}},
			"The job may not run while hold server:h (by bob since 2023-11-14T22:13:20Z, because: disks) is in " +
				"force. The job waits until 2023-11-14T22:14:50Z (in 1m30s) after a crash, the last with an error " +
				"that is not known."},
		{Explanation{At: at, Due: at + 1, Why: []Cause{Returning}},
			"The job comes back into the queue at 2023-11-14T22:13:20Z (in 1s)."},
		{Explanation{Why: []Cause{Next}, Position: &Position{}, Wait: minutes(0)},
			"The job is ready, and none is before it; there is a free slot for it, so it starts within seconds."},
		{Explanation{Why: []Cause{Queued, AllInUse}, Position: &Position{Ahead: 1}, Wait: minutes(2), Slots: slots},
			"The job is ready, and 1 job is before it; it waits for about 2m if no running job ends before. " +
				"All 8 slots of 2 nodes are in use."},
		{Explanation{Why: []Cause{Queued, NoNode}, Position: &Position{Ahead: MaxAhead, More: true},
			Slots: Slots{Nodes: 1}},
			"The job is ready, and more than 10000 jobs are before it; how long it waits cannot be told. " +
				"No node takes jobs: max_jobs is 0 on 1 node."},
		{Explanation{Why: []Cause{Queued, NoNode, Crashed}, Position: &Position{Ahead: 2}, Problem: problem},
			"The job is ready, and 2 jobs are before it; how long it waits cannot be told. No node takes jobs: " +
				"none with the role replication is up, but for those in maintenance or about to stop. It crashed " +
				"before, last with unauthorized (no); what to do: correct it."},
	} {
		if got := c.e.Sentence(); got != c.want {
			t.Errorf("%v:\n%s\nwant\n%s", c.e.Why, got, c.want)
		}
	}
}
