package timeline

import (
	"strings"

	"couchrelay/core/instant"
	"couchrelay/sim/oracle"
	"couchrelay/sim/trial"
	"couchrelay/sim/world"
)

// Recorder collects what a page shows of one run.
type Recorder struct {
	trial  *trial.Trial
	began  instant.Time
	texts  texts
	nodes  []*lane
	jobs   map[string]*job
	order  []*job // in the order in which they came up
	runs   map[*world.Run]open
	faults []fault
	loads  []*load
	healed int64 // when the world was healed, in milliseconds; -1 until then
}

// open is the place, in its job, of a run that has not ended.
type open struct {
	job   *job
	index int
}

// lane is how something changed: each state holds until the next.
type lane struct {
	name    string
	changes []change
}

// change is a state that holds from a moment on. Texts and nodes are given as numbers of the table of texts.
type change struct {
	at    int64 // milliseconds after the beginning
	state uint8
	node  int
	text  int
}

// States of jobs; worse ones are higher. Where several changes are too close together, the highest is shown.
const (
	jobGone uint8 = iota
	jobPending
	jobRunning
	jobCompleted
	jobCrashing
	jobFailed
)

// States of nodes.
const (
	nodeDown uint8 = iota
	nodeDraining
	nodeUp
)

// job is a row of the page.
type job struct {
	id, database, name string
	changes            []change
	runs               []span
}

// span is a run of a job.
type span struct {
	from, to int64 // milliseconds; to is -1 while it goes on
	node     int
	text     int
}

// fault is something that went wrong for a while, or in a moment.
type fault struct {
	span
	name, whom int
}

// Record watches a run from its beginning.
func Record(w *trial.Trial) *Recorder {
	r := &Recorder{
		trial: w, began: w.Engine.Now(), jobs: map[string]*job{}, runs: map[*world.Run]open{}, healed: -1,
		texts: texts{numbers: map[string]int{}},
	}
	r.texts.number("")
	w.Observe(r.see)
	w.Watch = r.jobChanged
	return r
}

// now is in milliseconds after the beginning.
func (r *Recorder) now() int64 { return r.trial.Engine.Now().Sub(r.began).Milliseconds() }

func (r *Recorder) see(f world.Fact) {
	at := r.now()
	switch o := f.(type) {
	case world.NodeChanged:
		r.nodeChanged(at, o)
	case world.RunStarted:
		j, node := r.job(o.Run.JobID()), r.texts.number(o.Run.Node().Name)
		j.runs = append(j.runs, span{from: at, to: -1, node: node})
		r.runs[o.Run] = open{j, len(j.runs) - 1}
	case world.RunEnded:
		if run, is := r.runs[o.Run]; is {
			s := &run.job.runs[run.index]
			s.to, s.text = at, r.texts.number(why(o.Run))
			delete(r.runs, o.Run)
		}
	case world.Transacted:
		r.load(o.Who).add(at, int(o.Step))
	case world.FaultHit:
		if o.For == 0 && !ofNemesis(o.Name) {
			r.load(o.Whom).add(at, faulted)
			return
		}
		f := fault{span: span{from: at, to: at + o.For.Milliseconds(), text: r.texts.number(o.Text)}}
		f.name, f.whom = r.texts.number(o.Name), r.texts.number(o.Whom)
		r.faults = append(r.faults, f)
	case world.Healed:
		r.healed = at
		for i := range r.faults {
			r.faults[i].to = min(r.faults[i].to, at)
		}
	}
}

// why returns how a run ended, in words.
func why(r *world.Run) string {
	if end := r.Ending(); end.Cause != 0 {
		return end.String()
	}
	return "dropped"
}

// ofNemesis reports whether a fault is one of the nemesis, which are shown one by one. Faults of requests and
// of the store are so many that they are only counted.
func ofNemesis(name string) bool {
	for _, known := range world.NemesisFaults {
		if name == known {
			return true
		}
	}
	return false
}

func (r *Recorder) nodeChanged(at int64, o world.NodeChanged) {
	state := map[world.NodeState]uint8{world.NodeUp: nodeUp, world.NodeDraining: nodeDraining,
		world.NodeDown: nodeDown}[o.State]
	var l *lane
	for _, known := range r.nodes {
		if known.name == o.Node.Name {
			l = known
		}
	}
	if l == nil {
		l = &lane{name: o.Node.Name}
		r.nodes = append(r.nodes, l)
	}
	l.changes = append(l.changes, change{at: at, state: state, text: r.texts.number(o.Text)})
}

func (r *Recorder) jobChanged(o oracle.JobChanged) {
	states := map[string]uint8{"": jobGone, "pending": jobPending, "running": jobRunning, "crashing": jobCrashing,
		"completed": jobCompleted, "failed": jobFailed}
	j := r.job(o.Job)
	if o.State != "" {
		j.database, j.name = o.Database, o.Doc
		if o.Database == "" {
			j.database, j.name = "requests", strings.TrimPrefix(o.Job, "r/")
		}
	}
	c := change{at: r.now(), state: states[string(o.State)], node: r.texts.number(o.Node),
		text: r.texts.number(o.Reason)}
	if n := len(j.changes); n > 0 {
		last := j.changes[n-1]
		if last.state == c.state && last.node == c.node && last.text == c.text {
			return // its progress was recorded
		}
	}
	j.changes = append(j.changes, c)
}

func (r *Recorder) job(id string) *job {
	j := r.jobs[id]
	if j == nil {
		j = &job{id: id, database: "unknown", name: id}
		r.jobs[id] = j
		r.order = append(r.order, j)
	}
	return j
}

// texts numbers texts, so that each is written once.
type texts struct {
	numbers map[string]int
	list    []string
}

func (t *texts) number(s string) int {
	n, known := t.numbers[s]
	if !known {
		n = len(t.list)
		t.numbers[s] = n
		t.list = append(t.list, s)
	}
	return n
}
