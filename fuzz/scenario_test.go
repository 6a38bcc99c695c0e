package fuzz

import (
	"reflect"
	"testing"

	"couchrelay/sim/scenario"
)

// FuzzScenario reads any text as a scenario. A scenario that parses is the same after writing and reading it.
func FuzzScenario(f *testing.F) {
	for _, seed := range []string{
		"# shows\nseeds 1..20\nnodes 3\nduration 30m\nrate doc-edit 50%\nat 10m fdb-down for 2m\n" +
			"[replicator]\nmax_jobs = 10\n",
		"broke S11a\ndecide n1/store/commit there 3 1.5s\ndecide nemesis 0 node-crash\nrate net-tls 0.0001%\n",
		"at 1m node-crash n2 for 30s\nat 0s job-storm\nat 1h db-deleted s1/b1 for 1s",
		"[replicator]\ninterval = 100\nhealth_threshold = 90s\nverify_ssl_certificates = false\n\nsettle 1h\n#end",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scenario.Parse(text)
		if err != nil {
			return
		}
		s.Unused = nil // is not written
		written := scenario.Format(s)
		again, err := scenario.Parse(written)
		if err != nil {
			t.Fatalf("%q was written as %q: %v", text, written, err)
		}
		if !reflect.DeepEqual(s, again) {
			t.Fatalf("%q was written as %q\n%+v\n%+v", text, written, s, again)
		}
	})
}
