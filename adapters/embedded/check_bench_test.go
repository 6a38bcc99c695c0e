package embedded

import (
	"runtime"
	"testing"

	"couchrelay/core/check/whole"
	"couchrelay/core/kv/tuple"
)

// BenchmarkCheck checks a store of many jobs of documents. It reports jobs a second, and how many bytes of memory the
// check adds at most.
func BenchmarkCheck(b *testing.B) {
	m := newManyJobs(b, true)
	defer mustClose(b, m.db)
	m.add(*listedJobs)
	peak := uint64(0)
	for b.Loop() {
		before := inUse()
		moment, err := m.db.Moment()
		if err != nil {
			b.Fatal(err)
		}
		c := whole.New(tuple.Subspace("r"), nil, true)
		for n, done := 0, false; !done; n++ {
			found, last, err := c.Step(moment)
			if err != nil || len(found) > 0 {
				b.Fatal(found, err)
			}
			if done = last; n%500 == 0 {
				peak = max(peak, inUse()-min(before, inUse()))
			}
		}
		moment.Close()
		b.ReportMetric(float64(c.Rows)/float64(m.made), "rows/job")
	}
	b.ReportMetric(float64(m.made)*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64(peak), "bytes")
}

// inUse is how many bytes of memory are reachable.
func inUse() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
