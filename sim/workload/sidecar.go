package workload

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sidecarHeader names the columns of a sidecar. The first rows have no job: they are the accounts, in order.
// The others have the jobs of the SWF file. All times are seconds.
var sidecarHeader = []string{
	"job", "id", "account", "shares", "server", "submit", "remove", "continuous", "startup", "backlog", "speed",
	"rate", "every", "burst", "phase", "mtbf", "weight",
}

func (w *Workload) writeSidecar(out io.Writer) error {
	c := csv.NewWriter(out)
	_ = c.Write(sidecarHeader) // an error stays until Flush
	for _, a := range w.Accounts {
		row := make([]string, len(sidecarHeader))
		row[2], row[3] = a.Name, strconv.FormatInt(a.Shares, 10)
		_ = c.Write(row)
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i := range w.Jobs {
		j := &w.Jobs[i]
		a := w.Accounts[j.Account]
		_ = c.Write([]string{
			strconv.Itoa(i + 1), j.ID, a.Name, strconv.FormatInt(a.Shares, 10), strconv.Itoa(j.Server),
			seconds(j.Submit).String(), seconds(j.Remove).String(), strconv.FormatBool(j.Continuous),
			seconds(j.Startup).String(), number(j.Backlog), number(j.Speed), number(j.Rate),
			seconds(j.Every).String(), seconds(j.Burst).String(), seconds(j.Phase).String(), seconds(j.MTBF).String(),
			strconv.FormatInt(j.Weight, 10),
		})
	}
	c.Flush()
	return c.Error()
}

// ReadSidecar reads the sidecar of an SWF file, which has all that WriteSWF was given, and compares it with
// the SWF file. Errors name the line of the one or the other.
func ReadSidecar(swf, sidecar io.Reader) (*Workload, error) {
	rows := csv.NewReader(sidecar)
	rows.FieldsPerRecord, rows.ReuseRecord = len(sidecarHeader), true
	r := traceReader{accounts: map[string]int{}, jobs: map[string]int{}}
	for n := 0; ; n++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) && n > 0 {
			break
		}
		if err == nil && n == 0 && !slices.Equal(row, sidecarHeader) {
			err = fmt.Errorf("the columns must be %s", strings.Join(sidecarHeader, ","))
		}
		if err == nil && n > 0 {
			err = r.row(row)
		}
		if err != nil {
			line := 1
			if n > 0 {
				line, _ = rows.FieldPos(0)
			}
			return nil, fmt.Errorf("sidecar: line %d: %w", line, err)
		}
	}
	if err := r.agrees(swf); err != nil {
		return nil, err
	}
	return r.w.checked()
}

// row adds the account or the job of a row of a sidecar.
func (r *traceReader) row(row []string) error {
	f := fieldReader{row: row}
	shares := f.integer("shares")
	if row[0] == "" {
		if f.err != nil {
			return f.err
		}
		return r.account(0, traceAccount{row[2], shares})
	}
	if want := strconv.Itoa(len(r.w.Jobs) + 1); row[0] != want {
		return fmt.Errorf("job is %q, and must be %s, the next", row[0], want)
	}
	submit, remove := f.time("submit"), f.time("remove")
	j := traceJob{
		ID: row[1], Account: row[2], Server: int(f.integer("server")), Continuous: f.text("continuous") == "true",
		Startup: f.time("startup"), Backlog: f.float("backlog"), Speed: f.float("speed"), Rate: f.float("rate"),
		Every: f.time("every"), Burst: f.time("burst"), Phase: f.time("phase"), MTBF: f.time("mtbf"),
		Weight: f.integer("weight"),
	}
	if c := f.text("continuous"); c != "true" && c != "false" {
		f.fail("continuous", "true or false")
	}
	if f.err != nil {
		return f.err
	}
	if err := r.job(time.Duration(submit), &j); err != nil {
		return err
	}
	if i := r.w.Jobs[len(r.w.Jobs)-1].Account; r.w.Accounts[i].Shares != shares {
		return fmt.Errorf("shares are %d, and those of account %s are %d", shares, row[2], r.w.Accounts[i].Shares)
	}
	if remove != 0 {
		return r.remove(time.Duration(remove), j.ID)
	}
	return nil
}

// fieldReader reads fields of a row, until one has an error.
type fieldReader struct {
	row []string
	err error
}

func (f *fieldReader) text(column string) string { return f.row[slices.Index(sidecarHeader, column)] }

func (f *fieldReader) fail(column, takes string) {
	if f.err == nil {
		f.err = fmt.Errorf("%s is %q, and must be %s", column, f.text(column), takes)
	}
}

func (f *fieldReader) integer(column string) int64 {
	n, err := strconv.ParseInt(f.text(column), 10, 32)
	if err != nil {
		f.fail(column, "a whole number")
	}
	return n
}

func (f *fieldReader) float(column string) float64 {
	x, err := strconv.ParseFloat(f.text(column), 64)
	if err != nil {
		f.fail(column, "a number")
	}
	return x
}

func (f *fieldReader) time(column string) seconds {
	s, err := parseSeconds(f.text(column))
	if err != nil {
		f.fail(column, "a number of seconds")
	}
	return s
}

// agrees returns an error unless an SWF file has the jobs that its sidecar has.
func (r *traceReader) agrees(swf io.Reader) error {
	const apart = "; the SWF file and its sidecar do not belong together: remove the sidecar, or write both anew"
	count := 0
	err := eachLine(swf, func(_ int, line []byte) error {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, ";") {
			return nil
		}
		fields, err := swfSplit(text)
		if err != nil || len(fields) == 0 {
			return err
		}
		count++
		if want := strconv.Itoa(count); count > len(r.w.Jobs) || fields[swfNumber] != want {
			return fmt.Errorf("job number is %s, where the sidecar has %d jobs from 1 on"+apart, fields[swfNumber],
				len(r.w.Jobs))
		}
		if want := strconv.FormatInt(int64(r.w.Jobs[count-1].Submit/time.Second), 10); fields[swfSubmit] != want {
			return fmt.Errorf("the submit time is %s, and in the sidecar %s"+apart, fields[swfSubmit], want)
		}
		return nil
	})
	if err == nil && count != len(r.w.Jobs) {
		err = fmt.Errorf("there are %d jobs, and %d in the sidecar"+apart, count, len(r.w.Jobs))
	}
	return err
}
