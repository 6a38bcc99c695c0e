package spec

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/ejson"
)

// object is the text of an object with a member for each number, with the same value.
func object(n int, name func(i int) string, value string) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `,"%s":%s`, name(i), value)
	}
	return "{" + text.String()[1:] + "}"
}

// TestLargeDocuments: what takes a few megabytes is read in the time of a transaction, whatever it has many of.
func TestLargeDocuments(t *testing.T) {
	const many = 150_000
	numbered := func(i int) string { return fmt.Sprint("h", i) }
	spelled := func(i int) string { // one name, spelled in as many ways
		name := []byte("abcdefghijklmnopqrst")
		for bit := range name {
			if i&(1<<bit) != 0 {
				name[bit] -= 'a' - 'A'
			}
		}
		return string(name)
	}
	document := func(side string) ejson.Value {
		return parsed(t, `{"source":`+side+`,"target":"http://h/b"}`)
	}
	for what, headers := range map[string]string{
		"headers":                object(many, numbered, `"v"`),
		"spellings":              `{"Authorization":"Bearer x",` + object(many, spelled, `"v"`)[1:],
		"a secret among headers": `{"x":{"secret":"s"},` + object(many, numbered, `"v"`)[1:],
	} {
		body := document(`{"url":"http://h/a","headers":` + headers + `}`)
		if _, err := ParseDocument(body, DefaultConfig()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, side := range map[string]func(value string) string{
		"headers": func(v string) string {
			return `{"url":"http://h/a","headers":` + object(many, numbered, v) + `}`
		},
		"auth": func(v string) string {
			all := object(many, numbered, v)
			return `{"url":"http://h/a","auth":{"basic":` + all + `,` + all[1:] + `}`
		},
		"members": func(v string) string { return object(many, numbered, v) },
	} {
		was, next := document(side(`"v"`)), document(side(`"*****"`))
		got, err := Unmask(next, was)
		source, _ := got.Get("source")
		if text := string(source.Append(nil)); err != nil || what == "headers" && strings.Contains(text, "*") {
			t.Errorf("%s: %v: %.99s", what, err, text)
		}
	}
	was, next := parsed(t, object(many, numbered, `"v"`)), parsed(t, object(many, numbered, `"*****"`))
	if _, err := Unmask(next, was); err != nil {
		t.Error(err)
	}
}

// TestSecretHeaderTwice: a header of a secret must not be there twice, however its name is spelled.
func TestSecretHeaderTwice(t *testing.T) {
	const secret = `{"secret":"s"}`
	for headers, twice := range map[string]bool{
		`{"x":` + secret + `,"X":"v"}`: true, `{"x":"v","X":` + secret + `}`: true, `{"x":"v","X":"w"}`: false,
		`{"x":` + secret + `,"y":` + secret + `}`: false,
	} {
		body := parsed(t, `{"source":{"url":"http://h/a","headers":`+headers+`},"target":"http://h/b"}`)
		_, err := ParseDocument(body, DefaultConfig())
		if is := err != nil && strings.Contains(err.Error(), "twice"); is != twice || !twice && err != nil {
			t.Errorf("%s: %v", headers, err)
		}
	}
}

// TestLongestName: users may have names of 4096 bytes.
func TestLongestName(t *testing.T) {
	name := strings.Repeat("a", maxName)
	if got := document(t, `{"user_ctx":{"name":"`+name+`"},`+ends+"}"); got.User.Name != name {
		t.Errorf("the user is %q", got.User.Name)
	}
}
