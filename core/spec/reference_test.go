package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const referring = `{"source":{"url":"http://h/a",
	"headers":{"X-Token":{"secret":"token"},"authorization":{"secret":"a.b_C-1"}},
	"auth":{"basic":{"username":"u","password":{"secret":"orders"}}}},"target":"http://u:p@h/b"}`

// TestReferences: what names a secret is stored and shown by that name.
func TestReferences(t *testing.T) {
	r := document(t, referring)
	if got := r.References(); !slices.Equal(got, []string{"orders", "a.b_C-1", "token"}) {
		t.Errorf("references %q", got)
	}
	c := r.Source.Credentials
	if c.User.Reveal() != "u" || c.Password.Reference() != "orders" || c.Password.Reveal() != "" {
		t.Errorf("credentials %v", c)
	}
	raw, err := Encode(r)
	if err != nil || !strings.Contains(string(raw), `{"secret":"orders"}`) {
		t.Fatalf("%s, %v", raw, err)
	}
	again, err := Decode(raw)
	if err != nil || !reflect.DeepEqual(again, r) || !Equal(again, r) {
		t.Errorf("came back as %+v, %v", again, err)
	}
	damaged := strings.Replace(string(raw), `{"secret":"orders"}`, `{"secret":5}`, 1)
	if r, err := Decode([]byte(damaged)); err == nil {
		t.Errorf("a secret without a name is %+v", r)
	}
	other := document(t, strings.Replace(referring, `"orders"`, `"other"`, 1))
	if Equal(r, other) {
		t.Error("with another secret it is the same work")
	}
	plain := document(t, strings.Replace(referring, `{"secret":"orders"}`, `"orders"`, 1))
	if Equal(r, plain) || len(plain.References()) != 2 {
		t.Error("a password is taken for the name of a secret")
	}
}

func TestNamesOfSecrets(t *testing.T) {
	for _, bad := range []string{
		`{"secret":""}`, `{"secret":"../x"}`, `{"secret":"a/b"}`, `{"secret":".hidden"}`, `{"secret":".."}`,
		`{"secret":"a b"}`,
		`{"secret":"a\\b"}`, `{"secret":"a\u0000"}`, `{"secret":"ä"}`, `{"secret":5}`, `{}`,
		`{"secret":"a","x":1}`, `{"Secret":"a"}`,
		`{"secret":"` + strings.Repeat("a", maxSecretName+1) + `"}`,
	} {
		for field, body := range map[string]string{
			"source.auth.basic.password": `{"target":"http://h/b","source":{"url":"http://h",` +
				`"auth":{"basic":{"username":"u","password":` + bad + `}}}}`,
			"target.headers.X": `{"target":{"url":"http://h","headers":{"X":` + bad + `}},"source":"http://h/b"}`,
		} {
			_, err := parseDocument(body, DefaultConfig())
			text := fmt.Sprint(err)
			if !strings.Contains(text, "`"+field+"`") || !strings.Contains(text, `{"secret": NAME}`) {
				t.Errorf("%s: %v", body, err)
			}
		}
	}
	twice := `{"target":"http://h/b","source":{"url":"http://h",` +
		`"headers":{"authorization":"Bearer x","X":{"secret":"a"},"x":"b"}}}`
	if _, err := parseDocument(twice, DefaultConfig()); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("%s: %v", twice, err)
	}
}

// TestReferencesIn: each secret that a body names is found, wherever it may be named.
func TestReferencesIn(t *testing.T) {
	body := parsed(t, `{"source":{"headers":{"X":{"secret":"a"},"Y":"plain"},"auth":{"bearer":{"secret":"b"}}},`+
		`"target":{"auth":{"basic":{"username":"u","password":{"secret":"c"}}}},"other":{"secret":"d"}}`)
	if got := ReferencesIn(body); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
}

// TestHeaderTexts: a value may have tabs and no other control characters, and Basic credentials may have spaces.
func TestHeaderTexts(t *testing.T) {
	parse := func(name, value string) (*Replication, error) {
		source := `{"url":"http://s/a","headers":{"` + name + `":"` + value + `"}}`
		return ParseRequest([]byte(`{"source":`+source+`,"target":"http://t/b","proxy":""}`), DefaultConfig())
	}
	for value, want := range map[string]bool{`a\tb`: true, `a\u007fb`: false, `a\nb`: false, `a\u0000b`: false} {
		if _, err := parse("X", value); (err == nil) != want {
			t.Errorf("%s: %v", value, err)
		}
	}
	r, err := parse("Authorization", "Basic dTpw ZA==")
	if err != nil || r.Source.Credentials.Password.Reveal() != "pd" || r.Source.Proxy != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestHeadersOfOneName: beside a header Authorization, CouchDB joins headers whose names differ in case alone, also
// with the default ones. The values are in the order of the names' bytes, and replication ids hash the result.
func TestHeadersOfOneName(t *testing.T) {
	source := `{"url":"http://s/a","headers":{"authorization":"Bearer x","accept":"text/x"}}`
	r, err := ParseRequest([]byte(`{"source":`+source+`,"target":"http://t/b"}`), DefaultConfig())
	want := []Header{{"Accept", Hide("application/json, text/x")}, {"authorization", Hide("Bearer x")}}
	if err != nil || !reflect.DeepEqual(r.Source.Headers, want) {
		t.Errorf("%q, %v", r.Source.Headers, err)
	}
}
