package spec

import (
	"errors"
	"strings"
	"testing"

	"couchrelay/core/ejson"
)

func parsed(t *testing.T, text string) ejson.Value {
	t.Helper()
	v, err := ejson.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestUnmask(t *testing.T) {
	const stored = `{"source":{"url":"https://h/a","headers":{"X-Token":"t","Authorization":"Bearer b"},` +
		`"auth":{"basic":{"username":"u","password":"p"}}},` +
		`"target":"http://v:q@t:5984/b?token=k","proxy":"http://w:r@x","target_proxy":"http://y:s@x"}`
	for name, c := range map[string]struct {
		next, want string // want is empty for what is refused
	}{
		"all": {`{"source":{"url":"https://h/a","headers":{"X-Token":"*****","Authorization":"*****"},` +
			`"auth":{"basic":{"username":"u","password":"*****"}}},` +
			`"target":"http://v:*****@t:5984/b?token=*****","proxy":"http://w:*****@x",` +
			`"target_proxy":"http://y:*****@x"}`, stored},
		"another database": {`{"target":"http://v:*****@t:5984/other"}`, `{"target":"http://v:q@t:5984/other"}`},
		"a new field": {`{"target":"http://v:*****@t:5984/b","x":"*****"}`,
			`{"target":"http://v:q@t:5984/b","x":"*****"}`},
		"user alone": {`{"target":"http://v@t:5984/b"}`, `{"target":"http://v:q@t:5984/b"}`},
		"as an object": {`{"target":{"url":"http://v:*****@T:5984/b"}}`,
			`{"target":{"url":"http://v:q@T:5984/b"}}`},
		"none":             {`{"target":"http://t:5984/b"}`, `{"target":"http://t:5984/b"}`},
		"another password": {`{"target":"http://v:new@t:5984/b"}`, `{"target":"http://v:new@t:5984/b"}`},
		"other case": {`{"source":{"url":"https://h/z","headers":{"x-token":"*****"}}}`,
			`{"source":{"url":"https://h/z","headers":{"x-token":"t"}}}`},
		"no masks": {`{"source":{"url":"https://evil/a","headers":{"X-Token":"x"}}}`,
			`{"source":{"url":"https://evil/a","headers":{"X-Token":"x"}}}`},

		"another host":     {`{"target":"http://v:*****@evil:5984/b"}`, ""},
		"another port":     {`{"target":"http://v:*****@t:5985/b"}`, ""},
		"another scheme":   {`{"target":"https://v:*****@t:5984/b"}`, ""},
		"another user":     {`{"target":"http://eve:*****@t:5984/b"}`, ""},
		"query elsewhere":  {`{"target":"http://v:q@evil:5984/b?token=*****"}`, ""},
		"query of another": {`{"target":"http://t:5984/other?token=*****"}`, ""},
		"basic of another": {`{"source":{"url":"https://h/a",` +
			`"auth":{"basic":{"username":"eve","password":"*****"}}}}`, ""},
		"basic elsewhere": {`{"source":{"url":"https://evil/a",` +
			`"auth":{"basic":{"username":"u","password":"*****"}}}}`, ""},
		"headers elsewhere":  {`{"source":{"url":"https://evil/a","headers":{"X-Token":"*****"}}}`, ""},
		"a part of a header": {`{"source":{"url":"https://evil/a","headers":{"Authorization":"Bearer *****"}}}`, ""},
		"unknown header":     {`{"source":{"url":"https://h/a","headers":{"X-Other":"*****"}}}`, ""},
		"unknown token":      {`{"source":{"url":"https://h/a","auth":{"bearer":"*****"}}}`, ""},
		"proxy elsewhere":    {`{"proxy":"http://w:*****@evil"}`, ""},
		"other proxy":        {`{"source_proxy":"http://w:*****@x"}`, ""},
		"by the same proxy": {`{"target":"http://v:*****@t:5984/b","target_proxy":"http://x"}`,
			`{"target":"http://v:q@t:5984/b","target_proxy":"http://x"}`},
		"by no proxy": {`{"target":"http://v:*****@t:5984/b","proxy":""}`,
			`{"target":"http://v:q@t:5984/b","proxy":""}`},
		"by another proxy":       {`{"target":"http://v:*****@t:5984/b","target_proxy":"http://evil"}`, ""},
		"query by another proxy": {`{"target":"http://v:q@t:5984/b?token=*****","proxy":"http://evil"}`, ""},
		"header by another proxy": {
			`{"source":{"url":"https://h/a","headers":{"X-Token":"*****"}},"source_proxy":"http://evil"}`, ""},
		"proxy behind another one": {
			`{"source":"http://h/a","source_proxy":"http://evil","target_proxy":"http://y:*****@x"}`,
			`{"source":"http://h/a","source_proxy":"http://evil","target_proxy":"http://y:s@x"}`},
		"by the other side's proxy": {`{"target":"http://v:*****@t:5984/b","source_proxy":"http://evil"}`,
			`{"target":"http://v:q@t:5984/b","source_proxy":"http://evil"}`},
	} {
		next := parsed(t, c.next)
		got, err := Unmask(next, parsed(t, stored))
		switch {
		case c.want == "":
			if !errors.Is(err, ErrMasked) || !strings.Contains(err.Error(), mask) {
				t.Errorf("%s: %s, %v", name, got.Append(nil), err)
			}
		case err != nil || string(got.Append(nil)) != c.want:
			t.Errorf("%s: %s, %v; want %s", name, got.Append(nil), err, c.want)
		}
		if string(next.Append(nil)) != string(parsed(t, c.next).Append(nil)) {
			t.Errorf("%s: the argument was changed", name)
		}
		if _, err := Unmask(next, ejson.Value{}); err == nil && strings.Contains(c.next, ":*****@") {
			t.Errorf("%s: is taken without an earlier revision", name)
		}
	}
}

// TestAddresses: the addresses of a body are as endpoints have them.
func TestAddresses(t *testing.T) {
	source, target := Addresses(parsed(t, `{"source":{"url":"http://u:p@s/a"},"target":"http://t/b?token=x"}`))
	if source != "http://s/a/" || target != "http://t/b?token=x" {
		t.Errorf("%q and %q", source, target)
	}
	if source, target = Addresses(parsed(t, `{"source":5,"target":"db"}`)); source != "" || target != "" {
		t.Errorf("%q and %q", source, target)
	}
}
