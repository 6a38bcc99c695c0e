package ryw

import (
	"testing"

	"couchrelay/core/kv"

	"pgregory.net/rapid"
)

// TestIntervals: ranges that are added and removed leave the keys that a plain set has.
func TestIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s intervals
		var plain [12]bool
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			begin := rapid.IntRange(0, len(plain)-2).Draw(t, "begin")
			end := rapid.IntRange(begin+1, len(plain)-1).Draw(t, "end")
			add := rapid.Bool().Draw(t, "add")
			r := kv.Range{Begin: []byte{byte(begin)}, End: []byte{byte(end)}}
			if add {
				s.add(r)
			} else {
				s.remove(r)
			}
			for i := begin; i < end; i++ {
				plain[i] = add
			}
			some := false
			for i, has := range plain {
				key := []byte{byte(i)}
				contained, overlapped := s.contains(key), s.overlaps(kv.KeyRange(key))
				if some = some || has; contained != has || overlapped != has {
					t.Fatalf("key %d: contained %v, overlapped %v, want %v", i, contained, overlapped, has)
				}
			}
			if s.empty() == some {
				t.Fatalf("empty is %v, and the set is %v", s.empty(), plain)
			}
		}
	})
}
