package mango

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"couchrelay/core/ejson"

	"pgregory.net/rapid"
)

// TestFields: what CouchDB 3.5 shows of a document for some fields.
func TestFields(t *testing.T) {
	doc, err := ejson.Parse([]byte(`{"_id":"a","n":1,"o":{"p":[{"q":1},{"q":2}]},"x.y":5,"z":null}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{[]string{"_id", "n", "nope", "a.b"}, `{"_id":"a","n":1}`},
		{[]string{"o.p.0.q", "o.p.1", `x\.y`, "o.p", "_rev", "o.z"}, `{"o":{"p":[{"q":1},{"q":2}]},"x.y":5}`},
		{[]string{"o.p.0", "o.p.0.q"}, `{"o":{"p":{"0":{"q":1}}}}`},
		{[]string{"o.p", "o.p.0.q"}, `{"o":{"p":[{"q":1},{"q":2}]}}`},
		{[]string{"o.p.1.z", "o.p.0", "o.p.1.q"}, `{"o":{"p":{"0":{"q":1},"1":{"q":2}}}}`},
		{[]string{"n", "n"}, `{"n":1}`},
		{[]string{"z", "n.x", "o.p.9"}, `{"z":null}`},
		{nil, `{}`},
	} {
		f, err := ParseFields(c.fields)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(f.Of(doc).Append(nil)); got != c.want {
			t.Errorf("%q: %s, want %s", c.fields, got, c.want)
		}
	}
	for _, bad := range []string{"", "a..b", ".a", "a."} {
		if _, err := ParseFields([]string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// put is how CouchDB makes an object of some fields: it sets one after the other.
func put(in ejson.Value, path []string, v ejson.Value) ejson.Value {
	if len(path) == 0 {
		return v
	}
	if in.Kind != ejson.Object {
		return in
	}
	for i, m := range in.Members {
		if m.Name == path[0] {
			in.Members = slices.Clone(in.Members)
			in.Members[i].Value = put(m.Value, path[1:], v)
			return in
		}
	}
	below := put(ejson.Value{Kind: ejson.Object}, path[1:], v)
	in.Members = append(slices.Clip(in.Members), ejson.Member{Name: path[0], Value: below})
	return in
}

// TestFieldsAgreeWithTwin: fields that are found in one walk are those that are set one after the other.
func TestFieldsAgreeWithTwin(t *testing.T) {
	name := rapid.StringMatching(`[abcx01](\.[abcx01]){0,2}`)
	rapid.Check(t, func(t *rapid.T) {
		text := drawObject(t, 2)
		doc, _ := ejson.Parse([]byte(text))
		names := rapid.SliceOfN(name, 0, 6).Draw(t, "names")
		f, err := ParseFields(names)
		if err != nil {
			t.Fatal(err)
		}
		want := ejson.Value{Kind: ejson.Object}
		for _, name := range names {
			path := strings.Split(name, ".")
			if v, found, _ := (element{doc}).at(path, new(steps)); found {
				want = put(want, path, v)
			}
		}
		if got, want := string(f.Of(doc).Append(nil)), string(want.Append(nil)); got != want {
			t.Fatalf("%q of %s: %s, want %s", names, text, got, want)
		}
	})
}

// TestManyFields: many fields of a document with many members are found in a time that grows with both, not with their
// product, and many names of one element are not many copies of it.
func TestManyFields(t *testing.T) {
	const many = 100_000
	body, names := []byte(`{"-":[1]`), []string{"-.0"}
	for i := range many {
		body, names = fmt.Appendf(body, `,"%d":0`, i), append(names, strconv.Itoa(many-1-i))
	}
	doc, err := ejson.Parse(append(body, '}'))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		names = append(names, "-.0"+strings.Repeat("0", i), "-.+"+strings.Repeat("0", i))
	}
	f, err := ParseFields(names)
	if err != nil {
		t.Fatal(err)
	}
	got := f.Of(doc).Append(nil)
	if n := len(body) + len(`"0":`); len(got) != n+1 || !strings.HasPrefix(string(got), `{"-":{"0":1},"99999":0,`) {
		t.Errorf("%d bytes, want %d: %.40s", len(got), n+1, got)
	}
}

// TestBounds: cases whose ranges CouchDB 3.5 shows in _explain.
func TestBounds(t *testing.T) {
	for selector, want := range map[string]string{
		`{"n":1}`:                                "- - false",
		`{"_id":{"$gt":"a","$lte":"q"}}`:         "(a q] true",
		`{"_id":"a"}`:                            "[a a] true",
		`{"_id":5}`:                              "none true",
		`{"_id":{"$gt":null}}`:                   "- - true",
		`{"_id":{"$lt":null}}`:                   "none true",
		`{"_id":{"$gt":"z","$lt":"a"}}`:          "none true",
		`{"_id":{"$gte":"a","$lt":"a"}}`:         "none true",
		`{"_id":{"$exists":true}}`:               "- - true",
		`{"_id":{"$beginsWith":""}}`:             "[ - true",
		`{"_id":{"$beginsWith":"ab"}}`:           "[ab ac) true",
		`{"$or":[{"_id":"a"},{"_id":"b"}]}`:      "- - false",
		`{"_id":{"$in":["a"]}}`:                  "- - false",
		`{"$not":{"_id":{"$lt":"b"}}}`:           "[b - true",
		`{"$not":{"_id":{"$beginsWith":"b"}}}`:   "- - false",
		`{"$and":[{"_id":{"$gt":"b"}},{"n":1}]}`: "(b - true",
		`{"_id":{"x":"a"}}`:                      "- - false",
		`{}`:                                     "- - false",
		`{"_id":{"$gt":"a","$in":["b"]}}`:        "(a - true",
		`{"_id":{"$beginsWith":"aÿ"}}`:           "[aÿ a\xc3\xc0) true",

		`{"$and":[{"_id":{"$gt":"a"}},{"_id":{"$gte":"a"}}]}`: "(a - true",
		`{"$and":[{"_id":{"$gte":"a"}},{"_id":{"$gt":"a"}}]}`: "(a - true",
		`{"$and":[{"_id":{"$lte":"a"}},{"_id":{"$lt":"a"}}]}`: "- a) true",
	} {
		s, err := Compile([]byte(selector))
		if err != nil {
			t.Fatal(err)
		}
		b := s.Bounds()
		got := "- -"
		switch {
		case b.None:
			got = "none"
		default:
			low, high := "-", "-"
			if b.Low != nil {
				low = map[bool]string{true: "(", false: "["}[b.LowIsOut] + *b.Low
			}
			if b.High != nil {
				high = *b.High + map[bool]string{true: ")", false: "]"}[b.HighIsOut]
			}
			got = low + " " + high
		}
		if got = fmt.Sprint(got, " ", b.Indexed); got != want {
			t.Errorf("%s: %s, want %s", selector, got, want)
		}
	}
}

// TestBoundsLoseNothing: a document that a selector matches lies within its bounds.
func TestBoundsLoseNothing(t *testing.T) {
	ids := []string{"a", "ab", "abc", "b", "ÿ", "z\xff"}
	rapid.Check(t, func(t *rapid.T) {
		leaf := rapid.Custom(func(t *rapid.T) string {
			op := rapid.SampledFrom([]string{"$lt", "$lte", "$eq", "$ne", "$gt", "$gte", "$beginsWith",
				"$in"}).Draw(t, "op")
			arg := rapid.SampledFrom([]string{`"a"`, `"ab"`, `"b"`, `"c"`, `""`, `null`, `5`}).Draw(t, "arg")
			if op == "$in" {
				arg = "[" + arg + "]"
			} else if op == "$beginsWith" && arg[0] != '"' {
				arg = `"a"`
			}
			return `{"_id":{"` + op + `":` + arg + `}}`
		})
		leaves := rapid.SliceOfN(leaf, 1, 4).Draw(t, "leaves")
		list := leaves[0]
		for _, l := range leaves[1:] {
			list += "," + l
		}
		selector := `{"` + rapid.SampledFrom([]string{"$and", "$or", "$nor"}).Draw(t, "how") + `":[` + list + `]}`
		s, err := Compile([]byte(selector))
		if err != nil {
			t.Fatal(err)
		}
		b := s.Bounds()
		for _, id := range slices.Sorted(slices.Values(ids)) {
			quoted := ejson.Value{Kind: ejson.String, Text: id}.Append(nil)
			matches, err := s.Match([]byte(`{}`), Field{"_id", quoted})
			if err != nil {
				continue // no valid text
			}
			within := !b.None && (b.Low == nil || id > *b.Low || id == *b.Low && !b.LowIsOut) &&
				(b.High == nil || id < *b.High || id == *b.High && !b.HighIsOut)
			if matches && !within {
				t.Fatalf("%s matches %q, which is not within %+v", selector, id, b)
			}
		}
	})
}

// TestHints: the fields that CouchDB 3.5 names in _explain.
func TestHints(t *testing.T) {
	for selector, want := range map[string]string{
		`{"n":{"$gt":1},"_id":"a"}`:                  "[_id n] []",
		`{"$or":[{"_id":"a"},{"n":"b"}]}`:            "[] [_id n]",
		`{"a":{"$in":[1]},"b":{"$exists":true}}`:     "[b] [a]",
		`{"a":{"$gt":1,"$in":[2]}}`:                  "[a] []",
		`{"$not":{"a":{"$beginsWith":"x"}}}`:         "[] [a]",
		`{"a":{"$elemMatch":{"b":1}},"c.d":{"e":1}}`: "[c.d.e] [a]",
		`{}`: "[] []",
	} {
		s, err := Compile([]byte(selector))
		if err != nil {
			t.Fatal(err)
		}
		indexable, others := s.Hints()
		if got := fmt.Sprint(indexable, " ", others); got != want {
			t.Errorf("%s: %s, want %s", selector, got, want)
		}
	}
}

// TestSteps: a match may take as many steps as there are, and not one more.
func TestSteps(t *testing.T) {
	if s := (steps{5}); !s.take(3) || !s.take(2) || s.take(1) {
		t.Errorf("%d are left", s.left)
	}
}
