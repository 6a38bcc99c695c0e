package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
)

// Sent is a document as a user sends it.
type Sent struct {
	Body    []byte
	Brought bool // it comes from another server as it is, and need not ask for anything that can be replicated
	// Over is the revision that it replaces; empty if it replaces none, or only such as are deleted.
	Over string
}

// judgeDocuments says what is wrong with the documents that a commit writes, and with the jobs that it makes, removes
// or ends for documents.
func (m *Model) judgeDocuments(c *Commit, w *writing) error {
	for _, d := range w.documents {
		if err := m.judgeLeaves(c, d); err != nil {
			return breach(Winning, c, "document %s was %v and is %v, of %v, new %v, gone %v: %v",
				d.id, d.was, d.found, m.leaves[d.id], d.added, d.removed, err)
		}
		if d.found == d.was {
			continue
		}
		if rule, err := m.judgeDocument(c, w, d); err != nil {
			job, _ := w.after(d.id)
			return breach(rule, c, "document %s was %v and is %v, its job was %v and is %v: %v",
				d.id, d.was, d.found, m.jobs[d.id], job, err)
		}
	}
	for _, ch := range w.changes {
		if ch.path == nil || ch.was.record.ofRequest() && ch.found.record.ofRequest() {
			continue
		}
		if rule, err := m.judgeUnwritten(w, ch); err != nil {
			return breach(rule, c, "job %s was %v and is %v: %v", ch.id, ch.was, ch.found, err)
		}
	}
	return nil
}

// judgeUnwritten judges a job that changes without its document.
func (m *Model) judgeUnwritten(w *writing, ch *change) (Rule, error) {
	d, written := w.there(ch.id)
	if written {
		return 0, nil
	}
	switch last := ch.path.last(); {
	case last == adds || last == addsOver:
		return Following, fmt.Errorf("it is made, and nobody wrote its document")
	case last == removes && d != document{}:
		return Following, fmt.Errorf("it is removed, and its document is there")
	case last == finishes && d != document{} && !m.forbids(ch.id, d.body):
		return Telling, fmt.Errorf("it ends, and its document does not tell")
	case last == finishes && d != document{}:
		m.Counts[endsUntold]++
	}
	return 0, nil
}

// judgeDocument judges a document that a commit changes, with its job.
func (m *Model) judgeDocument(c *Commit, w *writing, d *documentChange) (Rule, error) {
	job, _ := w.after(d.id)
	was, _ := parse([]byte(d.was.body)) // which was judged
	found, err := parse([]byte(d.found.body))
	switch {
	case d.isDesign() && (job.state != absent || c.Request != nil):
		return Following, fmt.Errorf("it is a design document")
	case d.isDesign():
		return 0, nil
	case c.Request != nil:
		m.Counts[tells]++
		return Telling, c.judgeTold(w.of[d.id], d, was, found)
	case d.found == document{}:
		m.Counts[isDeleted]++
		if job.state != absent {
			return Following, fmt.Errorf("it is deleted, and has a job")
		}
		return 0, nil
	case err != nil:
		return Storing, err
	}
	j := &judgement{m, c, d, w.of[d.id], was, found}
	return j.written()
}

// judgement is about a document that a user or the service has written, with its job.
type judgement struct {
	m          *Model
	c          *Commit
	d          *documentChange
	job        *change // nil if the commit leaves the job as it was
	was, found content
}

// written judges what is stored, and which job that has.
func (j *judgement) written() (Rule, error) {
	sent, brought, err := j.sent()
	if err != nil {
		return Storing, err
	}
	over, wrong, last := sent.over(), sent.wrong(), j.last()
	live := j.m.jobs[j.d.id].state == pending || j.m.jobs[j.d.id].state == running
	mirror := j.m.databases[prefixOf(j.d.id)].mirror
	switch {
	case !mirror && !j.winsNow() && j.m.forbids(j.d.id, j.d.found.body):
		return Storing, fmt.Errorf("a validation function forbids it")
	case over == "" && wrong != "" && !brought:
		return Storing, fmt.Errorf("its %s is wrong", wrong)
	case over == "" && wrong != "":
		j.m.Counts[isWrong]++
		return j.failed(sent, wrong)
	case !j.found.isAs(sent):
		return Storing, fmt.Errorf("users wrote %v", sent)
	case over != "" && j.m.jobs[j.d.id].record.state == over && !mirror:
		j.m.Counts[staysOver]++
		return Following, j.stays(sent, wrong != "")
	case over != "":
		j.m.Counts[comesOver]++
		return Following, j.over(over)
	case live && reflect.DeepEqual(j.was.asks(j.m.Usual), sent.asks(j.m.Usual)):
		j.m.Counts[goesOn]++
		if last == adds || last == addsOver || last == removes {
			return Following, fmt.Errorf("it asks for the same, and its job does not go on")
		}
		return Following, j.orders()
	case last != adds:
		return Following, fmt.Errorf("it asks for another replication, and its job is not made anew")
	case live:
		j.m.Counts[asksForOther]++
		return Following, cmp.Or(j.kept(), j.orders())
	default:
		j.m.Counts[asksFirst]++
	}
	return Following, j.orders()
}

// sent is what the document must say, but for its owner. Without a new number it was not written by a user, but by an
// order to run its job again.
func (j *judgement) sent() (sent content, brought bool, err error) {
	if j.m.databases[prefixOf(j.d.id)].mirror || j.c.Sent == nil {
		return j.found, false, nil // it is another server that knows
	}
	if j.winsNow() { // it was judged when it was written
		j.m.Counts[winsNow]++
		return j.found, true, nil
	}
	if n := j.found.number(); n != j.was.number() {
		s := j.c.Sent(n)
		if s == nil {
			return nil, false, fmt.Errorf("nobody wrote it")
		}
		sent, err := parse(s.Body)
		return sent.kept(), s.Brought, err
	}
	j.m.Counts[runsAgain]++
	if j.m.jobs[j.d.id].state != finished {
		return nil, false, fmt.Errorf("nobody wrote it, and its job was not over")
	}
	if !reflect.DeepEqual(j.found.get("owner"), j.was.get("owner")) {
		return nil, false, fmt.Errorf("an order gives it another owner")
	}
	return j.was.ofUsers(), false, nil
}

// winsNow reports whether the document was a leaf before, which lost.
func (j *judgement) winsNow() bool {
	return j.c.Sent != nil && !j.m.databases[prefixOf(j.d.id)].mirror && !slices.Contains(j.d.added, j.d.found.rev)
}

// last is the last transition of the job; transitions if there was none.
func (j *judgement) last() transition {
	if j.job == nil || j.job.path == nil {
		return transitions
	}
	return j.job.path.last()
}

// stays judges the job of a document that goes on saying that it is over. Nothing of it changes but its replication
// and what it is listed by.
func (j *judgement) stays(sent content, wrong bool) error {
	asksForOther := !reflect.DeepEqual(j.was.asks(j.m.Usual), sent.asks(j.m.Usual))
	switch last := j.last(); {
	case last != transitions && last != rewrites:
		return fmt.Errorf("it goes on saying that it is over, and its job changes")
	case asksForOther && !wrong && last == transitions && j.m.jobs[j.d.id].spec != "":
		return fmt.Errorf("it asks for another replication, and an order would run the one before")
	}
	return nil
}

// over judges the job of a document that says that it is over: it is as the document says.
func (j *judgement) over(state string) error {
	if j.last() != addsOver || j.job.found.record.state != state {
		return fmt.Errorf("it is %s, and its job is not", state)
	}
	r, err := reportOf(j.job.found)
	if err != nil {
		return err
	}
	reason, _ := j.found.get("_replication_state_reason").(string)
	if state == stateFailed && r.Reason != reason {
		return fmt.Errorf("its job failed since %q", r.Reason)
	}
	numbers, _ := j.found.get("_replication_stats").(map[string]any)
	for name, n := range numbers {
		if is, known := r.Stats[name]; known && is != n {
			return fmt.Errorf("its job has %v %s", is, name)
		}
	}
	return nil
}

// failed judges a document that arrived with a wrong field.
func (j *judgement) failed(sent content, wrong string) (Rule, error) {
	marks := j.found.marks()
	reason, _ := marks["_replication_state_reason"].(string)
	want := map[string]any{
		"_replication_state": stateFailed, "_replication_state_reason": reason,
		"_replication_state_time": marks["_replication_state_time"],
	}
	if !j.found.without(isMark).isAs(sent) {
		return Storing, fmt.Errorf("users wrote %v", sent)
	}
	if !strings.Contains(reason, wrong) || !reflect.DeepEqual(marks, want) {
		return Telling, fmt.Errorf("it does not say that its %s is wrong", wrong)
	}
	return Following, j.over(stateFailed)
}

// orders judges what a job that is not over has of its document besides the replication.
func (j *judgement) orders() error {
	job := j.m.jobs[j.d.id]
	if j.job != nil {
		job = j.job.found
	}
	r, err := reportOf(job)
	if err != nil {
		return err
	}
	weight, _ := j.found.get("weight").(json.Number)
	named, _ := weight.Int64()
	paused := j.found.get("paused") == true
	if r.PausedByDocument != paused || cmp.Or(named, 100) != cmp.Or(job.record.weight, 100) ||
		fmt.Sprint(r.Unknown) != fmt.Sprint(j.found.unknown()) {
		return fmt.Errorf("its job is paused by it: %v, has weight %d, and does not know %q", r.PausedByDocument,
			job.record.weight, r.Unknown)
	}
	return nil
}

// kept judges a job that is made anew in place of one that was not over: what operators asked of that holds for it.
func (j *judgement) kept() error {
	was, err := reportOf(j.m.jobs[j.d.id])
	is, err2 := reportOf(j.job.found)
	if is.Pause != was.Pause || is.Reset != was.Reset {
		return fmt.Errorf("its job was paused by %v and is by %v, was to start over by %d and is by %d",
			was.Pause, is.Pause, was.Reset, is.Reset)
	}
	return cmp.Or(err, err2)
}

// judgeTold judges a document that a node writes: it tells the end of its job, and nothing else of it changes.
func (c *Commit) judgeTold(job *change, d *documentChange, was, found content) error {
	if job == nil || job.path == nil || job.path.last() != finishes || d.found == (document{}) {
		return fmt.Errorf("its job does not end")
	}
	r, err := reportOf(job.found)
	if err != nil {
		return err
	}
	want := map[string]any{"_replication_state": job.found.record.state, "_replication_state_time": iso(c.Wall)}
	if job.found.record.state == stateFailed {
		want["_replication_state_reason"] = r.Reason
	} else {
		want["_replication_stats"] = r.numbers(job.found.record.Created)
	}
	if is := found.marks(); !reflect.DeepEqual(is, want) {
		return fmt.Errorf("it tells %v instead of %v", is, want)
	}
	if !reflect.DeepEqual([]member(was.ofUsers()), []member(found.ofUsers())) {
		return fmt.Errorf("it loses what users wrote")
	}
	return nil
}

func iso(at instant.Time) string { return time.UnixMicro(int64(at)).UTC().Format(time.RFC3339) }

// report is what else the record of a job says, for its document.
type report struct {
	Reason           string         `json:"reason"`
	Stats            map[string]any `json:"stats"`
	PausedByDocument bool           `json:"paused_by_document"`
	Pause            order          `json:"pause"`
	Reset            int64          `json:"reset"`
	Unknown          []string       `json:"unknown_fields"`
	Refused          struct {
		Listed int64 `json:"listed"`
		Beyond int64 `json:"beyond"`
	} `json:"refused"`
}

// order is one of an operator, with when it was given.
type order struct {
	By string `json:"by"`
	At int64  `json:"at"`
}

func reportOf(j job) (r report, err error) {
	d := json.NewDecoder(strings.NewReader(j.data))
	d.UseNumber()
	return r, d.Decode(&r)
}

// numbers are those that a completed document tells: the statistics without sequences that change all the time and what
// only later runs are told, when the job was made, and how many revisions the target refused.
func (r *report) numbers(created int64) map[string]any {
	all := maps.Clone(r.Stats)
	delete(all, "source_seq")
	delete(all, "through_seq")
	delete(all, "list_saved")
	all["start_time"] = iso(instant.Time(created))
	if n := r.Refused.Listed + r.Refused.Beyond; n > 0 {
		all["refused"] = json.Number(fmt.Sprint(n))
	}
	return all
}
