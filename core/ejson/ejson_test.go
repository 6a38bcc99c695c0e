package ejson

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseAndAppend(t *testing.T) {
	for in, want := range map[string]string{
		`null`:                            `null`,
		` true `:                          `true`,
		`[false,1,-0,1.50,1E5]`:           `[false,1,-0,1.50,1E5]`,
		`{"b":1,"a":[{}],"c":"\u00e9\/"}`: `{"b":1,"a":[{}],"c":"é/"}`,
		`123456789012345678901234567890`:  `123456789012345678901234567890`,
		// Of a repeated name the last member counts, at its own place.
		`{"a":1,"b":2,"a":3}`:       `{"b":2,"a":3}`,
		`{"a":1,"a":2,"a":3}`:       `{"a":3}`,
		`{"a":1,"\u0061":{"a":[]}}`: `{"a":{"a":[]}}`,
	} {
		v, err := Parse([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if got := string(v.Append(nil)); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{
		``, ` `, `{`, `{"a"`, `{"a":`, `{"a":1`, `[1,`, `"a`, `tru`, `01`, `1.`, `{} {}`, `[1,]`, `{"a":1,}`, `{1:2}`,
		"\"\xff\"", `"\ud800"`, `nul`, `{"password":"secret\x"}`,
		strings.Repeat("[", 1_000_000), strings.Repeat(`{"a":`, 1_000_000),
	} {
		_, err := Parse([]byte(in))
		if !errors.Is(err, ErrSyntax) {
			t.Errorf("%.40q: got %v", in, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the input is in %v", in, err)
		}
	}
}

func TestParseDepth(t *testing.T) {
	for depth, fine := range map[int]bool{MaxDepth: true, MaxDepth + 1: false} {
		for _, in := range []string{
			strings.Repeat("[", depth) + strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		} {
			if _, err := Parse([]byte(in)); (err == nil) != fine || err != nil &&
				!strings.Contains(err.Error(), "nested") {
				t.Errorf("%d deep: got %v", depth, err)
			}
		}
	}
}

func TestIsInteger(t *testing.T) {
	for in, want := range map[string]bool{
		`1`: true, `-12`: true, `1.0`: false, `1e2`: false, `1E2`: false, `"1"`: false, `null`: false,
	} {
		if v, err := Parse([]byte(in)); err != nil || v.IsInteger() != want {
			t.Errorf("%s: %v %v", in, v.IsInteger(), err)
		}
	}
}

// TestAgreesWithStandardLibrary checks meaning against encoding/json, and that Append's output is a
// fixed point.
func TestAgreesWithStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := drawJSON(t, 3)
		v, err := Parse([]byte(raw))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		out := v.Append(nil)
		if !reflect.DeepEqual(decode(t, []byte(raw)), decode(t, out)) {
			t.Fatalf("%s became %s", raw, out)
		}
		again, err := Parse(out)
		if err != nil || !bytes.Equal(again.Append(nil), out) {
			t.Fatalf("%s became %s: %v", out, again.Append(nil), err)
		}
	})
}

func TestParseNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.SampledFrom([]byte(`{}[]",:0123.eE-+ntfalsrue\ud8 `))).Draw(t, "raw")
		if v, err := Parse(raw); (err == nil) != json.Valid(raw) && !bytes.Contains(raw, []byte(`\u`)) {
			t.Fatalf("%q: %v %v", raw, v, err)
		}
	})
}

func decode(t *rapid.T, raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// drawJSON writes a random value; names repeat often.
func drawJSON(t *rapid.T, depth int) string {
	scalars := []string{`null`, `true`, `false`, `0`, `-1`, `1.5`, `2e3`, `12345678901234567890`, `""`, `"é\n"`, `"a"`}
	kind := 0
	if depth > 0 {
		kind = rapid.IntRange(0, 2).Draw(t, "kind")
	}
	if kind == 0 {
		return rapid.SampledFrom(scalars).Draw(t, "scalar")
	}
	var parts []string
	for range rapid.IntRange(0, 4).Draw(t, "n") {
		part := drawJSON(t, depth-1)
		if kind == 2 {
			part = rapid.SampledFrom([]string{`"a":`, `"b":`, `"c" : `}).Draw(t, "name") + part
		}
		parts = append(parts, part)
	}
	if kind == 1 {
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "{" + strings.Join(parts, ",") + "}"
}
