package resolver

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// universe has all keys of the tests, in order: "a", "a\x00", "b", ... So a range may begin right behind a key.
var universe = func() (all []string) {
	for c := byte('a'); c <= 'l'; c++ {
		all = append(all, string(c), string([]byte{c, 0}))
	}
	return all
}()

func span() *rapid.Generator[Span] {
	return rapid.Custom(func(t *rapid.T) Span {
		from := rapid.IntRange(0, len(universe)-2).Draw(t, "from")
		s := Span{Begin: []byte(universe[from])}
		if rapid.Bool().Draw(t, "range") {
			s.End = []byte(universe[min(len(universe)-1, from+rapid.IntRange(1, 7).Draw(t, "n"))])
		}
		return s
	})
}

// keys is the dumb form of a span: which keys it holds.
func keys(s Span) map[string]bool {
	set := map[string]bool{}
	for _, k := range universe {
		if s.End == nil && string(s.Begin) == k || s.End != nil && string(s.Begin) <= k && k < string(s.End) {
			set[k] = true
		}
	}
	return set
}

func intersect(a, b map[string]bool) bool {
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}

func TestNormalize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := rapid.SliceOfN(span(), 0, 8).Draw(t, "spans")
		want := map[string]bool{}
		for _, s := range spans {
			for k := range keys(s) {
				want[k] = true
			}
		}
		got := map[string]bool{}
		normal := Normalize(spans)
		for i, s := range normal {
			if i > 0 && !normal[i-1].before(s.Begin) {
				t.Fatalf("%q overlap or are out of order", normal)
			}
			for k := range keys(s) {
				got[k] = true
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestConflicts compares with sets of keys for every commit.
func TestConflicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type commit struct {
			version int64
			keys    []map[string]bool
		}
		var (
			log     Log
			commits []commit
			version int64
			floor   int64
		)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				version += int64(rapid.IntRange(0, 2).Draw(t, "ahead"))
				c := commit{version: version}
				spans := rapid.SliceOfN(span(), 0, 3).Draw(t, "writes")
				for _, s := range spans {
					c.keys = append(c.keys, keys(s))
				}
				log.Record(version, spans)
				commits = append(commits, c)
			case 2:
				floor = max(floor, rapid.Int64Range(0, version).Draw(t, "floor"))
				log.Forget(floor)
			case 3:
				at := rapid.Int64Range(floor, version).Draw(t, "read version")
				reads := Normalize(rapid.SliceOfN(span(), 0, 8).Draw(t, "reads"))
				want := false
				for _, c := range commits {
					for _, w := range c.keys {
						for _, r := range reads {
							want = want || c.version > at && intersect(w, keys(r))
						}
					}
				}
				if got := log.Conflicts(at, reads); got != want {
					t.Fatalf("read %q at %d: conflict %v, want %v", reads, at, got, want)
				}
			}
		}
	})
}

// bulk returns the n ranges that one bulk write reads, and the n keys between them that another writes.
func bulk(n int) (reads, writes []Span) {
	for i := range n {
		doc := fmt.Appendf(nil, "docs/%08d", 2*i)
		reads = append(reads, Span{Begin: append(doc[:len(doc):len(doc)], '/'), End: append(doc, '0')})
		writes = append(writes, Span{Begin: fmt.Appendf(nil, "docs/%08d/leaf", 2*i+1)})
	}
	return reads, writes
}

// TestBulk: what a bulk write costs grows hardly faster than its size when others commit bulk writes, too: 16
// times as large, it takes some 20 times as long and not 256 times.
func TestBulk(t *testing.T) {
	took := func(n int) time.Duration {
		var log Log
		reads, writes := bulk(n)
		log.Record(1, writes)
		best := time.Duration(1<<63 - 1)
		for range 5 {
			start := time.Now()
			if log.Conflicts(0, reads) {
				t.Fatal("writes beside all reads conflict with them")
			}
			best = min(best, time.Since(start))
		}
		log.Record(2, []Span{{Begin: fmt.Appendf(nil, "docs/%08d/leaf", n)}})
		if !log.Conflicts(1, reads) || log.Conflicts(2, reads) {
			t.Error("a write in the middle is not found, or still found by who read it")
		}
		return best
	}
	var small, large time.Duration
	for range 5 {
		if small, large = took(1000), took(16_000); large <= 80*small {
			return
		}
	}
	t.Errorf("1,000 ranges and writes take %v, 16,000 take %v", small, large)
}

// TestManyAtOnce: a thousand jobs end at once, each in a transaction that reads its own rows and the head of a queue.
// None looks at what the others wrote in rows of their own, and all find out who wrote in those they read.
func TestManyAtOnce(t *testing.T) {
	var log Log
	const jobs, each = 1000, 10
	rows := func(job int) Span {
		return Span{Begin: fmt.Appendf(nil, "jobs/%04d/", job), End: fmt.Appendf(nil, "jobs/%04d0", job)}
	}
	for job := range jobs {
		head := Span{Begin: []byte("queue/"), End: []byte("queue/0")}
		if log.Conflicts(0, []Span{rows(job), head}) {
			t.Fatalf("job %d conflicts with others", job)
		}
		var writes []Span
		for i := range each {
			writes = append(writes, Span{Begin: fmt.Appendf(nil, "jobs/%04d/%d", job, i)})
		}
		log.Record(int64(job+1), writes)
	}
	if log.looks > 2*jobs {
		t.Errorf("%d jobs of %d writes each looked at %d writes of others", jobs, each, log.looks)
	}
	for _, job := range []int{0, 1, 500, jobs - 1} {
		if !log.Conflicts(int64(job), []Span{rows(job)}) || log.Conflicts(int64(job+1), []Span{rows(job)}) {
			t.Errorf("who reads the rows of job %d does not conflict with it alone", job)
		}
	}
	log.looks = 0
	all := []Span{{Begin: []byte("jobs/"), End: []byte("jobs0")}}
	if log.Conflicts(jobs, all) || !log.Conflicts(jobs-1, all) || log.looks != 2*each {
		t.Errorf("who reads the rows of all jobs looks at %d writes, want twice the %d new ones", log.looks, each)
	}
}

func TestForgetBoundsMemory(t *testing.T) {
	var log Log
	for v := range int64(1_000_000) {
		log.Record(v, []Span{{Begin: binary.AppendVarint(nil, v)}})
		log.Forget(v - 100)
	}
	if n := cap(log.all.writes); n > 8192 || log.latest.Len() > 101 {
		t.Errorf("room for %d writes, %d keys kept for a window of 100", n, log.latest.Len())
	}
}

func TestSize(t *testing.T) {
	for _, c := range []struct {
		span Span
		want int
	}{{Span{Begin: []byte("ab")}, 5}, {Span{Begin: []byte("ab"), End: []byte("abc")}, 5}} {
		if got := c.span.Size(); got != c.want {
			t.Errorf("%q: size %d, want %d", c.span, got, c.want)
		}
	}
}

// BenchmarkConflicts commits transactions of five keys each that overlap with a number of others.
func BenchmarkConflicts(b *testing.B) {
	for _, overlap := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint(overlap), func(b *testing.B) {
			var log Log
			spans := make([][]Span, 4096)
			for i := range spans {
				for k := range 5 {
					key := fmt.Appendf(nil, "jobs/pending/%08x", uint32(i*5+k)*2654435761)
					spans[i] = append(spans[i], Span{Begin: key})
				}
				spans[i] = Normalize(spans[i])
			}
			version := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				own := spans[version%int64(len(spans))]
				if version++; log.Conflicts(version-int64(overlap), own) {
					b.Fatal("conflict")
				}
				log.Record(version, own)
				log.Forget(version - 100_000)
			}
		})
	}
}

// BenchmarkBulk compares what a bulk write of ranges costs beside as many written keys, for each range: the
// quadratic way it would be 16 times as much for one that is 16 times as large.
func BenchmarkBulk(b *testing.B) {
	each := func(n int) float64 {
		var log Log
		reads, writes := bulk(n)
		log.Record(1, writes)
		start := time.Now()
		for range b.N {
			log.Conflicts(0, reads)
		}
		return float64(time.Since(start)) / float64(n)
	}
	b.ReportMetric(each(16_000)/each(1000), "x-range-of-16000-vs-1000")
}

func TestCovers(t *testing.T) {
	var l Log
	l.Record(10, []Span{{Begin: []byte("a")}})
	l.Record(20, []Span{{Begin: []byte("b")}})
	l.Forget(9)
	if !l.Covers(0) {
		t.Error("nothing was dropped, and something is not covered")
	}
	l.Forget(15)
	if l.Covers(9) || !l.Covers(10) {
		t.Error("what was written at 10 is gone, which concerns who read before")
	}
}
