package explain

import (
	"fmt"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/ratelimit"
)

// Sentence tells in words why the job runs or does not, from the fields alone.
func (e *Explanation) Sentence() string {
	var parts []string
	for _, c := range e.Why {
		if text := e.words(c); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ". ") + "."
}

// words is a cause as a sentence, without its full stop.
func (e *Explanation) words(c Cause) string {
	switch c {
	case Completed:
		if e.Is(Refused) {
			return "The job is completed without some documents, and runs again only if it is retried"
		}
		return "The job is completed, and does not run again"
	case Failed:
		return "The job has failed for good, with " + e.troubled()
	case Running:
		return e.runs()
	case Lost:
		return "That node is silent and was given up, so the job is about to be queued again"
	case Slowed:
		return e.slowed()
	case Stopping:
		return "Its run is about to stop, with a checkpoint"
	case Paused:
		return "The job is paused until it is resumed, " + signed(e.View.Pause.By, e.View.Pause.Reason, e.View.Pause.At)
	case ByDoc:
		return `The job is paused as long as its document says "paused": true`
	case Held:
		return e.held()
	case Lifted:
		return "Hold " + e.View.HeldBy + ", which kept the job, is lifted, and the job comes back within a " +
			"minute or so"
	case Waits:
		return e.waits()
	default:
		return e.queue(c)
	}
}

// queue words the causes of a job that may run, and what is left of earlier runs.
func (e *Explanation) queue(c Cause) string {
	switch c {
	case Backoff:
		return fmt.Sprintf("The job waits until %s (%s) after %s, the last with %s",
			e.Due.ISO8601(), e.until(), crashes(e.Problem), e.troubled())
	case Returning:
		return fmt.Sprintf("The job comes back into the queue at %s (%s)", e.Due.ISO8601(), e.until())
	case Queued:
		return "The job is ready, and " + e.ahead() + " it" + e.wait()
	case Next:
		return "The job is ready, and none is before it" + e.wait()
	case NoNode:
		if e.Slots.Nodes > 0 {
			return "No node takes jobs: max_jobs is 0 on " + Count(e.Slots.Nodes, "node")
		}
		return "No node takes jobs: none with the role replication is up, but for those in maintenance or about to stop"
	case AllInUse:
		return fmt.Sprintf("All %d slots of %s are in use", e.Slots.MaxJobs, Count(e.Slots.Nodes, "node"))
	case Throttled:
		return "Its last run ended since a server asked for fewer requests (429), and the next is gentler"
	case Crashed:
		return "It crashed before, last with " + e.troubled()
	case Refused:
		return "The target refused " + Count(int(e.View.Refused), "revision") + " of documents and has not got " +
			"them since"
	}
	return ""
}

// runs names the node, or says that it is not known.
func (e *Explanation) runs() string {
	text := "The job runs on a node that has no lease any more"
	if e.Node != nil {
		text = "The job runs on " + e.Node.Name
	}
	if e.View.LastStart != 0 {
		text += ", since " + e.View.LastStart.ISO8601()
	}
	return text
}

// slowed tells of the longest pause at each server that has asked for fewer requests.
func (e *Explanation) slowed() string {
	var parts []string
	for i, side := range []string{"source", "target"} {
		var longest ratelimit.Verdict
		for _, p := range e.Endpoint[i].Limiter {
			longest.Wait, longest.Closed = max(longest.Wait, p.Wait), longest.Closed || p.Closed
		}
		if len(e.Endpoint[i].Limiter) == 0 {
			continue
		}
		text := "The " + side + " has asked for fewer requests (429): "
		if longest.Closed {
			text += "a probe goes there"
		} else {
			text += "the next one goes there"
		}
		parts = append(parts, text+" within "+inWords(max(longest.Wait, time.Second)))
	}
	return strings.Join(parts, ". ")
}

func (e *Explanation) held() string {
	names := make([]string, len(e.Holds))
	for i := range e.Holds {
		h := &e.Holds[i]
		names[i] = h.ID() + " (" + signed(h.By, h.Reason, h.At) + ")"
	}
	if len(names) == 1 {
		return "The job may not run while hold " + names[0] + " is in force"
	}
	return "The job may not run while any of the holds " + strings.Join(names, " and ") + " is in force"
}

// signed tells who did something, when and why.
func signed(by, reason string, at instant.Time) string {
	text := "since " + at.ISO8601()
	if by != "" {
		text = "by " + by + " " + text
	}
	if reason != "" {
		text += ", because: " + reason
	}
	return text
}

func (e *Explanation) waits() string {
	b := e.Behind
	switch {
	case b.JobID == "" && b.State != "":
		return fmt.Sprintf("The job waits for the end of another one, which has its replication %s, and which is %s",
			b.RepID, b.State)
	case b.JobID == "":
		return "The job waits for replication " + b.RepID + ", which no job has any more, and is about to get it"
	case b.DocID != "":
		return fmt.Sprintf("The job waits for the end of another one, which has its replication %s: document %s "+
			"of %s, which is %s",
			b.RepID, b.DocID, b.Database, b.State)
	}
	return fmt.Sprintf("The job waits for the end of another one, which has its replication %s: job %s of a "+
		"request, which is %s",
		b.RepID, b.JobID, b.State)
}

// troubled is the error, with its reason and what to do.
func (e *Explanation) troubled() string {
	p := e.Problem
	if p == nil {
		return "an error that is not known"
	}
	text := p.Error
	if p.Reason != "" {
		text += " (" + p.Reason + ")"
	}
	if p.Advice != "" {
		text += "; what to do: " + p.Advice
	}
	return text
}

func crashes(p *Problem) string {
	if p == nil {
		return "a crash"
	}
	if p.Count == 1 {
		return "1 crash"
	}
	return fmt.Sprintf("%d crashes in a row", p.Count)
}

// until is the time to the due moment, in words.
func (e *Explanation) until() string {
	left := e.Due.Sub(e.At)
	if left <= 0 {
		return "now: it is about to become ready"
	}
	return "in " + inWords(max(time.Second, left))
}

func (e *Explanation) ahead() string {
	switch {
	case e.Position.More:
		return fmt.Sprintf("more than %d jobs are before", MaxAhead)
	case e.Position.Ahead == 1:
		return "1 job is before"
	}
	return fmt.Sprintf("%d jobs are before", e.Position.Ahead)
}

// wait is the estimated wait, or that there is none.
func (e *Explanation) wait() string {
	switch {
	case e.Wait == nil:
		return "; how long it waits cannot be told"
	case *e.Wait == 0:
		return "; there is a free slot for it, so it starts within seconds"
	}
	return "; it waits for about " + inWords(*e.Wait) + " if no running job ends before"
}

// inWords is a time in whole seconds, as in 1m30s, or in 2m.
func inWords(d time.Duration) string {
	text := d.Round(time.Second).String()
	if minutes, is := strings.CutSuffix(text, "m0s"); is {
		return minutes + "m"
	}
	return text
}

// Count is a number of things in words.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
