package workload

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// workloads draws any workload that is right.
func workloads(t *rapid.T, changes bool) *Workload {
	w := &Workload{}
	span := func(name string, least, most time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, name))
	}
	amount := func(name string, least float64) float64 { return rapid.Float64Range(least, 1e12).Draw(t, name) }
	text := rapid.StringMatching(`[a-z"\\<é☃, ]{1,6}`)
	for i := range rapid.IntRange(1, 4).Draw(t, "accounts") {
		name := fmt.Sprintf("%s%d/_replicator", text.Draw(t, "name"), i)
		if rapid.Bool().Draw(t, "user") {
			name = fmt.Sprintf("user:%s%d", text.Draw(t, "name"), i)
		}
		w.Accounts = append(w.Accounts, Account{name, rapid.Int64Range(1, 1000).Draw(t, "shares")})
	}
	owner := func() int { return rapid.IntRange(0, len(w.Accounts)-1).Draw(t, "account") }
	for i := range rapid.IntRange(0, 6).Draw(t, "jobs") {
		j := Job{
			ID: fmt.Sprintf("%s%d", text.Draw(t, "id"), i), Account: owner(),
			Server: rapid.IntRange(0, 5).Draw(t, "server"), Weight: rapid.Int64Range(0, 1000).Draw(t, "weight"),
			Submit: span("submit", 0, time.Hour), Continuous: rapid.Bool().Draw(t, "continuous"),
			Startup: span("startup", 0, time.Minute), Backlog: amount("backlog", 0), Speed: amount("speed", 1e-9),
			Rate: amount("rate", 0), MTBF: span("mtbf", 0, time.Hour),
		}
		if rapid.Bool().Draw(t, "removed") {
			j.Remove = j.Submit + span("stays", 1, time.Hour)
		}
		if rapid.Bool().Draw(t, "bursty") {
			j.Every = span("every", 1, time.Hour)
			j.Burst, j.Phase = span("burst", 1, j.Every), span("phase", 0, j.Every-1)
		}
		w.Jobs = append(w.Jobs, j)
	}
	slices.SortStableFunc(w.Jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	if !changes {
		return w
	}
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		w.Changes = append(w.Changes,
			Change{span("at", 0, time.Hour), owner(), rapid.Int64Range(1, 1000).Draw(t, "to")})
	}
	slices.SortStableFunc(w.Changes, func(a, b Change) int { return cmp.Compare(a.At, b.At) })
	for range rapid.IntRange(0, 3).Draw(t, "outages") {
		from := span("from", 0, time.Hour)
		w.Outages = append(w.Outages,
			Outage{rapid.IntRange(0, 5).Draw(t, "server"), from, from + span("for", 1, time.Hour)})
	}
	return w
}

// TestTraceKeepsAll: a workload that is written as JSON lines and read is the same.
func TestTraceKeepsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := workloads(t, true)
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := w.WriteTrace(&out); err != nil {
			t.Fatal(err)
		}
		again, err := ReadTrace(bytes.NewReader(out.Bytes()))
		if err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("%v\n%s\n%+v\n%+v", err, out.Bytes(), w, again)
		}
	})
}

// TestSidecarKeepsAll: a workload that is written as SWF with its sidecar and read is the same.
func TestSidecarKeepsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := workloads(t, false)
		var out, sidecar bytes.Buffer
		if err := w.WriteSWF(&out, &sidecar); err != nil {
			t.Fatal(err)
		}
		again, err := ReadSidecar(bytes.NewReader(out.Bytes()), bytes.NewReader(sidecar.Bytes()))
		if err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("%v\n%s\n%s\n%+v\n%+v", err, out.Bytes(), sidecar.Bytes(), w, again)
		}
	})
}

const header = `{"format":"couchrelay-workload","version":1}` + "\n"

// TestTraceText: the format is what its description says.
func TestTraceText(t *testing.T) {
	const text = header + `{"account":{"name":"a/_replicator","shares":100}}
{"job":{"id":"a-1","account":"a/_replicator","continuous":true,"speed":50,"rate":0.1}}
{"at":60.5,"remove":"a-1"}
{"at":90,"change":{"account":"a/_replicator","shares":50}}
{"at":120,"outage":{"server":3,"for":600}}
`
	w, err := ReadTrace(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := &Workload{
		Accounts: []Account{{"a/_replicator", 100}},
		Jobs:     []Job{{ID: "a-1", Remove: 60500 * time.Millisecond, Continuous: true, Speed: 50, Rate: 0.1}},
		Changes:  []Change{{90 * time.Second, 0, 50}},
		Outages:  []Outage{{3, 2 * time.Minute, 12 * time.Minute}},
	}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("%+v", w)
	}
	var out bytes.Buffer
	if err := w.WriteTrace(&out); err != nil || out.String() != text {
		t.Errorf("%v %s", err, out.Bytes())
	}
}

// TestTraceErrors: what cannot be read is an error that names the line.
func TestTraceErrors(t *testing.T) {
	const account = `{"account":{"name":"_replicator","shares":100}}` + "\n"
	const job = `{"at":5,"job":{"id":"x","account":"_replicator","speed":1}}` + "\n"
	for _, c := range []struct{ text, want string }{
		{"", "line 1: the file is empty"},
		{"{}", "line 1: is not the header of a workload"},
		{account, "line 1: is not the header of a workload"},
		{"; Version: 2.2\n", "line 1: is not the header of a workload"},
		{`{"format":"couchrelay-workload","version":2}`, "line 1: the version is 2; this program reads version 1"},
		{header + account + account, `line 3: account "_replicator": is there twice`},
		{header + `{"account":{"name":"a","shares":1}}`,
			`line 2: account "a": the name must be that of a replicator`},
		{header + `{"account":{"name":"_replicator","shares":0}}`,
			`line 2: account "_replicator": shares are 0, and must be`},
		{header + `{"at":1,"account":{"name":"_replicator","shares":1}}`,
			`line 2: account "_replicator": has no time`},
		{header + `{"acount":{}}`, "line 2: json: "},
		{header + `{}`, "line 2: must have one of account, job, remove, change and outage"},
		{header + account + `{"remove":"x","outage":{"server":1,"for":1}}`, "line 3: must have one of"},
		{header + "nonsense", "line 2: "},
		{header + "\n" + account, "line 2: "},
		{header + job, `line 2: job "x": account "_replicator": has no line of its own before`},
		{header + account + job + job, `line 4: job "x": is there twice`},
		{header + account + job + `{"at":4,"job":{"id":"y","account":"_replicator","speed":1}}`,
			`line 4: job "y": comes at 4s, before`},
		{header + account + `{"job":{"id":"y","account":"_replicator"}}`,
			`line 3: job "y": speed is 0, and must be above 0`},
		{header + account + `{"job":{"id":"y","account":"_replicator","speed":1,"colour":3}}`, `line 3: json: `},
		{header + account + `{"job":{"id":"y","account":"_replicator","speed":1,"speed":2}}`,
			`line 3: jsontext: duplicate`},
		{header + account + `{"at":-1,"job":{"id":"y","account":"_replicator","speed":1}}`, `line 3: `},
		{header + account + `{"at":1e30,"job":{"id":"y","account":"_replicator","speed":1}}`, `line 3: `},
		{header + account + job + `{"at":9,"remove":"y"}`, `line 4: remove "y": there is no such job before`},
		{header + account + job + `{"at":5,"remove":"x"}`, `line 4: remove "x": at 5s; it is submitted only at 5s`},
		{header + account + job + `{"at":6,"remove":"x"}` + "\n" + `{"at":7,"remove":"x"}`,
			`line 5: remove "x": it is removed already`},
		{header + `{"change":{"account":"_replicator","shares":1}}`,
			`line 2: change: account "_replicator": has no line`},
		{header + account + `{"change":{"account":"_replicator","shares":1001}}`,
			`line 3: change of "_replicator": shares are 1001`},
		{header + account + `{"at":2,"change":{"account":"_replicator","shares":1}}` + "\n" +
			`{"at":1,"change":{"account":"_replicator","shares":1}}`,
			`line 4: change of "_replicator": comes at 1s, before`},
		{header + `{"outage":{"server":-1,"for":1}}`, `line 2: outage: server is -1, and must be from 0`},
		{header + `{"outage":{"server":1,"for":0}}`, `line 2: outage: to is 0s, and must be after from`},
		{header + strings.Repeat("x", maxLine), "line 2: is longer than 1048576 bytes"},
	} {
		w, err := ReadTrace(strings.NewReader(c.text))
		if w != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.300s: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestSeconds: times are exact, and what is no time is an error.
func TestSeconds(t *testing.T) {
	for text, want := range map[string]seconds{
		"0": 0, "1": 1e9, "1.5": 1.5e9, "0.000000001": 1, "3600.000001": 3600e9 + 1000, "1e3": 1000e9, "1.0": 1e9,
		"2.5E-1": 25e7, "1.0000000009": 1e9, "315360000": seconds(maxTime),
	} {
		got, err := parseSeconds(text)
		if err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.-5", "x", "1e99", "NaN", "9999999999", "1.5.5", "-0.5", "0x10",
		`"1"`, "null"} {
		if got, err := parseSeconds(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// swfLine is a job of SWF: number, submit, run, requested time, status, user.
func swfLine(number, submit, run, requested, status, user any) string {
	return fmt.Sprintf("%v %v 3 %v 4 -1 -1 4 %v -1 %v %v 7 -1 1 1 -1 -1\n", number, submit, run, requested, status,
		user)
}

// TestSWF: jobs of SWF are one-shots that run as long as there, of the accounts of their users.
func TestSWF(t *testing.T) {
	text := "; Version: 2.2\n;MaxJobs: 5\n; MaxRecords: 7\n\n" + swfLine(1, 0, 100, 300, 1, 12) +
		"  " + swfLine(2, 5, -1, 60, 0, -1) + swfLine(2, 5, 3, -1, 2, -1) + swfLine(2, 9, 4, -1, 4, -1) +
		swfLine(3, 7, -1, -1, 5, 3) + swfLine(4, 7, 0, -1, -1, 12) + swfLine(5, 8, -1, 3600, 5, 12)
	w, err := ReadSWF(strings.NewReader(text), false)
	if err != nil {
		t.Fatal(err)
	}
	want := &Workload{
		Accounts: []Account{{"user:12", 100}, {"user:", 100}},
		Jobs: []Job{
			{ID: "1", Backlog: 100, Speed: 1}, {ID: "2", Account: 1, Submit: 5 * time.Second, Backlog: 60, Speed: 1},
			{ID: "4", Submit: 7 * time.Second, Speed: 1},
		},
	}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("%+v", w)
	}
}

// TestSWFErrors: an SWF file with gaps or mistakes is an error that names the line.
func TestSWFErrors(t *testing.T) {
	job := swfLine(1, 5, 100, -1, 1, 1)
	for _, c := range []struct {
		gaps       bool
		text, want string
	}{
		{false, "", "line 1: the file is empty"},
		{false, "1 2 3\n", "line 1: has 3 fields, and SWF has 18; a field that is not known is -1"},
		{false, job + strings.Replace(job, " 7 ", " ", 1), "line 2: has 17 fields"},
		{false, swfLine("x", 5, 1, -1, 1, 1),
			`line 1: field 1 (job number) is "x", and must be a number from 0, or -1`},
		{false, swfLine(1, 5, -2, -1, 1, 1), `line 1: field 4 (run time) is "-2"`},
		{false, swfLine(1, 5, "NaN", -1, 1, 1), `line 1: field 4 (run time) is "NaN"`},
		{false, swfLine(1, 5, "1e999", -1, 1, 1), `line 1: field 4 (run time) is "1e999"`},
		{false, swfLine(-1, 5, 1, -1, 1, 1), `line 1: the job number is -1, and must be a whole number from 1`},
		{false, swfLine(2, 5, 1, -1, 1, 1),
			"line 1: job number 2 comes after 0, and jobs between them are missing; set gaps = true"},
		{false, job + swfLine(3, 5, 1, -1, 1, 1),
			"line 2: job number 3 comes after 1, and jobs between them are missing"},
		{true, job + job, "line 2: job number 1 comes after 1; numbers must grow"},
		{false, swfLine(1, -1, 1, -1, 1, 1), "line 1: job number 1: the submit time: -1 is no time"},
		{false, job + swfLine(2, 4, 1, -1, 1, 1),
			"line 2: job number 2: is submitted at 4 s, before the job ahead of it (5 s)"},
		{false, swfLine(1, 5, -1, -1, 1, 1), "line 1: job number 1: has neither a run time nor a requested time"},
		{false, "; MaxJobs: 2\n" + job, "the header has MaxJobs: 2, and there are 1: the file is cut"},
		{false, "; MaxRecords: 2\n" + job, "the header has MaxRecords: 2, and there are 1: the file is cut"},
		{false, "; MaxJobs: many\n" + job, `line 1: MaxJobs is "many", and must be a whole number`},
		{true, swfLine(1, "1e12", 1, -1, 1, 1), "line 1: job number 1: the submit time: 1e12 is no time"},
	} {
		w, err := ReadSWF(strings.NewReader(c.text), c.gaps)
		if w != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
	text := "; MaxJobs: 9\n" + job + swfLine(7, 5, 1, -1, 1, 1)
	if w, err := ReadSWF(strings.NewReader(text), true); err != nil || len(w.Jobs) != 2 || w.Jobs[1].ID != "7" {
		t.Errorf("a log with gaps that are allowed: %+v, %v", w, err)
	}
}

// TestSWFText: what is written is SWF: 18 whole numbers of the values that the format gives them.
func TestSWFText(t *testing.T) {
	w := &Workload{
		Accounts: []Account{{"a/_replicator", 5}, {"user:", 100}},
		Jobs: []Job{
			{ID: "x", Account: 1, Submit: 1500 * time.Millisecond, Startup: 2 * time.Second, Backlog: 25, Speed: 10},
			{ID: "y", Submit: 2 * time.Second, Continuous: true, Speed: 1},
			{ID: "z", Submit: 2 * time.Second, Continuous: true, Speed: 1, Remove: 9 * time.Second},
		},
	}
	var out, sidecar bytes.Buffer
	if err := w.WriteSWF(&out, &sidecar); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, ";") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	want := []string{
		"1 1 -1 5 1 -1 -1 1 -1 -1 -1 2 -1 -1 -1 -1 -1 -1",
		"2 2 -1 -1 1 -1 -1 1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1",
		"3 2 -1 7 1 -1 -1 1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1",
	}
	if !slices.Equal(lines, want) || !strings.Contains(out.String(), "; MaxJobs: 3\n") {
		t.Errorf("%s", out.Bytes())
	}
	w.Outages = []Outage{{0, 0, 1}}
	if err := w.WriteSWF(&out, &sidecar); err == nil || !strings.Contains(err.Error(),
		"outages (1); write JSON lines") {
		t.Errorf("outages: %v", err)
	}
}

// TestSidecarErrors: a sidecar that does not belong to its file, or has mistakes, is an error.
func TestSidecarErrors(t *testing.T) {
	w := &Workload{Accounts: []Account{{"_replicator", 5}},
		Jobs: []Job{{ID: "x", Submit: time.Second, Speed: 1}, {ID: "y", Submit: 2e9, Speed: 1}}}
	var out, sidecar bytes.Buffer
	if err := w.WriteSWF(&out, &sidecar); err != nil {
		t.Fatal(err)
	}
	swf, rows := out.String(), sidecar.String()
	for _, c := range []struct{ swf, rows, want string }{
		{swf, "", "sidecar: line 1: EOF"},
		{swf, "a,b\n", "sidecar: line 1: record on line 1: wrong number of fields"},
		{swf, strings.Replace(rows, "mtbf", "mtfb", 1), "sidecar: line 1: the columns must be job,id,account"},
		{swf, strings.Replace(rows, "\n2,", "\n3,", 1), `sidecar: line 4: job is "3", and must be 2, the next`},
		{swf, strings.Replace(rows, "false", "no", 1),
			`sidecar: line 3: continuous is "no", and must be true or false`},
		{swf, strings.Replace(rows, ",5,0,1,", ",5,0,-1,", 1),
			`sidecar: line 3: submit is "-1", and must be a number of seconds`},
		{swf, strings.Replace(rows, ",5,0,1,", ",x,0,1,", 1),
			`sidecar: line 3: shares is "x", and must be a whole number`},
		{swf, strings.Replace(rows, ",5,0,1,", ",6,0,1,", 1),
			"sidecar: line 3: shares are 6, and those of account _replicator are 5"},
		{swf, strings.Replace(rows, ",0,1,0,0,", ",0,y,0,0,", 1),
			`sidecar: line 3: speed is "y", and must be a number`},
		{strings.Replace(swf, "\n2 2 ", "\n2 3 ", 1), rows,
			"line 8: the submit time is 3, and in the sidecar 2; the SWF file"},
		{swf + "3" + swf[strings.LastIndex(swf, "\n2 ")+2:], rows,
			"line 9: job number is 3, where the sidecar has 2 jobs"},
		{swf[:strings.LastIndex(swf, "\n2 ")+1], rows, "there are 1 jobs, and 2 in the sidecar"},
	} {
		w, err := ReadSidecar(strings.NewReader(c.swf), strings.NewReader(c.rows))
		if w != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s\n%s\n%v, want %s", c.swf, c.rows, err, c.want)
		}
	}
}

// TestFiles: a recipe plays a file beside it, which was written before; the sidecar is found.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	w := build(t, 1, "jobs = 20", "arrival = poisson", "oneshot = 0.5")
	for _, name := range []string{"a.jsonl", "b.swf"} {
		if err := w.WriteFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		r := recipe(t, "file = "+name)
		r.Dir = dir
		if again, err := r.Build(9); err != nil || !reflect.DeepEqual(again, w) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 3 {
		t.Errorf("files: %v %v", files, err)
	}
	if err := os.Remove(filepath.Join(dir, "b.csv")); err != nil {
		t.Fatal(err)
	}
	if _,
		err := ReadFile(filepath.Join(dir, "b.swf"), false); err == nil || !strings.Contains(err.Error(),
		"continuous jobs need the sidecar") {
		t.Errorf("without its sidecar: %v", err)
	}
	if err := w.WriteFile(filepath.Join(dir, "c.txt")); err == nil || !strings.Contains(err.Error(),
		"must end in .jsonl or .swf") {
		t.Errorf("another extension: %v", err)
	}
	if _,
		err := ReadFile(filepath.Join(dir, "none.jsonl"), false); err == nil || !strings.Contains(err.Error(),
		"none.jsonl") {
		t.Errorf("no file: %v", err)
	}
	w.Jobs[3].Speed = 0
	if err := w.WriteFile(filepath.Join(dir, "a.jsonl")); err == nil || !strings.Contains(err.Error(), "speed is 0") {
		t.Errorf("a wrong workload: %v", err)
	}
}
