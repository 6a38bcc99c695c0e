package spec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/ejson"
)

// TestBearer: a token is kept, hidden, and with no other credentials beside it.
func TestBearer(t *testing.T) {
	parse := func(source string) (*Replication, error) {
		return ParseRequest([]byte(`{"source":`+source+`,"target":"http://t/b"}`), DefaultConfig())
	}
	r, err := parse(`{"url":"http://s/a","auth":{"bearer":"aB1-._~+/="},"tls":"partner"}`)
	if err != nil || r.Source.Bearer.Reveal() != "aB1-._~+/=" || r.Source.TLS != "partner" ||
		r.Source.Credentials.IsSet() {
		t.Fatalf("%+v, %v", r, err)
	}
	raw, err := Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(raw)
	if err != nil || back.Source.Bearer.Reveal() != "aB1-._~+/=" || !Equal(r, back) || back.Target.Bearer.IsSet() {
		t.Errorf("%+v, %v", back, err)
	}
	other, err := parse(`{"url":"http://s/a","auth":{"bearer":"other"},"tls":"partner"}`)
	if err != nil || Equal(r, other) {
		t.Errorf("another token is the same work: %v", err)
	}
	if text := fmt.Sprintf("%+v %#v", r, r); strings.Contains(text, "aB1") {
		t.Error(text)
	}
	const notToken, notName, twice = "`source.auth.bearer` must be", "`source.tls` must be the NAME", "one must go"
	for _, c := range []struct{ members, want string }{
		{`"auth":{"bearer":5}`, notToken}, {`"auth":{"bearer":""}`, notToken},
		{`"auth":{"bearer":"s3 cret"}`, notToken}, {`"auth":{"bearer":"s3cret\r\nX: y"}`, notToken},
		{`"auth":{"bearer":"s3cret"},"headers":{"authorization":"Bearer x"}`, twice},
		{`"auth":{"bearer":"s3cret","basic":{"username":"u","password":"p"}}`, twice},
		{`"auth":{"bearer":"s3cret"},"url":"http://u:p@s/a"`, twice},
		{`"tls":{"ca_file":"/etc/passwd"}`, notName}, {`"tls":"/etc/passwd"`, notName}, {`"tls":""`, notName},
	} {
		_, err := parse(`{"url":"http://s/a",` + c.members + `}`)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: %v", c.members, err)
		}
	}
}

// TestTLSNames: a name of 100 characters is the longest.
func TestTLSNames(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, "a": true, "A-b._0": true, "a b": false, "a/b": false,
		strings.Repeat("a", 100): true, strings.Repeat("a", 101): false,
	} {
		if IsTLSName(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}

// TestNamedBearer: a token may be named.
func TestNamedBearer(t *testing.T) {
	parse := func(auth string) (*Replication, error) {
		source := `{"url":"http://s/a","auth":{"bearer":` + auth + `}}`
		return ParseRequest([]byte(`{"source":`+source+`,"target":"http://t/b"}`), DefaultConfig())
	}
	r, err := parse(`{"secret":"orders"}`)
	if err != nil || r.Source.Bearer.Reference() != "orders" || !slices.Equal(r.References(), []string{"orders"}) {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, auth := range []string{`{}`, `{"secret":"../x"}`, `{"secret":"a","more":1}`, `["a"]`, `true`} {
		if _, err := parse(auth); err == nil || !strings.Contains(err.Error(), "`source.auth.bearer`") {
			t.Errorf("%s: %v", auth, err)
		}
	}
}

// TestMaskedBearer: a token that was shown as ***** stays for the same server. Another one takes its place, on any
// server.
func TestMaskedBearer(t *testing.T) {
	body := func(url, token string) ejson.Value {
		v, err := ejson.Parse([]byte(`{"source":{"url":"` + url + `","auth":{"bearer":"` + token + `"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	prev := body("http://s/a", "t0ken")
	if next, err := Unmask(body("http://s/b", mask), prev); err != nil || string(next.Append(nil)) !=
		string(body("http://s/b", "t0ken").Append(nil)) {
		t.Errorf("%s, %v", next.Append(nil), err)
	}
	if _, err := Unmask(body("http://other/a", mask), prev); !errors.Is(err, ErrMasked) {
		t.Errorf("a token was given to another server: %v", err)
	}
	for _, url := range []string{"http://s/a", "http://other/a"} {
		if next, err := Unmask(body(url, "new"), prev); err != nil || string(next.Append(nil)) !=
			string(body(url, "new").Append(nil)) {
			t.Errorf("%s, %v", next.Append(nil), err)
		}
	}
}
