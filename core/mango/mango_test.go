package mango

import (
	"errors"
	"strings"
	"testing"

	"couchrelay/core/ejson"
)

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                        `{}`,
		`{"a":1}`:                   `{"a":{"$eq":1}}`,
		`{"x":{}}`:                  `{"x":{"$eq":{}}}`,
		`{"$not":{"x":{}}}`:         `{"x":{"$ne":{}}}`,
		`{"x":{"a":1}}`:             `{"x.a":{"$eq":1}}`,
		`{"x":{"a":1,"b":2}}`:       `{"$and":[{"x.a":{"$eq":1}},{"x.b":{"$eq":2}}]}`,
		`{"x":{"$not":{"$eq":0}}}`:  `{"x":{"$ne":0}}`,
		`{"a\\.b":1}`:               `{"a\\.b":{"$eq":1}}`, // as CouchDB's releases; its main branch drops backslashes
		`{"a.b\\.c":1}`:             `{"a.b\\.c":{"$eq":1}}`,
		`{"\\a":{"b\\.c":{"d":1}}}`: `{"\\a.b\\.c.d":{"$eq":1}}`,
		`{"b":2,"a":1}`:             `{"$and":[{"b":{"$eq":2}},{"a":{"$eq":1}}]}`,
		`{"a":{"$in":[{"y":1,"x":[{"q":1,"p":2}]}]}}`:   `{"a":{"$in":[{"x":[{"p":2,"q":1}],"y":1}]}}`,
		`{"$not":{"n":{"$lt":1.5}}}`:                    `{"n":{"$gte":1.5}}`,
		`{"$not":{"n":{"$lte":1}}}`:                     `{"n":{"$gt":1}}`,
		`{"$not":{"n":{"$gte":1}}}`:                     `{"n":{"$lt":1}}`,
		`{"$not":{"n":{"$gt":1}}}`:                      `{"n":{"$lte":1}}`,
		`{"$not":{"n":{"$in":[1]}}}`:                    `{"n":{"$nin":[1]}}`,
		`{"$nor":[{"n":{"$nin":[1]}},{"m":{"$ne":2}}]}`: `{"$and":[{"n":{"$in":[1]}},{"m":{"$eq":2}}]}`,
		`{"$not":{"n":{"$exists":true}}}`:               `{"n":{"$exists":false}}`,
		`{"$not":{"n":{"$exists":false}}}`:              `{"n":{"$exists":true}}`,
		`{"$not":{"n":{"$regex":"^a"}}}`:                `{"n":{"$not":{"$regex":"^a"}}}`,
		`{"$not":{"$not":{"n":{"$size":1}}}}`:           `{"n":{"$size":1}}`,
		`{"n":{"$not":{"$not":{"$size":1}}}}`:           `{"n":{"$size":1}}`,
		`{"$not":{"$nor":[{"a":1},{"$not":{"b":2}}]}}`:  `{"$or":[{"a":{"$eq":1}},{"b":{"$ne":2}}]}`,
		`{"$not":{"$or":[{"a":1},{"b":2}]}}`:            `{"$and":[{"a":{"$ne":1}},{"b":{"$ne":2}}]}`,
		`{"$not":{"$and":[{"a":1},{"b":2}]}}`:           `{"$or":[{"a":{"$ne":1}},{"b":{"$ne":2}}]}`,
		`{"a":{"$elemMatch":{"$gte":80,"$lt":85}}}`: `{"a":{"$elemMatch":{"$and":[{"":{"$gte":80}},` +
			`{"":{"$lt":85}}]}}}`,
		`{"a":{"$allMatch":{"b":1}}}`:             `{"a":{"$allMatch":{"b":{"$eq":1}}}}`,
		`{"a":{"$keyMapMatch":{"$eq":"k"}}}`:      `{"a":{"$keyMapMatch":{"":{"$eq":"k"}}}}`,
		`{"a":{"$elemMatch":{"$not":{"b":1}}}}`:   `{"a":{"$elemMatch":{"$not":{"b":{"$eq":1}}}}}`,
		`{"a":{"$elemMatch":{"$nor":[{"b":1}]}}}`: `{"a":{"$elemMatch":{"$nor":[{"b":{"$eq":1}}]}}}`,
		`{"a":{"$elemMatch":{}}}`:                 `{"a":{"$elemMatch":{"":{"$eq":{}}}}}`,
		`{"$not":{"a":{"$elemMatch":{"b":1}}}}`:   `{"a":{"$not":{"$elemMatch":{"b":{"$eq":1}}}}}`,
		`{"$text":"words"}`:                       `{"$default":{"$text":"words"}}`,
		`{"$default":{"$text":"words"}}`:          `{"$default":{"$text":"words"}}`,
		`{"$and":[{"$eq":1},5]}`:                  `{"$and":[{"":{"$eq":1}},{"":{"$eq":5}}]}`,
		`{"type":"user","a":{"b":{"$gt":5}}}`:     `{"$and":[{"type":{"$eq":"user"}},{"a.b":{"$gt":5}}]}`,
		`{"a":{"$regex":"(?=look)ahead"},"b":{"$regex":"(x)\\1++"}}`: `{"$and":[{"a":{"$regex":"(?=look)ahead"}},` +
			`{"b":{"$regex":"(x)\\1++"}}]}`,
	} {
		got, err := Normalize([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s %v, want %s", in, got, err, want)
		}
	}
}

func TestRefusedSelectors(t *testing.T) {
	long := strings.Repeat("x.", 50_000) + "x"
	for in, want := range map[string]string{
		`{"a":{"$in":1}}`:        "bad_arg",
		`{"a":{"$nin":{}}}`:      "bad_arg",
		`{"a":{"$all":"x"}}`:     "bad_arg",
		`{"a":{"$exists":1}}`:    "bad_arg",
		`{"a":{"$type":1}}`:      "bad_arg",
		`{"a":{"$mod":[1]}}`:     "bad_arg",
		`{"a":{"$mod":[1,2,3]}}`: "bad_arg",
		`{"a":{"$mod":[1.0,1]}}`: "bad_arg",
		`{"a":{"$mod":[0,1]}}`:   "bad_arg",

		`{"a":{"$mod":[-100000000000000001,1]}}`: "bad_arg",
		`{"a":{"$mod":[100000000000000001,1]}}`:  "bad_arg",
		`{"$default":{"$text":"x","b":1}}`:       "bad_field",

		`{"a":{"$regex":1}}`:          "bad_arg",
		`{"a":{"$regex":"("}}`:        "bad_arg",
		`{"a":{"$regex":"[a"}}`:       "bad_arg",
		`{"a":{"$regex":"*"}}`:        "bad_arg",
		`{"a":{"$size":-1}}`:          "bad_arg",
		`{"a":{"$size":1.0}}`:         "bad_arg",
		`{"a":{"$beginsWith":1}}`:     "bad_arg",
		`{"a":{"$elemMatch":[]}}`:     "bad_arg",
		`{"a":{"$allMatch":1}}`:       "bad_arg",
		`{"a":{"$keyMapMatch":null}}`: "bad_arg",
		`{"$and":{}}`:                 "bad_arg",
		`{"$or":1}`:                   "bad_arg",
		`{"$nor":"x"}`:                "bad_arg",
		`{"$not":[]}`:                 "bad_arg",
		`{"$text":null}`:              "bad_arg",
		`{"$not":{"$text":"x"}}`:      "bad_arg",
		`{"$nor":[{"$text":"x"}]}`:    "bad_arg",
		`{"a":{"$text":"x"}}`:         "bad_field",
		`{"$default":{"$eq":"x"}}`:    "bad_field",
		`{"$default":1}`:              "bad_field",
		`{"a":{"$where":"x"}}`:        "not_supported",
		`{"a":{"$near":"x"}}`:         "not_supported",
		`{"a":{"$foo":1}}`:            "invalid_operator",
		`{"$":1}`:                     "invalid_operator",
		`{"":1}`:                      "invalid_field_name",
		`{"a..b":1}`:                  "invalid_field_name",
		`{"a.":1}`:                    "invalid_field_name",
		`{".a\\.b":1}`:                "invalid_field_name",
		`{"$eq":5}`:                   "invalid_selector",
		`{"$elemMatch":{"a":1}}`:      "invalid_selector",
		`[]`:                          "invalid_selector_json",
		`null`:                        "invalid_selector_json",
		`{"` + long + `":{"$or":[1` + strings.Repeat(",1", 100) + `]}}`:                  "invalid_selector",
		`{"` + long + `":{"$and":[` + strings.Repeat(`{"a":{"$and":[]}},`, 100) + `1]}}`: "invalid_selector",
		strings.Repeat(`{"a":`, 1000) + `1` + strings.Repeat(`}`, 1000):                  "invalid_selector",
	} {
		_, err := Normalize([]byte(in))
		if mistake := (*Error)(nil); !errors.As(err, &mistake) || mistake.Name != want || mistake.Reason == "" {
			t.Errorf("%.60s: got %v, want %s", in, err, want)
		}
	}
	for _, in := range []string{``, `{`, `{"a":"\xff"}`, `{"a":1} x`} {
		if _, err := Normalize([]byte(in)); !errors.Is(err, ejson.ErrSyntax) {
			t.Errorf("%s: got %v", in, err)
		}
		if _, err := Compile([]byte(in)); !errors.Is(err, ejson.ErrSyntax) {
			t.Errorf("%s is compiled: %v", in, err)
		}
	}
	if _, err := Compile([]byte(`{"$not":{"a":{"$elemMatch":{"$regex":"(?=x)"}}}}`)); err == nil {
		t.Error("a regex that RE2 does not know was compiled")
	}
}

func TestCollation(t *testing.T) {
	ordered := []string{
		`null`, `false`, `true`,
		`-1e400`, `-12345678901234567891`, `-12345678901234567890.5`, `-12345678901234567890`, `-1.5`, `-1`, `-0.1`,
		`-1e-400`,
		`0`, `1e-400`, `0.001`, `0.01`, `0.1`, `0.10000000000000000001`, `1`, `1.0000000000000000001`, `2`, `9`, `10`,
		`1e2`, `101`,
		`9007199254740992`, `9007199254740993`, `1e400`, `1.1e400`, `1e99999999999999999999`,
		`""`, `"\u0001"`, `"\u0001a"`, `"a"`, `"A"`, `"aa"`, `"aA"`, `"Aa"`, `"ab"`, `"b"`, `"B"`, `"ba"`, `"bb"`,
		`"é"`, `"中"`, `"😀"`,
		`[]`, `[null]`, `["a"]`, `["a","b"]`, `["b"]`, `[["a"]]`,
		`{}`, `{"a":1}`, `{"a":1,"b":1}`, `{"a":2}`, `{"b":1}`, `{"b":2,"a":1}`,
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := Compare(value(t, a), value(t, b)); sign(got) != sign(i-j) {
				t.Errorf("Compare(%s, %s) = %d", a, b, got)
			}
			for _, exact := range []bool{false, true} {
				if alike := key(t, a, exact) == key(t, b, exact); alike != (i == j) {
					t.Errorf("%s and %s have alike keys: %v", a, b, alike)
				}
			}
		}
	}
	for _, pair := range [][2]string{
		{`1`, `1.0`}, {`0`, `-0.0e7`}, {`100`, `1E+2`}, {`0.5`, `5e-1`}, {`[1]`, `[1.0]`}, {`{"a":10}`, `{"a":1e1}`},
	} {
		if got := Compare(value(t, pair[0]), value(t, pair[1])); got != 0 {
			t.Errorf("Compare(%s, %s) = %d", pair[0], pair[1], got)
		}
		if key(t, pair[0], false) != key(t, pair[1], false) {
			t.Errorf("%s has another key than %s", pair[0], pair[1])
		}
		if key(t, pair[0], true) == key(t, pair[1], true) && pair[0] != "0.5" {
			t.Errorf("%s is identical to %s", pair[0], pair[1])
		}
	}
	// Punctuation, recorded from ICU 78 with the root locale.
	punctuation := "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0aAbBzZ"
	order := new(steps).compareStrings
	for i := range len(punctuation) - 1 {
		if a, b := punctuation[i:i+1], punctuation[i+1:i+2]; order(a, b) >= 0 || order(b, a) <= 0 {
			t.Errorf("%q does not come before %q", a, b)
		}
	}
}

func key(t testing.TB, raw string, exact bool) string {
	return string(appendKey(nil, value(t, raw), exact))
}

func value(t testing.TB, raw string) ejson.Value {
	v, err := ejson.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func sign(i int) int { return min(max(i, -1), 1) }
