package fuzz

import (
	"bytes"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"couchrelay/sim/workload"
)

// aboutLine is how an error about a file of a workload begins.
var aboutLine = regexp.MustCompile(`^(line \d+: .|the header has Max)`)

// FuzzTrace reads any text as JSON lines. A workload that is read is right, and the same after writing and
// reading it; an error names the line.
func FuzzTrace(f *testing.F) {
	const header = `{"format":"couchrelay-workload","version":1}` + "\n"
	for _, seed := range []string{
		header + `{"account":{"name":"a/_replicator","shares":100}}
{"job":{"id":"a-1","account":"a/_replicator","continuous":true,"speed":5,"every":60,"burst":5,"phase":7.5}}
{"at":60.5,"remove":"a-1"}
{"at":90,"change":{"account":"a/_replicator","shares":50}}
{"at":120,"outage":{"server":3,"for":1e2}}
`,
		header + `{"account":{"name":"user:ann","shares":1}}
{"at":0.000000001,"job":{"id":"☃","account":"user:ann","speed":1e-9,"backlog":1e300,"mtbf":9}}`,
		header, "", "{}\n", strings.Replace(header, "1}", "2}", 1),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := workload.ReadTrace(bytes.NewReader(text))
		if err != nil {
			if !aboutLine.MatchString(err.Error()) {
				t.Fatalf("%q names no line", err)
			}
			return
		}
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		var written bytes.Buffer
		if err := w.WriteTrace(&written); err != nil {
			t.Fatal(err)
		}
		again, err := workload.ReadTrace(&written)
		if err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("%v\n%+v\n%+v", err, w, again)
		}
	})
}

// FuzzSWF reads any text as SWF. A workload that is read is right, has no more jobs than the text has lines, and
// is the same after writing it with its sidecar and reading that; an error names the line or the header.
func FuzzSWF(f *testing.F) {
	for _, seed := range []string{
		"; MaxJobs: 2\n;MaxRecords: 3\n1 0 -1 10 1 -1 -1 1 60 -1 1 3 1 -1 -1 -1 -1 -1\n" +
			"2 5 2 -1 1 0.5 -1 1 60 -1 5 -1 1 -1 -1 -1 1 30\n2 5 2 1 1 -1 -1 1 60 -1 3 -1 1 -1 -1 -1 1 30\n",
		"\n\n 7 1.5 -1 1e2 1 -1 -1 1 -1 -1 1 3 1 -1 -1 -1 -1 -1 \n", "; MaxJobs: x\n", "1 2 3\n", "",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, gaps bool) {
		w, err := workload.ReadSWF(bytes.NewReader(text), gaps)
		if err != nil {
			if !aboutLine.MatchString(err.Error()) {
				t.Fatalf("%q names no line", err)
			}
			return
		}
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		if lines := 1 + bytes.Count(text, []byte("\n")); len(w.Jobs) > lines {
			t.Fatalf("%d jobs of %d lines", len(w.Jobs), lines)
		}
		var swf, sidecar bytes.Buffer
		if err := w.WriteSWF(&swf, &sidecar); err != nil {
			t.Fatal(err)
		}
		if len(w.Jobs) == 0 {
			return
		}
		again, err := workload.ReadSidecar(bytes.NewReader(swf.Bytes()), bytes.NewReader(sidecar.Bytes()))
		if err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("%v\n%+v\n%+v", err, w, again)
		}
		if plain, err := workload.ReadSWF(&swf, false); err != nil || len(plain.Jobs) != len(w.Jobs) {
			t.Fatalf("without its sidecar: %v", err)
		}
	})
}

// FuzzRecipe sets keys of a recipe. What is accepted is kept, and makes a workload that is right if its settings
// agree; an error names the key.
func FuzzRecipe(f *testing.F) {
	f.Add("jobs = 3\narrival = poisson\nrate_law = pareto\nzipf = 1.2\nidle = 0.5")
	f.Add("groups = a, b\na.shares = 3\nb.every = 30m\nb.bursty = 1\nb.phase = 2m\nb.shares_at = 5m\nservers = 3")
	f.Add("preset = mass-restart\njobs = 4\nlifetime = 9h\ndiurnal = 1\narrival = batches\nbatch = 1.5")
	f.Fuzz(func(t *testing.T, text string) {
		var r workload.Recipe
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
			large := strings.HasSuffix(key, "jobs") && len(value) > 4
			if key == "file" || large || strings.HasSuffix(key, "accounts") || strings.HasPrefix(key, "outage") {
				continue // files are FuzzTrace's, and workloads of millions of jobs or outages take seconds
			}
			if err := r.Set(key, value); err != nil && !strings.HasPrefix(err.Error(), "[workload] "+key) {
				t.Fatalf("%s = %s: %q names no key", key, value, err)
			}
		}
		if r.Check() != nil {
			return
		}
		w, err := r.Build(1)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "[workload]: ") {
				t.Fatalf("%q", err)
			}
			return
		}
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
	})
}
