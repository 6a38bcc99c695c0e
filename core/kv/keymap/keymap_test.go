package keymap

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// contents lists the entries forwards and checks that the way back gives the same.
func contents(t *rapid.T, m *Map[int]) []string {
	var forth, back []string
	entry := func(c Cursor[int]) string { return fmt.Sprintf("%s=%d", c.Key(), *c.Value()) }
	last := m.First()
	for c := m.First(); c.Valid(); c.Next() {
		forth = append(forth, entry(c))
		last = c
	}
	for c := last; c.Valid(); c.Prev() {
		back = append(back, entry(c))
	}
	slices.Reverse(back)
	if !slices.Equal(forth, back) || len(forth) != m.Len() {
		t.Fatalf("forth %v, back %v, len %d", forth, back, m.Len())
	}
	return forth
}

// TestModel compares with a plain map over keys that fill several chunks.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Map[int]
		model := map[string]int{}
		key := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("%03d",
				rapid.IntRange(0, 999).Draw(t, "key"))
		})
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0:
				k := key.Draw(t, "k")
				_, had := model[k]
				if m.Delete([]byte(k)) != had {
					t.Fatalf("delete %s: had %v", k, had)
				}
				delete(model, k)
			case 1:
				a, b := key.Draw(t, "a"), key.Draw(t, "b")
				m.DeleteRange([]byte(a), []byte(b))
				for k := range model {
					if a <= k && k < b {
						delete(model, k)
					}
				}
			case 2:
				if rapid.IntRange(0, 9).Draw(t, "reset") == 0 {
					m.Reset()
					clear(model)
				}
			default: // a run of keys, to fill chunks
				from := rapid.IntRange(0, 999).Draw(t, "from")
				stride := rapid.SampledFrom([]int{1, -1, 7, 331}).Draw(t, "stride")
				for i := range rapid.IntRange(1, 300).Draw(t, "n") {
					k := fmt.Sprintf("%03d", ((from+i*stride)%1000+1000)%1000)
					m.Put([]byte(k), step)
					model[k] = step
				}
			}
			check(t, &m, model, key)
		}
	})
}

func check(t *rapid.T, m *Map[int], model map[string]int, key *rapid.Generator[string]) {
	var want []string
	for k, v := range model {
		want = append(want, fmt.Sprintf("%s=%d", k, v))
	}
	slices.Sort(want)
	if got := contents(t, m); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	k := key.Draw(t, "probe")
	at, found := slices.BinarySearchFunc(want, k,
		func(e, k string) int { return slices.Compare([]byte(e[:3]), []byte(k)) })
	if v, has := model[k]; found != has || (m.Get([]byte(k)) != nil) != has || has && *m.Get([]byte(k)) != v {
		t.Fatalf("get %s", k)
	}
	next, prev := m.Seek([]byte(k)), m.SeekBefore([]byte(k))
	if next.Valid() != (at < len(want)) || next.Valid() && string(next.Key()) != want[at][:3] {
		t.Fatalf("seek %s", k)
	}
	if prev.Valid() != (at > 0) || prev.Valid() && string(prev.Key()) != want[at-1][:3] {
		t.Fatalf("seek before %s", k)
	}
	if prev.Next(); prev.Valid() && string(prev.Key()) != want[at][:3] {
		t.Fatalf("next of seek before %s", k)
	}
}

func BenchmarkPut(b *testing.B) {
	for _, size := range []int{8, 1000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			keys := make([][]byte, size)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "jobs/pending/%08x", uint32(i)*2654435761)
			}
			var m Map[[]byte]
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i == size {
					m.Reset()
					i = 0
				}
				m.Put(keys[i], keys[i])
				i++
			}
		})
	}
}
