package workload

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

// A trace is text: a JSON object on each line. The first is
//
//	{"format":"couchrelay-workload","version":1}
//
// and each of the others is one of
//
//	{"account":{"name":"a/_replicator","shares":100}}
//	{"at":0,"job":{"id":"a-1","account":"a/_replicator","continuous":true,"speed":50,"rate":0.1}}
//	{"at":60.5,"remove":"a-1"}
//	{"at":90,"change":{"account":"a/_replicator","shares":50}}
//	{"at":120,"outage":{"server":0,"for":600}}
//
// All times are seconds. An account stands ahead of what names it, and a job ahead of its removal; jobs and
// changes are in the order of their times. Fields that are left out are 0, false or empty.
const (
	traceFormat  = "couchrelay-workload"
	traceVersion = 1
)

type traceHeader struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// traceLine is a line behind the header. One of its fields but At is set.
type traceLine struct {
	At      seconds       `json:"at,omitzero"`
	Account *traceAccount `json:"account,omitzero"`
	Job     *traceJob     `json:"job,omitzero"`
	Remove  *string       `json:"remove,omitzero"`
	Change  *traceChange  `json:"change,omitzero"`
	Outage  *traceOutage  `json:"outage,omitzero"`
}

type traceAccount struct {
	Name   string `json:"name"`
	Shares int64  `json:"shares"`
}

type traceChange struct {
	Account string `json:"account"`
	Shares  int64  `json:"shares"`
}

type traceJob struct {
	ID         string  `json:"id"`
	Account    string  `json:"account"`
	Server     int     `json:"server,omitzero"`
	Continuous bool    `json:"continuous,omitzero"`
	Startup    seconds `json:"startup,omitzero"`
	Backlog    float64 `json:"backlog,omitzero"`
	Speed      float64 `json:"speed"`
	Rate       float64 `json:"rate,omitzero"`
	Every      seconds `json:"every,omitzero"`
	Burst      seconds `json:"burst,omitzero"`
	Phase      seconds `json:"phase,omitzero"`
	MTBF       seconds `json:"mtbf,omitzero"`
	Weight     int64   `json:"weight,omitzero"`
}

type traceOutage struct {
	Server int     `json:"server"`
	For    seconds `json:"for"`
}

// WriteTrace writes a workload that is right (see Check) as JSON lines.
func (w *Workload) WriteTrace(out io.Writer) error {
	buffer := bufio.NewWriterSize(out, 1<<16)
	put := func(v any) error {
		line, err := json.Marshal(v)
		if err == nil {
			_, err = buffer.Write(append(line, '\n'))
		}
		return err
	}
	if err := put(traceHeader{traceFormat, traceVersion}); err != nil {
		return err
	}
	for _, a := range w.Accounts {
		if err := put(traceLine{Account: &traceAccount{a.Name, a.Shares}}); err != nil {
			return err
		}
	}
	for _, e := range w.events() {
		if err := put(w.line(e)); err != nil {
			return err
		}
	}
	return buffer.Flush()
}

// event is a line of a trace that has a time: entry i of a list of the workload.
type event struct {
	at   time.Duration
	kind kind
	i    int
}

type kind uint8

const (
	jobEvent kind = iota
	removeEvent
	changeEvent
	outageEvent
)

// events returns all events in the order of their times, those of a kind in the order of their list.
func (w *Workload) events() []event {
	events := make([]event, 0, len(w.Jobs)+len(w.Changes)+len(w.Outages))
	for i := range w.Jobs {
		events = append(events, event{w.Jobs[i].Submit, jobEvent, i})
		if w.Jobs[i].Remove != 0 {
			events = append(events, event{w.Jobs[i].Remove, removeEvent, i})
		}
	}
	for i, c := range w.Changes {
		events = append(events, event{c.At, changeEvent, i})
	}
	last := time.Duration(0)
	for i, o := range w.Outages {
		last = max(last, o.From) // outages may be in any order, and keep it
		events = append(events, event{last, outageEvent, i})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return events
}

func (w *Workload) line(e event) traceLine {
	l := traceLine{At: seconds(e.at)}
	switch e.kind {
	case jobEvent:
		j := &w.Jobs[e.i]
		l.Job = &traceJob{
			ID: j.ID, Account: w.Accounts[j.Account].Name, Server: j.Server, Continuous: j.Continuous,
			Startup: seconds(j.Startup), Backlog: j.Backlog, Speed: j.Speed, Rate: j.Rate,
			Every: seconds(j.Every), Burst: seconds(j.Burst), Phase: seconds(j.Phase), MTBF: seconds(j.MTBF),
			Weight: j.Weight,
		}
	case removeEvent:
		l.Remove = &w.Jobs[e.i].ID
	case changeEvent:
		c := w.Changes[e.i]
		l.Change = &traceChange{w.Accounts[c.Account].Name, c.Shares}
	case outageEvent:
		o := w.Outages[e.i]
		l.At, l.Outage = seconds(o.From), &traceOutage{o.Server, seconds(o.To - o.From)}
	}
	return l
}

// ReadTrace reads what WriteTrace writes. Errors name the line.
func ReadTrace(in io.Reader) (*Workload, error) {
	r := traceReader{accounts: map[string]int{}, jobs: map[string]int{}}
	err := eachLine(in, func(n int, line []byte) error {
		if n == 1 {
			return checkHeader(line)
		}
		return r.line(line)
	})
	if err != nil {
		return nil, err
	}
	return r.w.checked()
}

// maxLine bounds a line of a file, in bytes.
const maxLine = 1 << 20

// eachLine calls fn with each line and its number, from 1. Errors name the line.
func eachLine(in io.Reader, fn func(n int, line []byte) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	n := 0
	for lines.Scan() {
		n++
		if err := fn(n, lines.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: is longer than %d bytes", n+1, maxLine)
	case err != nil:
		return fmt.Errorf("line %d: %w", n+1, err)
	case n == 0:
		return errors.New("line 1: the file is empty")
	}
	return nil
}

func checkHeader(line []byte) error {
	var h traceHeader
	if err := json.Unmarshal(line, &h); err != nil || h.Format != traceFormat {
		return fmt.Errorf(`is not the header of a workload, which is {"format":%q,"version":%d}`,
			traceFormat, traceVersion)
	}
	if h.Version != traceVersion {
		return fmt.Errorf("the version is %d; this program reads version %d", h.Version, traceVersion)
	}
	return nil
}

// traceReader makes a workload of lines.
type traceReader struct {
	w              Workload
	accounts, jobs map[string]int // places by name and id
}

func (r *traceReader) line(text []byte) error {
	var l traceLine
	if err := json.Unmarshal(text, &l, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	set := 0
	for _, is := range []bool{l.Account != nil, l.Job != nil, l.Remove != nil, l.Change != nil, l.Outage != nil} {
		if is {
			set++
		}
	}
	switch at := time.Duration(l.At); {
	case set != 1:
		return errors.New("must have one of account, job, remove, change and outage")
	case l.Account != nil:
		return r.account(at, *l.Account)
	case l.Job != nil:
		return r.job(at, l.Job)
	case l.Remove != nil:
		return r.remove(at, *l.Remove)
	case l.Change != nil:
		return r.change(at, *l.Change)
	default:
		return r.outage(at, *l.Outage)
	}
}

func (r *traceReader) account(at time.Duration, a traceAccount) error {
	made := Account(a)
	if err := made.check(); err != nil {
		return fmt.Errorf("account %q: %w", a.Name, err)
	}
	if at != 0 {
		return fmt.Errorf("account %q: has no time; its shares are changed by change", a.Name)
	}
	if _, twice := r.accounts[a.Name]; twice {
		return fmt.Errorf("account %q: is there twice", a.Name)
	}
	r.accounts[a.Name] = len(r.w.Accounts)
	r.w.Accounts = append(r.w.Accounts, made)
	return nil
}

// owner returns the place of an account.
func (r *traceReader) owner(name string) (int, error) {
	i, is := r.accounts[name]
	if !is {
		return 0, fmt.Errorf("account %q: has no line of its own before", name)
	}
	return i, nil
}

func (r *traceReader) job(at time.Duration, t *traceJob) error {
	account, err := r.owner(t.Account)
	if err != nil {
		return fmt.Errorf("job %q: %w", t.ID, err)
	}
	j := Job{
		ID: t.ID, Account: account, Server: t.Server, Submit: at, Continuous: t.Continuous,
		Startup: time.Duration(t.Startup), Backlog: t.Backlog, Speed: t.Speed, Rate: t.Rate,
		Every: time.Duration(t.Every), Burst: time.Duration(t.Burst), Phase: time.Duration(t.Phase),
		MTBF: time.Duration(t.MTBF), Weight: t.Weight,
	}
	if err := j.check(len(r.w.Accounts)); err != nil {
		return fmt.Errorf("job %q: %w", t.ID, err)
	}
	if _, twice := r.jobs[t.ID]; twice {
		return fmt.Errorf("job %q: is there twice", t.ID)
	}
	if n := len(r.w.Jobs); n > 0 && at < r.w.Jobs[n-1].Submit {
		return fmt.Errorf("job %q: comes at %s, before the one ahead of it (%s)", t.ID, at, r.w.Jobs[n-1].Submit)
	}
	if len(r.w.Jobs) == MaxJobs {
		return fmt.Errorf("job %q: %d jobs are accepted at most", t.ID, MaxJobs)
	}
	r.jobs[t.ID] = len(r.w.Jobs)
	r.w.Jobs = append(r.w.Jobs, j)
	return nil
}

func (r *traceReader) remove(at time.Duration, id string) error {
	i, is := r.jobs[id]
	switch {
	case !is:
		return fmt.Errorf("remove %q: there is no such job before", id)
	case r.w.Jobs[i].Remove != 0:
		return fmt.Errorf("remove %q: it is removed already", id)
	case at <= r.w.Jobs[i].Submit:
		return fmt.Errorf("remove %q: at %s; it is submitted only at %s", id, at, r.w.Jobs[i].Submit)
	}
	r.w.Jobs[i].Remove = at
	return nil
}

func (r *traceReader) change(at time.Duration, t traceChange) error {
	account, err := r.owner(t.Account)
	if err != nil {
		return fmt.Errorf("change: %w", err)
	}
	c := Change{At: at, Account: account, Shares: t.Shares}
	if err := c.check(len(r.w.Accounts)); err != nil {
		return fmt.Errorf("change of %q: %w", t.Account, err)
	}
	if n := len(r.w.Changes); n > 0 && at < r.w.Changes[n-1].At {
		return fmt.Errorf("change of %q: comes at %s, before the one ahead of it (%s)", t.Account, at,
			r.w.Changes[n-1].At)
	}
	r.w.Changes = append(r.w.Changes, c)
	return nil
}

func (r *traceReader) outage(at time.Duration, t traceOutage) error {
	o := Outage{Server: t.Server, From: at, To: at + time.Duration(t.For)}
	if err := o.check(); err != nil {
		return fmt.Errorf("outage: %w", err)
	}
	r.w.Outages = append(r.w.Outages, o)
	return nil
}
