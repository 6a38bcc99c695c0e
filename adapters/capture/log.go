package capture

import (
	"io"
	"strconv"
	"strings"
	"time"

	"couchrelay/adapters/eventlog"
	"couchrelay/core/config"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// Log makes a workload of what couchrelay serve --record wrote: of the jobs that one node ran. Jobs that were
// there when the log began are submitted at its beginning, or when they were made if that was later.
func Log(in io.Reader, keepNames bool) (*Capture, error) {
	l := logReader{
		observed: &observed{settings: map[string]string{}}, jobs: map[string]*job{}, runs: map[uint64]*run{},
	}
	cut, err := eventlog.Read(in, l.begin, l.event)
	if err != nil {
		return nil, err
	}
	if cut {
		l.note("the log has no end: its process was killed, or it was full")
	}
	l.note("a log tells of the jobs that its node ran; shares, the policy, pauses, holds and jobs that only waited " +
		"are not in it")
	for _, r := range l.runs {
		r.ran += l.last - r.began
	}
	return l.capture(keepNames)
}

type logReader struct {
	*observed
	header eventlog.Header
	jobs   map[string]*job
	runs   map[uint64]*run // that have not ended
	last   time.Duration
}

type run struct {
	*job
	began time.Duration
	first int  // of its looks
	ready bool // it has begun to read changes
}

func (l *logReader) begin(h eventlog.Header) {
	l.header = h
	s := config.Default()
	s.Node = h.Node.Settings
	for _, name := range ofNodes {
		l.settings[name] = config.Replicator.Get(&s, name)
	}
}

// ofNodes are the settings of [replicator] that a log has.
var ofNodes = []string{
	"max_jobs", "max_churn", "interval", "min_run_time_sec", "rebalance", "startup_jitter", "activity_timeout_sec",
	"stop_timeout_sec", "stats_update_interval_sec",
}

func (l *logReader) event(r eventlog.Record) {
	l.last = r.At
	switch ev := r.Event.(type) {
	case node.Done:
		if accepted, is := ev.Result.(node.Accepted); is {
			for i := range accepted.Work {
				if rec := accepted.Work[i].Record; rec != nil {
					l.accepted(r.At, accepted.Work[i].JobID, rec)
				}
			}
		}
	case node.RunProgress:
		if run := l.runs[ev.Run]; run != nil {
			run.look(r.At, ev.Run, ev.Info)
		}
	case node.RunEnded:
		l.ended(r.At, ev)
	case node.Configure:
		l.note("the settings were changed after %s; those of the beginning are given", r.At.Round(time.Second))
	case replication.Reply:
		if changes, is := ev.Result.(peer.Changes); is && l.runs[r.Run] != nil {
			l.runs[r.Run].read(r.At, len(changes.Rows))
		}
	}
	l.effects(r)
}

// read notes that a run was told n changes. The first of them end its start-up, unless it had to wait for them.
func (r *run) read(at time.Duration, n int) {
	if !r.ready && n > 0 {
		r.startups = append(r.startups, at-r.began)
		r.looks[r.first].at = at
	}
	r.ready = true
}

// accepted notes a job that the node got.
func (l *logReader) accepted(at time.Duration, id string, rec *jobstore.Record) {
	j := l.jobs[id]
	if j == nil {
		j = &job{
			name: id, account: rec.Account(), endpoint: hostOf(rec.Source), continuous: rec.Continuous,
			weight: rec.Weight,
			submit: max(0, rec.Created.Sub(l.header.Began)), age: max(0, at-rec.Created.Sub(l.header.Began)),
		}
		if rec.DocID != "" {
			j.name = rec.Database + "/" + rec.DocID
		}
		l.jobs[id] = j
		l.observed.jobs = append(l.observed.jobs, j)
	}
	j.remove = 0 // it had only left this node
	of := rec.Stats
	j.looks = append(j.looks, look{
		at: at, pending: -1,
		done: done(of.RevisionsChecked, of.MissingRevisionsFound, of.DocsWritten, of.DocWriteFailures),
	})
}

func (r *run) look(at time.Duration, number uint64, info replication.Info) {
	r.looks = append(r.looks, look{
		at: at, run: number, pending: float64(info.ChangesPending),
		done: done(info.MissingChecked, info.MissingFound, info.DocsWritten, info.DocWriteFailures),
	})
}

// effects looks for runs that begin, and for jobs that are taken from the node. The words of effects are a
// format, see package eventlog. Of jobs with ids that a log cuts, runs are not told.
func (l *logReader) effects(r eventlog.Record) {
	for _, text := range r.Effects {
		if rest, is := strings.CutPrefix(text, "start run "); is {
			digits, id, _ := strings.Cut(rest, " of job ")
			number, err := strconv.ParseUint(digits, 10, 64)
			if j := l.jobs[id]; err == nil && j != nil {
				l.runs[number] = &run{job: j, began: r.At, first: len(j.looks)}
				j.looks = append(j.looks,
					look{at: r.At, run: number, done: j.looks[len(j.looks)-1].done, pending: -1})
			}
		}
		if rest, is := strings.CutPrefix(text, "note halted "); is {
			id, _, _ := strings.Cut(rest, " ")
			if j := l.jobs[id]; j != nil {
				j.remove = r.At
			}
		}
	}
}

// ended notes how a run ended.
func (l *logReader) ended(at time.Duration, ev node.RunEnded) {
	run := l.runs[ev.Run]
	if run == nil {
		return
	}
	delete(l.runs, ev.Run)
	run.ran += at - run.began
	run.look(at, ev.Run, ev.End.Info)
	switch ev.End.Cause {
	case replication.Crashed:
		run.crashes++
	case replication.Completed:
		last := &run.looks[len(run.looks)-1]
		last.last, run.size = true, last.done-run.looks[0].done
	}
}
