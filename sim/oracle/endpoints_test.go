package oracle

import (
	"encoding/json"
	"testing"

	"couchrelay/core/spec"
)

func TestEndpoints(t *testing.T) {
	plain := spec.Endpoint{URL: "http://s1/a1/"}
	signed, headed := plain, plain
	signed.Credentials = spec.NewCredentials("u", "p")
	headed.Headers = []spec.Header{{Name: "X-Relay", Value: spec.Hide("1")}}
	for _, c := range []struct {
		text string
		is   spec.Endpoint
	}{
		{`"http://s1/a1/"`, plain},
		{`{"url":"http://s1/a1/"}`, plain},
		{`"http://u:p@s1/a1/"`, signed},
		{`{"url":"http://s1/a1/","auth":{"basic":{"username":"u","password":"p"}}}`, signed},
		{`{"url":"http://s1/a1/","headers":{"X-Relay":"1"}}`, headed},
	} {
		var e endpoint
		if err := json.Unmarshal([]byte(c.text), &e); err != nil {
			t.Fatal(err)
		}
		for i, of := range []spec.Endpoint{plain, signed, headed} {
			want := userinfoOf(of) == userinfoOf(c.is) && len(of.Headers) == len(c.is.Headers)
			if e.isAt(of) != want {
				t.Errorf("%s is endpoint %d: %v", c.text, i, !want)
			}
		}
	}
}
