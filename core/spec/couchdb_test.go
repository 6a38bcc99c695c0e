package spec

import (
	"slices"
	"testing"

	"couchrelay/core/ejson"
)

// TestBeyondCouchDB: what a CouchDB would need is told apart from what it runs without; what it has is neither.
func TestBeyondCouchDB(t *testing.T) {
	for in, want := range map[string][2][]string{ // needed, ignored
		`{"source":"http://s/a","target":{"url":"http://t/b"},"continuous":true,"paused":false}`: {},
		`{"source":{"auth":{"basic":{"username":"u","password":"p"}},"headers":{"X":"y"}}}`:      {},
		`{"source":"orders","target":{"url":"copy"}}`: {
			{"source without a server", "target without a server"}},
		`{"source":{"auth":{"bearer":"x"}},"target":{"auth":{"bearer":{"secret":"n"}}}}`: {
			{"source.auth.bearer", "target.auth.bearer"}},
		`{"target":{"auth":{"basic":{"username":"u","password":{"secret":"n"}}},"headers":{"A":{"secret":"n"}}}}`: {
			{"target.auth.basic.password.secret", "target.headers.A.secret"}},
		`{"paused":true,"weight":100}`: {{"paused"}, {"weight"}},
		`{"on_refusal":"skip"}`:        {},
		`{"source":{"url":"http://s/a","tls":"x"},"target":{"compression":"on"},"on_refusal":"fail"}`: {
			nil, {"source.tls", "target.compression", "on_refusal"}},
	} {
		body, err := ejson.Parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if needed, ignored := BeyondCouchDB(body); !slices.Equal(needed, want[0]) || !slices.Equal(ignored, want[1]) {
			t.Errorf("%s: %q and %q", in, needed, ignored)
		}
	}
}
