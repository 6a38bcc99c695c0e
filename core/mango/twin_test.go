package mango

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/ejson"

	"pgregory.net/rapid"
)

// twin interprets a selector as it is written, without normal form, compilation or lazy decoding. What
// must be the same on purpose is that a negation reaches the conditions, of which none holds for a
// missing field, while inside of $elemMatch and its kin it stays where it is.
type twin struct{ inside bool }

func (tw twin) eval(sel ejson.Value, path []string, negated bool, doc ejson.Value) bool {
	if sel.Kind != ejson.Object || len(sel.Members) == 0 {
		return tw.condition("$eq", sel, path, negated, doc)
	}
	if len(sel.Members) > 1 {
		var each []ejson.Value
		for _, m := range sel.Members {
			each = append(each, object(m.Name, m.Value))
		}
		return tw.combine(each, !negated, path, negated, doc)
	}
	name, arg := sel.Members[0].Name, sel.Members[0].Value
	switch {
	case name == "$and":
		return tw.combine(arg.Elems, !negated, path, negated, doc)
	case name == "$or":
		return tw.combine(arg.Elems, negated, path, negated, doc)
	case name == "$nor" && tw.inside:
		return len(arg.Elems) == 0 || !tw.combine(arg.Elems, false, path, false, doc)
	case name == "$nor":
		return tw.combine(arg.Elems, !negated, path, !negated, doc)
	case name == "$not" && tw.inside:
		return !tw.eval(arg, path, false, doc)
	case name == "$not":
		return tw.eval(arg, path, !negated, doc)
	case strings.HasPrefix(name, "$"):
		return tw.condition(name, arg, path, negated, doc)
	default:
		return tw.eval(arg, slices.Concat(path, strings.Split(name, ".")), negated, doc)
	}
}

func (tw twin) combine(operands []ejson.Value, all bool, path []string, negated bool, doc ejson.Value) bool {
	for _, o := range operands {
		if tw.eval(o, path, negated, doc) != all {
			return !all
		}
	}
	return all || len(operands) == 0
}

func (tw twin) condition(name string, arg ejson.Value, path []string, negated bool, doc ejson.Value) bool {
	v := doc
	for _, part := range path {
		next, found := v.Get(part)
		if v.Kind == ejson.Array {
			for i, e := range v.Elems {
				if fmt.Sprint(i) == part {
					next, found = e, true
				}
			}
		}
		if !found {
			return v.Kind == ejson.Object && name == "$exists" && (arg.Kind == ejson.True) == negated
		}
		v = next
	}
	return tw.holds(name, arg, v) != negated
}

func (tw twin) holds(name string, arg, v ejson.Value) bool {
	inner := func(e ejson.Value) bool { return twin{true}.eval(arg, nil, false, e) }
	is := func(e ejson.Value) bool { return Compare(e, v) == 0 }
	isElem := func(e ejson.Value) bool {
		return slices.ContainsFunc(v.Elems, func(x ejson.Value) bool { return Compare(e, x) == 0 })
	}
	switch name {
	case "$eq":
		return is(arg)
	case "$ne":
		return !is(arg)
	case "$lt":
		return Compare(v, arg) < 0
	case "$lte":
		return !tw.holds("$gt", arg, v)
	case "$gt":
		return Compare(v, arg) > 0
	case "$gte":
		return !tw.holds("$lt", arg, v)
	case "$in":
		return slices.ContainsFunc(arg.Elems, isElem) || v.Kind != ejson.Array && slices.ContainsFunc(arg.Elems, is)
	case "$nin":
		return !tw.holds("$in", arg, v)
	case "$exists":
		return arg.Kind == ejson.True
	case "$size":
		return v.Kind == ejson.Array && fmt.Sprint(len(v.Elems)) == arg.Text
	case "$regex":
		return v.Kind == ejson.String && regexp.MustCompile(arg.Text).MatchString(v.Text)
	case "$elemMatch":
		return slices.ContainsFunc(v.Elems, inner)
	case "$allMatch":
		return len(v.Elems) > 0 && !slices.ContainsFunc(v.Elems, func(e ejson.Value) bool { return !inner(e) })
	case "$keyMapMatch":
		return slices.ContainsFunc(v.Members,
			func(m ejson.Member) bool { return inner(ejson.Value{Kind: ejson.String, Text: m.Name}) })
	}
	panic(name)
}

func TestMatchAgreesWithTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		selector := drawSelector(t, 3)
		doc := drawObject(t, 2)
		s, err := Compile([]byte(selector))
		if err != nil {
			t.Fatalf("%s: %v", selector, err)
		}
		got, err := s.Match([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		sel, _ := ejson.Parse([]byte(selector))
		parsed, _ := ejson.Parse([]byte(doc))
		if want := len(sel.Members) == 0 || (twin{}).eval(sel, nil, false, parsed); got != want {
			t.Fatalf("%s on %s: got %v, want %v", selector, doc, got, want)
		}
	})
}

// TestNormalFormIsAFixedPoint also shows that the normal form means the same. A condition directly
// inside of $elemMatch has the empty field name there, which is no valid input, and is left out.
func TestNormalFormIsAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		selector := drawSelector(t, 3)
		normal, err := Normalize([]byte(selector))
		if err != nil {
			t.Fatalf("%s: %v", selector, err)
		}
		if strings.Contains(string(normal), `"":`) {
			return
		}
		again, err := Normalize(normal)
		if err != nil || string(again) != string(normal) {
			t.Fatalf("%s\nnormal %s\nagain  %s %v", selector, normal, again, err)
		}
		doc := []byte(drawObject(t, 2))
		a, _ := Compile([]byte(selector))
		b, _ := Compile(normal)
		before, _ := a.Match(doc)
		if after, _ := b.Match(doc); before != after {
			t.Fatalf("%s on %s: %v, its normal form %s: %v", selector, doc, before, normal, after)
		}
	})
}

func TestNumbersCompareAsRationals(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		if got := compareNumbers(a, b); got != x.Cmp(y) {
			t.Fatalf("compareNumbers(%s, %s) = %d", a, b, got)
		}
	})
}

func TestStringOrderIsTotal(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("aAbB_ 0\x01é中")), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		compareStrings := new(steps).compareStrings
		a, b, c := text.Draw(t, "a"), text.Draw(t, "b"), text.Draw(t, "c")
		if compareStrings(a, b) != -compareStrings(b, a) || (compareStrings(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q: %d and %d", a, b, compareStrings(a, b), compareStrings(b, a))
		}
		if compareStrings(a, b) <= 0 && compareStrings(b, c) <= 0 && compareStrings(a, c) > 0 {
			t.Fatalf("%q <= %q <= %q, but not the first and the last", a, b, c)
		}
	})
}

func TestParseNeverPanics(t *testing.T) {
	words := []string{`{`, `}`, `[`, `]`, `,`, `:`, `"a"`, `"a.b"`, `"$and"`, `"$or"`, `"$not"`, `"$nor"`, `"$in"`,
		`"$elemMatch"`, `"$mod"`,
		`"$regex"`, `"$text"`, `"$default"`, `"$size"`, `1`, `-0`, `null`, `true`, `""`, `"("`}
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(strings.Join(rapid.SliceOf(rapid.SampledFrom(words)).Draw(t, "words"), ""))
		if s, err := Compile(raw); err == nil {
			_, _ = s.Match([]byte(drawObject(t, 2)))
		}
	})
}

func drawSelector(t *rapid.T, depth int) string {
	if rapid.IntRange(0, 20).Draw(t, "empty") == 0 {
		return `{}`
	}
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		name := rapid.SampledFrom([]string{"$and", "$or", "$nor"}).Draw(t, "combination")
		return `{"` + name + `":[` + strings.Join(drawFields(t, depth-1, 0), ",") + `]}`
	case kind == 1 && depth > 0:
		return `{"$not":` + drawFields(t, depth-1, 1)[0] + `}`
	case kind == 2:
		return drawField(t, depth, "x")
	default:
		a, b := drawField(t, depth, "a"), drawField(t, depth, "b.c")
		return a[:len(a)-1] + "," + b[1:]
	}
}

// drawFields draws selectors that name a field, so that none is on the document itself.
func drawFields(t *rapid.T, depth, least int) []string {
	var out []string
	for range rapid.IntRange(least, 3).Draw(t, "n") {
		sel := drawSelector(t, depth)
		if sel == `{}` {
			sel = `{"a":1}`
		}
		out = append(out, sel)
	}
	return out
}

func drawField(t *rapid.T, depth int, name string) string {
	return `{"` + name + `":` + drawCondition(t, depth) + `}`
}

func drawCondition(t *rapid.T, depth int) string {
	compare := []string{"$lt", "$lte", "$eq", "$ne", "$gte", "$gt"}
	kind := rapid.IntRange(0, 12).Draw(t, "condition")
	if depth <= 0 {
		kind = min(kind, 6)
	}
	switch kind {
	case 0, 1:
		return `{"` + rapid.SampledFrom(compare).Draw(t, "op") + `":` + drawValue(t, 1) + `}`
	case 2:
		return `{"` + rapid.SampledFrom([]string{"$in", "$nin"}).Draw(t, "op") + `":[` + drawValue(t,
			1) + `,` + drawValue(t, 1) + `]}`
	case 3:
		return `{"$exists":` + rapid.SampledFrom([]string{"true", "false"}).Draw(t, "exists") + `}`
	case 4:
		return `{"$size":1}`
	case 5:
		return `{"$regex":"^a"}`
	case 6:
		return rapid.SampledFrom([]string{`1`, `"a"`, `{}`, `[1]`, `null`}).Draw(t, "bare")
	case 7:
		return `{"$not":{"$gt":1,"$exists":true}}`
	case 8:
		return `{"$or":[` + drawCondition(t, depth-1) + `,` + drawCondition(t, depth-1) + `]}`
	case 9:
		return `{"$not":{"c":` + drawCondition(t, depth-1) + `}}`
	case 10:
		return `{"c":` + drawCondition(t, depth-1) + `}`
	default:
		name := rapid.SampledFrom([]string{"$elemMatch", "$allMatch", "$keyMapMatch"}).Draw(t, "op")
		inner := rapid.SampledFrom([]string{`{"c":%s}`, `{"$not":{"c":%s}}`, `{"$nor":[{"c":%s}]}`,
			`{"$and":[%s]}`}).Draw(t, "inner")
		return `{"` + name + `":` + fmt.Sprintf(inner, drawCondition(t, depth-1)) + `}`
	}
}

func drawValue(t *rapid.T, depth int) string {
	kind := 0
	if depth > 0 {
		kind = rapid.IntRange(0, 3).Draw(t, "kind")
	}
	switch kind {
	case 1:
		return `[` + drawValue(t, depth-1) + `]`
	case 2:
		return drawObject(t, depth-1)
	default:
		return rapid.SampledFrom([]string{`null`, `true`, `0`, `1`, `1.0`, `2`, `"a"`, `"ab"`, `"B"`, `[]`,
			`{}`}).Draw(t, "scalar")
	}
}

func drawObject(t *rapid.T, depth int) string {
	var members []string
	for _, name := range []string{"a", "b", "c", "x"} {
		if rapid.IntRange(0, 2).Draw(t, name) > 0 {
			members = append(members, `"`+name+`":`+drawValue(t, depth))
		}
	}
	return `{` + strings.Join(members, ",") + `}`
}
