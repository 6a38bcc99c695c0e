package peer

import (
	"strings"
	"testing"
)

func TestSeqOf(t *testing.T) {
	for raw, want := range map[string]Seq{
		`12`: "12", ` 12 `: "12", `1.0`: "1.0", `"12-a"`: `"12-a"`, ` "12-<&é>"`: `"12-<&é>"`,
		`"12-\u003c\u0026é\u003E\/"`: `"12-<&é>/"`, `"\"\\\u0001"`: `"\"\\\u0001"`, `""`: `""`,
		`[12, "g\u0041" ]`: `[12,"gA"]`, `{ "a" : null }`: `{"a":null}`,
	} {
		if got, err := SeqOf([]byte(raw)); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", raw, got, err, want)
		}
	}
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, raw := range []string{"", " ", "null", `"`, `"a`, `"a" 5`, `"a"b"`, "\"\n\"", `[`, `x`, deep} {
		if got, err := SeqOf([]byte(raw)); err == nil || got != "" {
			t.Errorf("%q was taken for %s", raw, got)
		}
	}
}

// TestPlainSeq: a sequence that is a plain string, as nearly all are, is copied and not parsed.
func TestPlainSeq(t *testing.T) {
	raw := []byte(`"12-g1AAAACTeJzLYWBgYMpgTmHgz8tPSTV0MDQy1zMAQsMcoARTIkOS"`)
	if n := testing.AllocsPerRun(100, func() { _, _ = SeqOf(raw) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
