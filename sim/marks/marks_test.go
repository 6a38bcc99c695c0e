package marks

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var source = fstest.MapFS{
	"core/a.go": {Data: []byte(`package a

func F(x int) int {
	if x > 1 {
		// Reached: large
		return 1
	}
	if x < 0 {
		// Reached: negative
		return 2
	}
	return x
}
`)},
	"core/a_test.go": {Data: []byte("package a\n\n// Reached: not in tests\n")},
}

func TestMarks(t *testing.T) {
	found, err := Find(source, "core")
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	profile := `mode: count
m/core/a.go:3.19,4.11 1 9
m/core/a.go:4.11,7.3 1 3
m/core/a.go:8.2,8.11 1 6
m/core/a.go:8.11,11.3 1 0
m/core/a.go:12.2,12.10 1 6
`
	if err := Count(found, strings.NewReader(profile), "m"); err != nil {
		t.Fatal(err)
	}
	want := []Mark{{"core/a.go", 5, "large", 3, 6}, {"core/a.go", 9, "negative", 0, 10}}
	if !slices.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
	for name, profile := range map[string]string{"of nothing": "mode: count\n", "damaged": "m/core/a.go:x 1\n"} {
		if err := Count(found, strings.NewReader(profile), "m"); err == nil {
			t.Errorf("a profile %s is taken", name)
		}
	}
}
