package workload

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/schedule"
)

// SWF is the Standard Workload Format, version 2.2 (https://www.cs.huji.ac.il/labs/parallel/workload/swf.html):
// a line of 18 numbers for each job, -1 for those that are not known, and comments with a header behind ;.
// Of a job it says when it came, how long it ran and whose it was. It knows no continuous jobs, and allows no
// extensions, so that the rest of a workload is in a CSV file beside it, the sidecar.
//
// Without a sidecar the jobs of an SWF file are read as follows.
//
//   - A job is a one-shot that copies one change a second for its run time (field 4), or else for its requested
//     time (9). One without a run time that was cancelled (status 5) never ran, whatever it had requested, and is
//     left out; another one with neither time is an error. Lines with status 2, 3 or 4 are parts of a job that has
//     a line of its own, and are left out.
//   - Its account is user:N for user N (field 12), and user: if that is -1. All accounts have the same shares.
//   - A job takes one slot, whatever its processors; it does not wait for a job that goes before it (17).
//   - Job numbers begin with 1 and have no gaps, jobs are in the order of their submit times (2), and there are
//     as many as MaxJobs, and as many lines as MaxRecords, if the header has them. With gaps allowed numbers
//     need only grow, and MaxJobs and MaxRecords are not looked at.
const swfFields = 18

// Places of fields of SWF, from 0.
const (
	swfNumber    = 0
	swfSubmit    = 1
	swfRun       = 3
	swfRequested = 8
	swfStatus    = 10
	swfUser      = 11
)

var swfNames = [swfFields]string{
	"job number", "submit time", "wait time", "run time", "number of allocated processors", "average CPU time",
	"used memory", "requested number of processors", "requested time", "requested memory", "status", "user id",
	"group id", "executable number", "queue number", "partition number", "preceding job number", "think time",
}

// WriteSWF writes a workload that is right (see Check): its jobs, and into the sidecar all that SWF does not
// know. Neither has a place for changes of shares and outages; a workload with such is an error.
func (w *Workload) WriteSWF(out, sidecar io.Writer) error {
	if len(w.Changes) > 0 || len(w.Outages) > 0 {
		return fmt.Errorf("SWF has no place for changes of shares (%d) and outages (%d); write JSON lines",
			len(w.Changes), len(w.Outages))
	}
	buffer := bufio.NewWriterSize(out, 1<<16)
	n := len(w.Jobs)
	fmt.Fprintf(buffer, "; Version: 2.2\n; Computer: couchrelay\n; Conversion: couchsim workload\n; MaxJobs: %d\n"+
		"; MaxRecords: %d\n; Note: run times are those without waiting; -1 is a job that runs until it is removed\n",
		n, n)
	for i := range w.Jobs {
		j := &w.Jobs[i]
		fmt.Fprintf(buffer, "%d %d -1 %d 1 -1 -1 1 -1 -1 -1 %d -1 -1 -1 -1 -1 -1\n", i+1, j.Submit/time.Second,
			j.runTime(), j.Account+1)
	}
	if err := buffer.Flush(); err != nil {
		return err
	}
	return w.writeSidecar(sidecar)
}

// runTime is how many seconds a job runs if it never waits, -1 if it has no end.
func (j *Job) runTime() int64 {
	stays := int64(-1)
	if j.Remove > 0 {
		stays = int64((j.Remove - j.Submit) / time.Second)
	}
	if j.Continuous {
		return stays
	}
	run := int64(math.Ceil(min(j.Startup.Seconds()+j.Backlog/j.Speed, maxTime.Seconds())))
	if stays >= 0 {
		run = min(run, stays)
	}
	return run
}

// ReadSWF reads an SWF file. Errors name the line.
func ReadSWF(in io.Reader, gaps bool) (*Workload, error) {
	r := swfReader{gaps: gaps, accounts: map[string]int{}, counts: map[string]int{}}
	err := eachLine(in, func(_ int, line []byte) error { return r.line(string(line)) })
	if err == nil && !gaps {
		err = r.complete()
	}
	if err != nil {
		return nil, err
	}
	return r.w.checked()
}

type swfReader struct {
	w        Workload
	gaps     bool
	accounts map[string]int
	counts   map[string]int // of the header
	records  int
	jobs     int // those left out too
	number   int64
}

func (r *swfReader) line(text string) error {
	text = strings.TrimSpace(text)
	if comment, is := strings.CutPrefix(text, ";"); is {
		return r.comment(comment)
	}
	fields, err := swfSplit(text)
	if err != nil || len(fields) == 0 {
		return err
	}
	return r.job(fields)
}

// swfSplit returns the fields of a line, which are numbers; none of an empty line.
func swfSplit(text string) ([]string, error) {
	fields := strings.Fields(text)
	if n := len(fields); n != 0 && n != swfFields {
		return nil, fmt.Errorf("has %d fields, and SWF has %d; a field that is not known is -1", n, swfFields)
	}
	for i, f := range fields {
		if x, err := strconv.ParseFloat(f, 64); err != nil || !(x >= 0 || x == -1) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("field %d (%s) is %q, and must be a number from 0, or -1", i+1, swfNames[i], f)
		}
	}
	return fields, nil
}

// comment takes counts from the header.
func (r *swfReader) comment(text string) error {
	name, value, _ := strings.Cut(text, ":")
	if name = strings.TrimSpace(name); name != "MaxJobs" && name != "MaxRecords" {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 0 {
		return fmt.Errorf("%s is %q, and must be a whole number", name, strings.TrimSpace(value))
	}
	r.counts[name] = n
	return nil
}

func (r *swfReader) job(fields []string) error {
	r.records++
	number, err := strconv.ParseInt(fields[swfNumber], 10, 64)
	if err != nil || number < 1 {
		return fmt.Errorf("the job number is %s, and must be a whole number from 1", fields[swfNumber])
	}
	status := fields[swfStatus]
	if part := status == "2" || status == "3" || status == "4"; part {
		return nil
	}
	switch {
	case number <= r.number:
		return fmt.Errorf("job number %d comes after %d; numbers must grow", number, r.number)
	case number > r.number+1 && !r.gaps:
		return fmt.Errorf("job number %d comes after %d, and jobs between them are missing; "+
			"set gaps = true if the log was cleaned", number, r.number)
	}
	r.number = number
	r.jobs++
	submit, err := parseSeconds(fields[swfSubmit])
	if err != nil {
		return fmt.Errorf("job number %d: the submit time: %w", number, err)
	}
	if n := len(r.w.Jobs); n > 0 && time.Duration(submit) < r.w.Jobs[n-1].Submit {
		return fmt.Errorf("job number %d: is submitted at %s s, before the job ahead of it (%s s); "+
			"SWF is in the order of submit times", number, submit, seconds(r.w.Jobs[n-1].Submit))
	}
	run := fields[swfRun]
	if run == "-1" && status == "5" {
		return nil
	}
	if run == "-1" {
		run = fields[swfRequested]
	}
	took, err := parseSeconds(run)
	if err != nil {
		return fmt.Errorf("job number %d: has neither a run time nor a requested time "+
			"(continuous jobs need the sidecar, FILE.csv): %w", number, err)
	}
	r.w.Jobs = append(r.w.Jobs, Job{
		ID: strconv.FormatInt(number, 10), Account: r.account(fields[swfUser]), Submit: time.Duration(submit),
		Backlog: time.Duration(took).Seconds(), Speed: 1,
	})
	return nil
}

func (r *swfReader) account(user string) int {
	name := "user:" + user
	if user == "-1" {
		name = "user:"
	}
	i, known := r.accounts[name]
	if !known {
		i = len(r.w.Accounts)
		r.accounts[name] = i
		r.w.Accounts = append(r.w.Accounts, Account{Name: name, Shares: schedule.DefaultShares})
	}
	return i
}

// complete compares what was read with the counts of the header.
func (r *swfReader) complete() error {
	for _, c := range []struct {
		name string
		n    int
	}{{"MaxJobs", r.jobs}, {"MaxRecords", r.records}} {
		if want, told := r.counts[c.name]; told && want != c.n {
			return fmt.Errorf("the header has %s: %d, and there are %d: the file is cut, or was edited; "+
				"set gaps = true to read it all the same", c.name, want, c.n)
		}
	}
	return nil
}
