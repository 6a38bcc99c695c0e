package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
)

// secretive is a document with a secret in every place that takes one.
const secretive = `{
	"source": {"url": "http://h/a", "headers": {"X-Token": "SECRET1", "authorization": "Bearer SECRET2"},
		"auth": {"basic": {"username": "SECRET3", "password": "SECRET4<&>"}}},
	"target": "http://SECRET5:SECRET6@h/b",
	"source_proxy": "http://SECRET7:SECRET8@p", "target_proxy": "socks5://SECRET9:SECRET0@p",
	"selector": {"a": "<&>"}, "since_seq": [null], "create_target": true, "create_target_params": {"q": 1},
	"user_ctx": {"roles": ["x"]}
}`

func TestNothingShowsSecrets(t *testing.T) {
	r := document(t, secretive)
	if len(r.secrets()) != 10 {
		t.Fatalf("%d secrets", len(r.secrets()))
	}
	var text, js bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "r", r, "v", *r, "s", r.Source.Credentials.Password, "h",
		r.Source.Headers)
	slog.New(slog.NewJSONHandler(&js, nil)).Info("x", "r", r, "v", *r, "s", r.Source.Credentials.Password, "h",
		r.Source.Headers)
	public, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{text.String(), js.String(), string(public)}
	hidden := struct{ r Replication }{*r} // fmt asks no methods of unexported fields
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%d", "%q", "%x"} {
		for _, v := range []any{
			r, *r, hidden, r.Source, r.Source.Headers, r.Target.Credentials, r.Target.Credentials.User, r.Source.Proxy,
		} {
			shown = append(shown, fmt.Sprintf(format, v))
		}
	}
	for _, s := range shown {
		if strings.Contains(s, "SECRET") || strings.Contains(s, fmt.Sprintf("%x", "SECRET")) {
			t.Errorf("a secret is in %s", s)
		}
	}
	if !strings.Contains(shown[2], mask) {
		t.Errorf("no mask in %s", shown[2])
	}
}

// TestErrorsShowNoSecrets breaks a document everywhere.
func TestErrorsShowNoSecrets(t *testing.T) {
	for i := range len(secretive) {
		before, after := secretive[:i], secretive[i:]
		for _, broken := range []string{
			before, before + after[1:], before + `"` + after, before + `\` + after, before + "@" + after,
			before + "/" + after, before + "\x01" + after, before + "}" + after,
		} {
			if _, err := parseDocument(broken, DefaultConfig()); err != nil && strings.Contains(err.Error(), "SECRE") {
				t.Errorf("%s: %v", broken, err)
			}
		}
	}
}

func TestEncodeRoundTrip(t *testing.T) {
	for _, raw := range []string{
		secretive, "{" + ends + "}", "{" + ends + `,"doc_ids":[]}`, "{" + ends + `,"doc_ids":["\u2028<é"]}`,
		"{" + ends + `,"filter":"a/b","query_params":{"b":"</script>","a":1.50},"since_seq":"1-\u0000<"}`,
		`{"source":"http://:@h","target":{"url":"http://h","headers":{"Authorization":"Basic /wA6/g=="}}}`,
	} {
		r := document(t, raw)
		stored, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(stored)
		if err != nil {
			t.Fatalf("%s: %v", stored, err)
		}
		if !reflect.DeepEqual(got, r) || !Equal(got, r) {
			t.Errorf("%s\ngot  %+v\nwant %+v", stored, got, r)
		}
	}
	if got, _ := Decode(encode(t, document(t, secretive))); got.Source.Credentials.Password.Reveal() != "SECRET4<&>" {
		t.Error("the password did not come back")
	}
	cancel := request(t, `{"cancel":true,"id":"x"}`)
	if got, err := Decode(encode(t, cancel)); err != nil || !reflect.DeepEqual(got, cancel) {
		t.Errorf("%+v %v", got, err)
	}
}

func encode(t testing.TB, r *Replication) []byte {
	t.Helper()
	raw, err := Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestDecodeRefuses(t *testing.T) {
	good := encode(t, document(t, secretive))
	for _, raw := range [][]byte{
		nil, []byte("null"), []byte("{}"), []byte("[]"), good[:len(good)-1], good[:len(good)/2],
		bytes.Replace(good, []byte(`"secrets":[`), []byte(`"secrets":["",`), 1),
		bytes.Replace(good, []byte(`"secrets"`), []byte(`"x"`), 1),
	} {
		if r, err := Decode(raw); err == nil || r != nil {
			t.Errorf("%s: %v %v", raw, r, err)
		}
	}
}

func TestEqual(t *testing.T) {
	base := `"source":"http://u:p@h/a","target":"http://t/b","doc_ids":["b","a"]`
	for more, same := range map[string]bool{
		base: true,
		base + `,"_id":"x","_rev":"1-x","owner":"o","user_ctx":{"name":"n","roles":["r"]},"comment":1`: true,
		base + `,"worker_batch_size":"500","use_bulk_get":true,"create_target_params":{"q":2}`:         true,
		`"doc_ids":["a","b","a"],"target":"http://t/b/",` +
			`"source":{"url":"http://h/a","auth":{"basic":{"username":"u","password":"p"}}}`: true,
		base + `,"continuous":true`:    false,
		base + `,"worker_processes":3`: false,
		base + `,"worker_processes":4`: false,
		base + `,"since_seq":0`:        false,
		base + `,"proxy":"http://p"`:   false,
		base + `,"query_params":{}`:    false,
		`"source":"http://u:q@h/a","target":"http://t/b","doc_ids":["b","a"]`:                             false,
		`"source":"https://u:p@h/a","target":"http://t/b","doc_ids":["b","a"]`:                            false,
		`"source":"http://u:p@h/a","target":{"url":"http://t/b","headers":{"a":"1"}},"doc_ids":["b","a"]`: false,
	} {
		if got := Equal(document(t, "{"+base+"}"), document(t, "{"+more+"}")); got != same {
			t.Errorf("%s: %v", more, got)
		}
	}
}

func TestParseURL(t *testing.T) {
	for in, want := range map[string]URL{
		"http://h":                     {Scheme: "http", Host: "h", Path: "/"},
		"https://H.x-y_z:65535/a%2F?b": {Scheme: "https", Host: "H.x-y_z", Port: 65535, Path: "/a%2F?b"},
		"socks5://u@h?":                {Scheme: "socks5", Host: "h", Path: "/?", Userinfo: "u", HasUserinfo: true},
		"http://u:p:100%@[::1]:8/": {Scheme: "http", Host: "::1", Port: 8, Path: "/", Userinfo: "u:p:100%",
			HasUserinfo: true},
		"http://AZaz09-._~!$&'()*+,;=": {Scheme: "http", Host: "AZaz09-._~!$&'()*+,;=", Path: "/"},
		"http://h/%00%fF%9A":           {Scheme: "http", Host: "h", Path: "/%00%fF%9A"},
		"http://@h":                    {Scheme: "http", Host: "h", Path: "/", HasUserinfo: true},
		"http://h/a@b:c":               {Scheme: "http", Host: "h", Path: "/a@b:c"},
		"http://b%C3%BCcher/":          {Scheme: "http", Host: "b%C3%BCcher", Path: "/"},
		"http://[::ffff:1.2.3.4]/":     {Scheme: "http", Host: "::ffff:1.2.3.4", Path: "/"},
	} {
		if got, err := ParseURL(in); err != nil || got != want {
			t.Errorf("%s: got %+v %v", in, got, err)
		}
	}
	for in, want := range map[string]error{
		"": errNoScheme, "h/d": errNoScheme, "://h": errNoScheme, "http:/h": errNoScheme, "http://": errHost,
		"http:///d": errHost, "http://:80/": errHost,
		"http://u:p@/": errHost, "http://h:/": errPort, "http://h:0": errPort, "http://h:65536": errPort,
		"http://h:+80": errPort, "http://h:8x": errPort,
		"http://u:pa/ss@h": errPort, "http://h:1:2": errPort, "http://::1/": errHost, "http://[::1": errIPv6,
		"http://[::1]x": errIPv6, "http://[x]": errIPv6,
		"http://[1]": errIPv6, "http://h]": errIPv6, "http://[fe80::1%25eth0]/": errIPv6, "http://u@v@h": errUserinfo,
		"http://u[@h": errUserinfo,
		"http://h/#":  errFragment, "http://h#x": errFragment, "http://h/%": errPercent, "http://h/%2": errPercent,
		"http://h%zz/": errPercent,
		"http://h/ ":   errCharacters, "http://h x": errCharacters, "http://h/é": errCharacters,
		"http://h/\x00": errCharacters, "http://h/[": errCharacters,
		"http://h/{}": errCharacters, "http://h\\x": errCharacters, "http://ü:p@h": errCharacters,
		"http://a%20b/x": errHostEscape, "http://a%25b": errHostEscape, "http://%41:80": errHostEscape,
		"http://%C3%28/": errHostEscape,
		"http://[1:2]/":  errIPv6, "http://[1::2::3]": errIPv6, "http://[00001::1]": errIPv6,
		"http://[::1.2.3]": errIPv6,
	} {
		if got, err := ParseURL(in); err != want || got != (URL{}) {
			t.Errorf("%q: got %+v %v, want %v", in, got, err, want)
		}
	}
}

// TestSecretNames: the name of a secret is also a valid file name, and has 100 characters at most.
func TestSecretNames(t *testing.T) {
	for name, valid := range map[string]bool{
		"a": true, "A-b_c.9": true, strings.Repeat("a", 100): true, strings.Repeat("a", 101): false,
		"": false, ".a": false, "..": false, "a/b": false, "a b": false, "é": false,
	} {
		if ValidSecretName(name) != valid {
			t.Errorf("%q: %v", name, !valid)
		}
	}
}

// TestSecretDecodedAnew: decoding into a secret that was set before leaves nothing of its old value.
func TestSecretDecodedAnew(t *testing.T) {
	for text, want := range map[string]Secret{"null": {}, `"*****"`: Hide(""), `{"secret":"a"}`: Refer("a")} {
		for _, s := range []Secret{{}, Hide("x"), Refer("b")} {
			if err := s.UnmarshalJSON([]byte(text)); err != nil || !reflect.DeepEqual(s, want) {
				t.Errorf("%s: %#v, %v", text, s, err)
			}
		}
	}
}
