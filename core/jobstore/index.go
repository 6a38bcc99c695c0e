package jobstore

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Lists find jobs by indexes. A job has labels: its state, the class of its error, the servers that it touches
// and its user. Each is a row of an index and counts in a tally. Rows and tallies change in the transaction that
// changes the job:
//
//   - State and error of a job that is not over follow its header, whatever moves the job (Keys.moved). So jobs
//     of a vanished worker are pending in lists without anything of their records being read.
//   - All other labels are of the record, and are the same from the job's beginning to its end (type marks).
//
// The rows of jobs that are over, and of requests, are apart from those of others, since lists either have them
// or not.

// indexKeys says where indexes and tallies are.
type indexKeys struct {
	Index, Tally, Border tuple.Subspace
	Reindex              []byte
}

func indexKeysBelow(root tuple.Subspace) indexKeys {
	return indexKeys{
		Index: root.Sub("index"), Tally: root.Sub("tally"), Border: root.Sub("border"), Reindex: root.Pack("reindex"),
	}
}

// group is a part of all jobs, in which each label has rows of its own.
type group int64

const (
	over      group = 1 << iota // the job is completed or failed
	ofRequest                   // the job is of a request, not of a document
)

// instanceSize is the length of the beginning of the ids of documents' jobs; see instancePrefix.
const instanceSize = 2*16 + 1

// instanceOf is the beginning of a job's id, which it shares with all jobs of its database; empty for a job of a
// request.
func instanceOf(jobID string) string {
	if len(jobID) > instanceSize && jobID[instanceSize-1] == '|' {
		return jobID[:instanceSize]
	}
	return ""
}

func groupOf(jobID string, isOver bool) (g group) {
	if isOver {
		g |= over
	}
	if instanceOf(jobID) == "" {
		g |= ofRequest
	}
	return g
}

// label is a field of a job and its value, as jobs are found by it.
type label struct{ field, value string }

// Fields of labels.
const (
	byState  = "state"
	byError  = "error"
	byServer = "server"
	byUser   = "user"
)

// crashing is the label of the headers of crashing jobs: this, and the class of the error.
const crashing = "crashing:"

// current are the labels of a job's state, of which one that is over has none here.
func current(j *jobs.Job) []label {
	switch {
	case j == nil || j.State == jobs.Finished:
		return nil
	case j.State == jobs.Running:
		return []label{{byState, string(Running)}}
	case j.Lot == lotPaused:
		return []label{{byState, string(Paused)}}
	}
	if class, is := strings.CutPrefix(j.Label, crashing); is {
		return stateLabels(Crashing, class)
	}
	return []label{{byState, string(Pending)}}
}

// stateLabels are those of a state with an error, or with none if that is empty.
func stateLabels(state State, class string) []label {
	list := []label{{byState, string(state)}}
	if class != "" {
		list = append(list, label{byError, class})
	}
	return list
}

// lasting are the labels that the job has for as long as it has this record.
func (r *Record) lasting() (list []label) {
	for _, url := range []string{r.Source, r.Target} {
		if server, _ := Servers(url); server != "" && !slices.Contains(list, label{byServer, server}) {
			list = append(list, label{byServer, server})
		}
	}
	if r.User != "" {
		list = append(list, label{byUser, r.User})
	}
	return list
}

// standing are the labels that the job has beside those of its header.
func (r *Record) standing() []label {
	switch r.State {
	case Completed:
		return append(stateLabels(Completed, ""), r.lasting()...)
	case Failed:
		return append(stateLabels(Failed, r.Error), r.lasting()...)
	}
	return r.lasting()
}

// marks are the labels of a job, for one transaction.
type marks struct {
	k     Keys
	tx    kv.Tx
	jobID string
}

// moved is jobs.Queue.Moved.
func (k Keys) moved(tx kv.Tx, old, to *jobs.Job) {
	job := old
	if old == nil {
		job = to
	}
	marks{k, tx, job.ID}.change(false, current(old), current(to))
}

// introduce adds the labels of a new job, beside those of its header.
func (m marks) introduce(rec *Record) { m.change(rec.State.Terminal(), nil, rec.standing()) }

// conclude moves the labels of a job that is over now.
func (m marks) conclude(rec *Record) {
	m.change(false, rec.lasting(), nil)
	m.introduce(rec)
}

// forget removes the labels of a job that goes away, beside those of its header.
func (m marks) forget(rec *Record) { m.change(rec.State.Terminal(), rec.standing(), nil) }

// change gives the job other labels, among those that are over or not. The caller has read the job, so that a
// repetition conflicts or finds no difference: the tallies are atomic additions, which conflict with nothing and are
// not idempotent.
func (m marks) change(isOver bool, old, to []label) {
	if slices.Equal(old, to) || !m.k.indexed(m.tx, m.jobID) {
		return
	}
	g := groupOf(m.jobID, isOver)
	for _, l := range old {
		if !slices.Contains(to, l) {
			m.tx.Clear(m.k.labelRow(g, l, m.jobID))
			m.tally(g, l, -1)
		}
	}
	for _, l := range to {
		if !slices.Contains(old, l) {
			m.tx.Set(m.k.labelRow(g, l, m.jobID), nil)
			m.tally(g, l, 1)
		}
	}
}

// tally counts the job among all with the label, and among those of its database.
func (m marks) tally(g group, l label, n int64) {
	m.tx.Add(m.k.tallyRow("", g, l), n)
	if instance := instanceOf(m.jobID); instance != "" {
		m.tx.Add(m.k.tallyRow(instance, g, l), n)
	}
}

func (k Keys) labelRow(g group, l label, jobID string) []byte {
	return k.Index.Pack(int64(g), l.field, indexed(l.value), jobID)
}

func (k Keys) tallyRow(instance string, g group, l label) []byte {
	return k.Tally.Pack(instance, int64(g), l.field, indexed(l.value))
}

// maxLabel bounds values in keys, together with the longest ids.
const maxLabel = 255

// indexed is a value as keys hold it: a long one is replaced by its hash.
func indexed(value string) string {
	if len(value) <= maxLabel {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}
