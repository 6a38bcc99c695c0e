package marks

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var source = fstest.MapFS{
	"core/a.go":      {Data: []byte("package a\n\nfunc F(x int) int {\n\tif x > 1 {\n\t\t// Reached: large\n\t\treturn 1\n\t}\n\tif x < 0 {\n\t\t// Reached: negative\n\t\treturn 2\n\t}\n\treturn x\n}\n")},
	"core/a_test.go": {Data: []byte("package a\n\n// Reached: not in tests\n")},
}

func TestMarks(t *testing.T) {
	found, err := Find(source, "core")
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	profile := "mode: count\nm/core/a.go:3.19,4.11 1 9\nm/core/a.go:4.11,7.3 1 3\nm/core/a.go:8.2,8.11 1 6\nm/core/a.go:8.11,11.3 1 0\nm/core/a.go:12.2,12.10 1 6\n"
	if err := Count(found, strings.NewReader(profile), "m"); err != nil {
		t.Fatal(err)
	}
	if want := []Mark{{"core/a.go", 5, "large", 3, 6}, {"core/a.go", 9, "negative", 0, 10}}; !slices.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
	for name, profile := range map[string]string{"of nothing": "mode: count\n", "damaged": "m/core/a.go:x 1\n"} {
		if err := Count(found, strings.NewReader(profile), "m"); err == nil {
			t.Errorf("a profile %s is taken", name)
		}
	}
}
