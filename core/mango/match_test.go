package mango

import (
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func matches(t *testing.T, selector, body string, fields ...Field) bool {
	t.Helper()
	s, err := Compile([]byte(selector))
	if err != nil {
		t.Fatalf("%s: %v", selector, err)
	}
	got, err := s.Match([]byte(body), fields...)
	if err != nil {
		t.Fatalf("%s on %s: %v", selector, body, err)
	}
	return got
}

// TestConditions applies conditions, and then their negations, to the field x. The cases are those
// that CouchDB's own tests hold, and more.
func TestConditions(t *testing.T) {
	for _, c := range []struct {
		condition string
		yes, no   []string
	}{
		{`{"$lt":5}`, []string{`4`, `null`, `true`, `4.999999999999999999999`}, []string{`5`, `6`, `"4"`, `[]`, `{}`}},
		{`{"$lt":"hello"}`, []string{`"held"`, `"HELD"`, `7`}, []string{`"hello"`, `"help"`, `"Hello"`}},
		{`{"$lt":[1,2,3]}`, []string{`[1,2,2]`, `[1,2]`}, []string{`[1,2,3]`, `[1,2,4]`, `[1,3]`}},
		{`{"$lte":5}`, []string{`4`, `5`, `5.0`}, []string{`6`}},
		{`{"$lte":"hello"}`, []string{`"held"`, `"hello"`}, []string{`"help"`}},
		{`{"$lte":[1,2,3]}`, []string{`[1,2,2]`, `[1,2]`, `[1,2,3]`}, []string{`[1,2,4]`, `[1,3]`}},
		{`{"$gt":5}`, []string{`6`, `""`, `9007199254740993`}, []string{`4`, `5`, `null`}},
		{`{"$gt":9007199254740992}`, []string{`9007199254740993`}, []string{`9007199254740992.0`}},
		{`{"$gt":"hello"}`, []string{`"help"`}, []string{`"held"`, `"hello"`}},
		{`{"$gte":[1,2,3]}`, []string{`[1,2,3]`, `[1,2,4]`, `[1,3]`}, []string{`[1,2,2]`, `[1,2]`}},
		{`{"$gte":5}`, []string{`5`, `6`}, []string{`4`}},
		{`{"$eq":5}`, []string{`5`, `5.0`, `0.5e1`}, []string{`6`, `"5"`, `[5]`}},
		{`{"$eq":[1,[2,3,4],5]}`, []string{`[1,[2,3,4],5]`},
			[]string{`[1,[2,3,4]]`, `[1,[2,3,4],5,6]`, `[1,[2,7,4],5]`}},
		{`{"$eq":{"a":{"b":{"c":7}}}}`, []string{`{"a":{"b":{"c":7}}}`},
			[]string{`{"a":{"b":{"c":8}}}`, `{"a":{"b":{"d":7}}}`, `{"a":{"d":{"c":7}}}`}},
		{`{"$eq":{"a":1,"b":2}}`, []string{`{"a":1,"b":2}`, `{"a":0,"a":1,"b":2}`}, []string{`{"b":2,"a":1}`}},
		{`{"$ne":5}`, []string{`6`, `null`}, []string{`5`}},
		{`{"$ne":[1,[2,3,4],5]}`, []string{`[1,[2,3,4]]`, `[1,[2,7,4],5]`}, []string{`[1,[2,3,4],5]`}},
		{`{"$in":[]}`, nil, []string{`0`, `true`, `"foo"`, `[]`}},
		{`{"$in":[42,false,"bar",[["nested"],"list"],{"b":2}]}`,
			[]string{`42`, `false`, `"bar"`, `{"b":2}`, `[0,42]`, `[0,false]`, `[0,"bar"]`, `[0,{"b":2}]`,
				`[0,[["nested"],"list"]]`},
			[]string{`43`, `true`, `"bars"`, `{"b":2,"c":3}`, `[["nested"],"list"]`, `[]`}},
		{`{"$nin":[]}`, []string{`0`, `true`, `"foo"`, `[]`}, nil},
		{`{"$nin":[42,[["nested"],"list"]]}`, []string{`43`, `[["nested"],"list"]`, `[]`},
			[]string{`42`, `[0,42]`, `[0,[["nested"],"list"]]`}},
		{`{"$all":[]}`, nil, []string{`[]`, `[42]`, `{}`, `"foo"`}},
		{`{"$all":[1,2,3,4]}`, []string{`[3,2,4,1]`, `[0,4,3,5,2,1,6]`}, []string{`[3,2,4]`, `[]`, `[1.0,2,3,4]`}},
		{`{"$all":[[1,2,3,4]]}`, []string{`[1,2,3,4]`, `[5,[1,2,3,4],6]`, `[1.0,2,3,4]`},
			[]string{`[4,3,2,1]`, `[1,3,4]`, `[]`, `[5,[1,3,4],6]`, `[5,[1,3,2,4],6]`}},
		{`{"$all":["hello"]}`, []string{`["hello"]`, `[0,"hello",1]`}, []string{`"hello"`, `[]`}},
		{`{"$all":[{"a":1}]}`, []string{`[{"a":1}]`}, []string{`[{"a":1,"b":2}]`}},
		{`{"$type":"null"}`, []string{`null`}, []string{`false`, `{}`}},
		{`{"$type":"boolean"}`, []string{`true`, `false`}, []string{`0`}},
		{`{"$type":"number"}`, []string{`42`, `3.14`, `0`}, []string{`true`, `[1]`, `"1"`}},
		{`{"$type":"string"}`, []string{`""`, `"hello"`}, []string{`[]`}},
		{`{"$type":"array"}`, []string{`[]`, `[1,2]`}, []string{`{}`, `"hi"`}},
		{`{"$type":"object"}`, []string{`{}`, `{"a":1}`}, []string{`[{"a":1}]`, `null`}},
		{`{"$type":"nonsense"}`, nil, []string{`{}`, `null`, `1`}},
		{`{"$regex":"^[0-9a-f]+$"}`, []string{`"3a0df5e"`}, []string{`""`, `"3a0gf5e"`, `42`}},
		{`{"$regex":"\\bréplique\\b"}`, []string{`"une réplique"`}, []string{`"repliquer"`}},
		{`{"$beginsWith":"foo"}`, []string{`"foo"`, `"food"`, `"fool me once"`}, []string{`"more food"`, `"fo"`, `42`}},
		{`{"$mod":[28,1]}`, []string{`1`, `29`, `57`, `2800000000000000000000000001`},
			[]string{`58`, `"57"`, `29.0`, `-27`}},
		{`{"$mod":[100000000000000000,99999999999999999]}`,
			[]string{`99999999999999999`, `1099999999999999999`, `12399999999999999999`}, []string{`1`}},
		{`{"$mod":[-100000000000000000,-1]}`, []string{`-1`, `-100000000000000001`}, []string{`1`}},
		{`{"$mod":[-3,-2]}`, []string{`-2`, `-5`}, []string{`2`, `1`}},
		{`{"$size":3}`, []string{`[0,0,0]`}, []string{`3`, `"fun"`, `[0,0]`, `[0,0,0,0]`, `{"a":1,"b":1,"c":1}`}},
		{`{"$size":-0}`, []string{`[]`}, []string{`[0]`}},
		{`{"$size":99999999999999999999}`, nil, []string{`[]`, `[0]`}},
		{`{"$allMatch":{"$eq":0}}`, []string{`[0]`, `[0,0]`}, []string{`[]`, `[1]`, `[0,1]`, `0`, `{"a":0}`}},
		{`{"$elemMatch":{"$ne":0}}`, []string{`[1]`, `[0,1]`}, []string{`[]`, `[0]`, `1`}},
		{`{"$elemMatch":{"$eq":0}}`, []string{`[0]`, `[0,1]`}, []string{`[]`, `[1]`, `{"a":0}`}},
		{`{"$elemMatch":{"$gte":80,"$lt":85}}`, []string{`[1,82]`}, []string{`[85,79]`}},
		{`{"$elemMatch":{"a":1,"b.c":2}}`, []string{`[0,{"a":1,"b":{"c":2}}]`}, []string{`[{"a":1},{"b":{"c":2}}]`}},
		{`{"$elemMatch":{"$not":{"a":1}}}`, []string{`[{"b":1}]`, `[5]`, `[{"a":2}]`}, []string{`[{"a":1}]`, `[]`}},
		{`{"$elemMatch":{"$nor":[{"$eq":1},{"$eq":2}]}}`, []string{`[1,3]`}, []string{`[1,2]`}},
		{`{"$elemMatch":{"$elemMatch":{"$eq":1}}}`, []string{`[[0],[2,1]]`}, []string{`[1]`}},
		{`{"$keyMapMatch":{"$regex":"^[a-z]+$"}}`, []string{`{"hello":0}`, `{"a":1,"b":2}`, `{"a":1,"b4":2}`},
			[]string{`{"b4":2}`, `{}`, `["hello"]`}},
	} {
		for _, v := range c.yes {
			check(t, c.condition, v, true)
		}
		for _, v := range c.no {
			check(t, c.condition, v, false)
		}
	}
}

func check(t *testing.T, condition, v string, want bool) {
	t.Helper()
	doc := `{"w":0,"x":` + v + `}`
	if got := matches(t, `{"x":`+condition+`}`, doc); got != want {
		t.Errorf("%s on %s: %v", condition, v, got)
	}
	if got := matches(t, `{"x":{"$not":`+condition+`}}`, doc); got == want {
		t.Errorf("not %s on %s: %v", condition, v, got)
	}
}

func TestDocuments(t *testing.T) {
	id := Field{"_id", jsontext.Value(`"foo"`)}
	rev := Field{"_rev", jsontext.Value(`"1-bar"`)}
	for _, c := range []struct {
		selector, doc string
		want          bool
	}{
		{`{}`, `{}`, true},
		{`{}`, `{"x":1}`, true},
		// A bare object asks for members; an empty one for an empty object.
		{`{"x":{}}`, `{"x":{}}`, true},
		{`{"x":{}}`, `{"x":{"a":1}}`, false},
		{`{"x":{}}`, `{}`, false},
		{`{"$not":{"x":{}}}`, `{}`, false},
		{`{"$not":{"x":{}}}`, `{"x":[]}`, true},
		{`{"x":{"a":1}}`, `{"x":{"a":1,"b":2}}`, true},
		{`{"x":{"a":1,"b":2}}`, `{"x":{"a":1}}`, false},
		{`{"x.b":2}`, `{"x":{"a":1,"b":2}}`, true},
		{`{"x\\.b":2}`, `{"x":{"b":2}}`, false},
		{`{"x\\.b":2}`, `{"x.b":2}`, true},
		// Fields below one path are each their own.
		{`{"a.b.c":{"x":1,"y":2}}`, `{"a":{"b":{"c":{"x":1,"y":2}}}}`, true},
		{`{"a.b.c":{"x":1,"y":2}}`, `{"a":{"b":{"c":{"x":2,"y":2}}}}`, false},
		// An index leads into an array.
		{`{"x.1":2}`, `{"x":[1,2]}`, true},
		{`{"x.0":1}`, `{"x":[1,2]}`, true},
		{`{"x.2":2}`, `{"x":[1,2]}`, false},
		{`{"x.-1":2}`, `{"x":[1,2]}`, false},
		{`{"x.a":2}`, `{"x":[{"a":2}]}`, false},
		// What is missing fulfils nothing but $exists:false, negated or not, and only if the path leads
		// through objects.
		{`{"x":{"$exists":true}}`, `{"x":null}`, true},
		{`{"x":{"$exists":true}}`, `{}`, false},
		{`{"x":{"$exists":false}}`, `{}`, true},
		{`{"x":{"$exists":false}}`, `{"x":null}`, false},
		{`{"$not":{"x":{"$exists":true}}}`, `{}`, true},
		{`{"x.y":{"$exists":false}}`, `{"x":{}}`, true},
		{`{"x.y":{"$exists":false}}`, `{"x":5}`, false},
		{`{"x.7":{"$exists":false}}`, `{"x":[]}`, false},
		{`{"x":{"$ne":5}}`, `{}`, false},
		{`{"$not":{"x":5}}`, `{}`, false},
		{`{"$not":{"x":{"$regex":"a"}}}`, `{}`, false},
		{`{"x":{"$not":{"$exists":true,"$eq":0}}}`, `{}`, true},
		{`{"x":{"$not":{"$exists":true,"$eq":0}}}`, `{"x":0}`, false},
		// Empty combinations are true.
		{`{"x":{"$and":[]}}`, `{}`, true},
		{`{"x":{"$or":[]}}`, `{}`, true},
		{`{"x":{"$nor":[]}}`, `{}`, true},
		{`{"x":{"$not":{"$and":[]}}}`, `{}`, true},
		{`{"x":{"$not":{"$or":[]}}}`, `{}`, true},
		{`{"x":{"$and":[{"$gt":3},{"$lt":7}]}}`, `{"x":6}`, true},
		{`{"x":{"$and":[{"$gt":3},{"$lt":7}]}}`, `{"x":9}`, false},
		{`{"x":{"$not":{"$and":[{"$gt":3},{"$lt":7}]}}}`, `{"x":2}`, true},
		{`{"x":{"$not":{"$and":[{"$gt":3},{"$lt":7}]}}}`, `{}`, false},
		{`{"x":{"$or":[{"$lt":3},{"$gt":7}]}}`, `{"x":9}`, true},
		{`{"x":{"$or":[{"$lt":3},{"$gt":7}]}}`, `{"x":6}`, false},
		{`{"x":{"$nor":[{"$lt":3},{"$gt":7}]}}`, `{"x":6}`, true},
		{`{"x":{"$nor":[{"$lt":3},{"$gt":7}]}}`, `{}`, false},
		{`{"$text":"anything"}`, `{}`, true},
		// The last of repeated names counts.
		{`{"x":2}`, `{"x":1,"x":2}`, true},
		{`{"x":1}`, `{"x":1,"x":2}`, false},
		{`{"x":{"a":2}}`, `{"x":{"a":1,"a":2}}`, true},
		// Ids and revisions are fields too; ids compare by bytes.
		{`{"_id":"foo","_rev":"1-bar","user":11}`, `{"user":11}`, true},
		{`{"_id":"foo","_rev":"1-baz"}`, `{}`, false},
		{`{"_id":{"$gt":"Z"}}`, `{}`, true},
		{`{"_id":{"$lt":"fop","$gt":null,"$in":["a","foo"]}}`, `{}`, true},
		{`{"_id":{"$lt":{}}}`, `{}`, false},
		{`{"_id":"bar"}`, `{"_id":"bar"}`, false},
		// The document itself.
		{`{"$and":[{"$keyMapMatch":{"$eq":"_rev"}}]}`, `{"user":11}`, true},
		{`{"$and":[{"$eq":{"_id":"foo","_rev":"1-bar","user":11}}]}`, `{"user":11,"_id":1}`, true},
		{`{"caf\u00e9":1}`, "{\"caf\\u00e9\":1}", true},
		{`{"x":"\ufffd"}`, "{\"x\":\"\xff\"}", true},
	} {
		if got := matches(t, c.selector, c.doc, id, rev); got != c.want {
			t.Errorf("%s on %s: %v", c.selector, c.doc, got)
		}
	}
}

func TestMatchRefusesWhatIsNoDocument(t *testing.T) {
	s, err := Compile([]byte(`{"x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		``, `null`, `[1]`, `{"x":1`, `{"x":`, `{"x"`, `{"y":[}]}`,
		`{"x":1}}`, `{"x":1} {}`, `{"x":1,}`, `{,}`, `{"x":1]`,
	} {
		if got, err := s.Match([]byte(body)); err == nil {
			t.Errorf("%s: %v without error", body, got)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	s, err := Compile([]byte(`{"type":"order","total":{"$gte":10,"$lt":2000},` +
		`"customer.country":{"$in":["at","ch","de"]}}`))
	if err != nil {
		b.Fatal(err)
	}
	doc := []byte(`{"type":"order","number":"2026-000123",` +
		`"customer":{"name":"Grete Muster","street":"Am Platz 1","city":"Graz","country":"at"},` +
		`"lines":[{"sku":"a-1","n":2,"price":12.5},{"sku":"b-7","n":1,"price":99},{"sku":"c-3","n":10,"price":0.99}],` +
		`"total":133.9,"notes":"Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor ` +
		`incididunt ut labore et dolore magna."}`)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := s.Match(doc); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// TestCutDocuments: a document that is cut off anywhere is refused, and one with a byte that no JSON has.
func TestCutDocuments(t *testing.T) {
	const text = `{"a":1,"b":{"c":[true,null,"x"]},"d":-1.5e3}`
	s, err := Compile([]byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Match([]byte(text)); err != nil || !got {
		t.Fatalf("the whole document: %v, %v", got, err)
	}
	for i := range len(text) {
		for _, bad := range []string{text[:i], text[:i] + "\x01" + text[i:], text[:i] + "\x01" + text[i+1:]} {
			if got, err := s.Match([]byte(bad)); err == nil {
				t.Errorf("%q is read: %v", bad, got)
			}
		}
	}
}

// TestManyOperands: a long list of operands is compared with a long array, and many conditions with one large member,
// in a time that grows with both, not with their product.
func TestManyOperands(t *testing.T) {
	const many = 50_000
	var low, all, conditions []string
	for i := range 2 * many {
		if all = append(all, strconv.Itoa(i)); i < many {
			low, conditions = append(low, strconv.Itoa(i)), append(conditions, `{"x.`+strconv.Itoa(i)+`":true}`)
		}
	}
	list := func(a []string) string { return "[" + strings.Join(a, ",") + "]" }
	high := `{"x":` + list(all[many:]) + `}`
	for selector, want := range map[string]bool{
		`{"x":{"$in":` + list(low) + `}}`:  false,
		`{"x":{"$nin":` + list(low) + `}}`: true,
		`{"x":{"$all":` + list(low) + `}}`: false,
		`{"$or":` + list(conditions) + `}`: false,
	} {
		if matches(t, selector, high) != want {
			t.Errorf("%.20s is %v", selector, !want)
		}
	}
	if !matches(t, `{"x":{"$all":`+list(low)+`}}`, `{"x":`+list(all)+`}`) {
		t.Error("an array of all operands does not have all")
	}
}

// TestCostlyMatches: a match whose cost would be the product of two sizes, or more, ends with an error; one that looks
// at each condition and each member once does not.
func TestCostlyMatches(t *testing.T) {
	const many = 50_000
	list := func(n int, each func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = each(i)
		}
		return strings.Join(all, ",")
	}
	same := func(text string) func(int) string { return func(int) string { return text } }
	conditions := func(on, condition string) func(int) string {
		return func(i int) string { return `{"` + on + strconv.Itoa(i) + `":` + condition + `}` }
	}
	members := list(many, func(i int) string { return `"m` + strconv.Itoa(i) + `":0` })
	for name, c := range map[string]struct {
		selector, doc string
		costly        bool
	}{
		"conditions on members": {`"$or":[` + list(many, conditions("m", `1`)) + `]`, members, false},
		"on what is missing":    {`"$or":[` + list(many, conditions("x", `1`)) + `]`, members, false},
		"on nested members":     {`"$or":[` + list(many, conditions("o.m", `1`)) + `]`, `"o":{` + members + `}`, true},
		"in some elements": {`"x":{"$allMatch":{"$or":[` + list(20, same(`{"a":1}`)) + `,{"b":2}]}}`,
			`"x":[` + list(5000, same(`{"c":0,"d":0,"e":0,"f":0,"g":0,"b":2}`)) + `]`, false},
		"in many elements": {`"x":{"$allMatch":{"$or":[` + list(many, same(`{"a":1}`)) + `,{"b":2}]}}`,
			`"x":[` + list(5000, same(`{"b":2}`)) + `]`, true},
		"in any element": {`"x":{"$elemMatch":{"$nor":[` + list(many, same(`{"a":1}`)) + `,{"b":2}]}}`,
			`"x":[` + list(5000, same(`{"b":2}`)) + `]`, true},
		"on a long number": {`"$or":[` + list(1000, same(`{"x":{"$gt":1e9999999}}`)) + `]`,
			`"x":1` + strings.Repeat("0", 1<<20), true},
		"rests of a number": {`"$or":[` + list(1000, same(`{"x":{"$mod":[2,1]}}`)) + `]`,
			`"x":1` + strings.Repeat("0", 1<<20), true},
		"on ignored characters": {`"$or":[` + list(1000, same(`{"x":{"$lt":"a"}}`)) + `]`,
			`"x":"b` + strings.Repeat(`\u0001`, 1<<20) + `"`, false},
		"behind ignored characters": {`"$or":[` + list(1000, same(`{"x":{"$lt":"a"}}`)) + `]`,
			`"x":"` + strings.Repeat(`\u0001`, 1<<20) + `b"`, true},
		"operands of a large value": {`"$or":[` + list(1000, same(`{"x":{"$in":["a"]}}`)) + `]`,
			`"x":"` + strings.Repeat("b", 1<<20) + `"`, true},
		"operands in a large array": {`"$or":[` + list(1000, same(`{"x":{"$all":["a"]}}`)) + `]`,
			`"x":["` + strings.Repeat("b", 1<<20) + `"]`, true},
		"a regular expression": {`"x":{"$regex":"b{5}$"}`, `"x":"` + strings.Repeat("b", 1<<20) + `"`, false},
		"a large one":          {`"x":{"$regex":"(b?){1000}c"}`, `"x":"` + strings.Repeat("b", 1<<20) + `"`, true},
		"in empty texts": {`"x":{"$elemMatch":{"$regex":"(b?){1000}c"}}`,
			`"x":[` + list(12_000, same(`""`)) + `]`, false},
		"in many empty texts": {`"x":{"$elemMatch":{"$regex":"(b?){1000}c"}}`,
			`"x":[` + list(24_000, same(`""`)) + `]`, true},
		"of the whole": {`"$and":[` + list(1000, same(`{"$gt":null}`)) + `]`, members, false},
	} {
		s, err := Compile([]byte("{" + c.selector + "}"))
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := s.Match([]byte("{" + c.doc + "}")); (err == errCostly) != c.costly || !c.costly && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
