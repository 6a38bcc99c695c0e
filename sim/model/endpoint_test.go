package model

import "testing"

func TestEndpoints(t *testing.T) {
	const auth = `"auth":{"basic":{"username":"u","password":"p"}}`
	for _, c := range []struct {
		text string
		want string // what it means; empty if nothing
	}{
		{`"http://s1/a1/"`, "http://s1/a1/ by , headers <nil>"},
		{`{"url":"http://s1/a1/"}`, "http://s1/a1/ by , headers <nil>"},
		{`"http://u:p@s1/a1/"`, "http://s1/a1/ by u:p, headers <nil>"},
		{`{"url":"http://s1/a1/",` + auth + `}`, "http://s1/a1/ by u:p, headers <nil>"},
		{`{"url":"http://v:q@s1/a1/",` + auth + `}`, "http://s1/a1/ by u:p, headers <nil>"},
		{`{"url":"http://s1/a1/","headers":{"X":"1"}}`, "http://s1/a1/ by , headers map[X:1]"},
		{`{}`, ""},
		{`{"url":7}`, ""},
		{`{"url":"http://s1/a1/","headers":"X"}`, ""},
		{`{"url":"http://s1/a1/","auth":"u:p"}`, ""},
		{`{"url":"http://s1/a1/","auth":{"basic":"u:p"}}`, ""},
		{`"http://u:*****@s1/a1/"`, ""},
	} {
		doc, err := parse([]byte(`{"source":` + c.text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		v := doc.get("source")
		if got := endpoint(v); got != (c.want != "") {
			t.Errorf("%s is an endpoint: %v", c.text, got)
		} else if got && endpointOf(v) != c.want {
			t.Errorf("%s means %s, want %s", c.text, endpointOf(v), c.want)
		}
	}
}
