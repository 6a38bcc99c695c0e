package repid

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"couchrelay/core/ejson"
	"couchrelay/core/spec"

	"pgregory.net/rapid"
)

const uuid = "9ddf59457dbb8772316cf06fc5e5a2e4"

func parse(t testing.TB, raw string) *spec.Replication {
	t.Helper()
	body, err := ejson.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	r, err := spec.ParseDocument(body, spec.DefaultConfig())
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return r
}

// doc is the base document of the examples with other members added.
func doc(more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"source":"http://adm:pass@127.0.0.1:5984/db_a","target":"http://adm:pass@127.0.0.1:5984/db_b"` + more + `}`
}

// TestExamples holds ids that CouchDB's own modules computed.
func TestExamples(t *testing.T) {
	for _, c := range []struct{ name, doc, want string }{
		{"A", doc(``), "c3ea6b4cefdc0f0804973a398c3178c0"},
		{"A with extension", doc(`"create_target":true,"continuous":true`),
			"c3ea6b4cefdc0f0804973a398c3178c0+continuous+create_target"},
		{"B", doc(`"doc_ids":["b","a%2Fc","a","b"]`), "80e283f3d39f166ec17a973780bef9e9"},
		{"C", doc(`"filter":"_view","query_params":{"view":"dd/v"}`), "f8eed73ae8e3cbf15d7eb96ac21bf516"},
		{"D", doc(`"selector":{"type":"user","a":{"b":{"$gt":5}}},"winning_revs_only":true,"since_seq":"3-xyz"`),
			"fc624e5de65903cc31c599089876369c"},
		{"D1", doc(`"selector":{}`), "f06282ee22b3a6ce7fa0743caa2e6e50"},
		{"D2", doc(`"selector":{"$not":{"n":{"$lt":1.5}}}`), "711952657a94b1447f8c093715767e3a"},
		{"D4", doc(`"selector":{"x":{"$in":[1,2,3]}}`), "e7166831e282f90ec8479f3e1074a9d9"},
		{"D6", doc(`"selector":{"x":{}}`), "9c159e9cbe47bce63b79aee58248234a"},
		{"F", `{
			"source":{"url":"https://h.example.com:6984/a%2Fb",
				"headers":{"X-Foo":"1","Authorization":"Basic YWRtOnBhc3M=","B":"2","a":"3"}},
			"target":{"url":"http://[::1]:5984/tgt/","auth":{"basic":{"username":"u","password":"p"}},
				"headers":{"Zed":"1","apple":"2","User-Agent":"me"}}
		}`, "f640bff7ff272b3226396d58d9ff3518"},
	} {
		if got := New(Server{UUID: uuid}, parse(t, c.doc), "").String(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestForeignUUIDs holds vectors from CouchDB's tests in which the server's UUID is of another type
// than a server's is.
func TestForeignUUIDs(t *testing.T) {
	for _, c := range []struct {
		uuid []byte
		doc  string
		want string
	}{
		{atom("this_is_snek"), `{"source":"http://srchost.local/src","target":"http://tgthost.local/tgt"}`,
			"ad08e05057046eabe898a2572bbfb573"},
		{charlist("somefixedid"),
			`{"source":"http://adm:pass@127.0.0.1/abc","target":"http://adm:pass@127.0.0.1/xyz"}`,
			"ff71e1208f93ba054eb60e7ca8683fe4"},
	} {
		r := parse(t, c.doc)
		if got := hash(terms{c.uuid, endpointV4(&r.Source), endpointV4(&r.Target)}); got != c.want {
			t.Errorf("%s: got %s, want %s", c.doc, got, c.want)
		}
	}
}

func TestEncodedTerm(t *testing.T) {
	r := parse(t, doc(``))
	got := hex.EncodeToString(append([]byte{version},
		terms{binaryTerm(uuid), endpointV4(&r.Source), endpointV4(&r.Target)}.list()...))
	want := strings.Join(strings.Fields(`836c00000003
		6d00000020 3964646635393435376462623837373233313663663036666335653561326534
		6807 640006 72656d6f7465 6b0003 61646d 6b0009 3132372e302e302e31
		     640007 64656661756c74 6b0006 2f64625f612f 6a 640009 756e646566696e6564
		6807 640006 72656d6f7465 6b0003 61646d 6b0009 3132372e302e302e31
		     640007 64656661756c74 6b0006 2f64625f622f 6a 640009 756e646566696e6564
		6a`), "")
	if got != want || len(got) != 2*166 {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEndpoints compares endpoint tuples with what CouchDB's tests assert of them. The expectation is
// user, host, port, path and headers; a user and port in parentheses are atoms.
func TestEndpoints(t *testing.T) {
	basic := func(user string) string { // "Basic " and the base64 of user:pass
		return map[string]string{"user": "Basic dXNlcjpwYXNz", "user2": "Basic dXNlcjI6cGFzczI="}[user]
	}
	check := func(endpoint, want string) {
		r := parse(t, `{"target":"http://t/","source":`+endpoint+`}`)
		if got := describe(t, endpointV4(&r.Source)); got != want {
			t.Errorf("%s: got %s, want %s", endpoint, got, want)
		}
	}
	for endpoint, want := range map[string]string{
		`{"url":"http://host"}`:                `(undefined) host (default) /`,
		`{"url":"https://host"}`:               `(undefined) host (default) /`,
		`{"url":"http://host:5984"}`:           `(undefined) host (default) /`,
		`{"url":"http://host:80/"}`:            `(undefined) host (default) /`,
		`{"url":"https://host:443"}`:           `(undefined) host (default) /`,
		`{"url":"http://host:443"}`:            `(undefined) host 443 /`,
		`{"url":"https://host:80"}`:            `(undefined) host 80 /`,
		`{"url":"https://host:5984"}`:          `(undefined) host 5984 /`,
		`{"url":"https://host:6984"}`:          `(undefined) host 6984 /`,
		`{"url":"http://host:1"}`:              `(undefined) host 1 /`,
		`{"url":"https://host:2"}`:             `(undefined) host 2 /`,
		`{"url":"http://host:08080/x/"}`:       `(undefined) host 8080 /x/`,
		`{"url":"http://Host/a%2fb"}`:          `(undefined) Host (default) /a%2fb/`,
		`{"url":"http://host?x=1"}`:            `(undefined) host (default) /?x=1`,
		`{"url":"http://host/db?x=/y"}`:        `(undefined) host (default) /db?x=/y`,
		`{"url":"http://[2001:DB8::1]:7/db"}`:  `(undefined) 2001:DB8::1 7 /db/`,
		`{"url":"http://user:pass@[::1]/db"}`:  `user ::1 (default) /db/`,
		`{"url":"http://user:pass@host"}`:      `user host (default) /`,
		`{"url":"http://user:newpass@host:3"}`: `user host 3 /`,
		`{"url":"http://token@host"}`:          `(undefined) host (default) /`,
		`{"url":"http://u%40x:pass@host"}`:     `u%40x host (default) /`,
		`{"url":"http://:@host"}`:              ` host (default) /`,
		`{"url":"http://host","headers":{"Authorization":"` + basic("user") + `"}}`:        `user host (default) /`,
		`{"url":"http://host","headers":{"authorization":"bAsIc dXNlcjpwYXNz"}}`:           `user host (default) /`,
		`{"url":"http://u1:p1@host","headers":{"Authorization":"` + basic("user2") + `"}}`: `u1 host (default) /`,
		`{"url":"http://u1:p1@host","headers":{"Authorization":"` + basic("user2") + `"},` +
			`"auth":{"basic":{"username":"u3","password":""}}}`: `u3 host (default) /`,
	} {
		check(endpoint, want)
	}
	for headers, want := range map[string]string{
		`{"h":"v"}`:                                              `h=v`,
		`{"Z":"1","a":"2","Z-":"3"}`:                             `Z=1 Z-=3 a=2`,
		`{"Authorization":"Basic bad"}`:                          ``,
		`{"Authorization":"Basic dXNlcjpwYXNz!"}`:                ``,
		`{"Authorization":"Basic dXNlcg=="}`:                     ``,
		`{"Authorization":"Basic"}`:                              `Authorization=Basic`,
		`{"Authorization":"Bearer t","B":" 2 ","a":"3","b":"1"}`: `a=3 Authorization=Bearer t B=2, 1`,
		`{"Accept":"*/*","accept":"text/x"}`:                     `Accept=*/* accept=text/x`,
		`{"accept":"text/x","Authorization":"x"}`:                `Accept=application/json, text/x Authorization=x`,
		`{"Accept":"application/json",` +
			`"User-Agent":"CouchDB-Replicator/3.5.2"}`: ``,
	} {
		check(`{"url":"http://host","headers":`+headers+`}`, strings.TrimSpace(`(undefined) host (default) / `+want))
	}
	junk := spec.Endpoint{URL: "random_junk"}
	if got := describe(t, endpointV4(&junk)); got != `(undefined) random_junk (undefined) (undefined)` {
		t.Error(got)
	}
}

// describe reads an endpoint tuple.
func describe(t *testing.T, raw []byte) string {
	d := decoder{t, raw}
	tuple := d.term().([]any)
	if len(d.rest) > 0 || len(tuple) != 7 || tuple[0] != "(remote)" || tuple[6] != "(undefined)" {
		t.Fatalf("%v", tuple)
	}
	out := fmt.Sprint(tuple[1], " ", tuple[2], " ", tuple[3], " ", tuple[4])
	for _, h := range tuple[5].([]any) {
		out += fmt.Sprint(" ", h.([]any)[0], "=", h.([]any)[1])
	}
	return strings.ReplaceAll(out, "[]", "")
}

// decoder reads the encoded terms back: charlists and binaries as strings, atoms in parentheses, lists
// and tuples as slices.
type decoder struct {
	t    testing.TB
	rest []byte
}

func (d *decoder) take(n int) []byte {
	if n > len(d.rest) {
		d.t.Fatalf("%d bytes missing", n-len(d.rest))
	}
	head := d.rest[:n]
	d.rest = d.rest[n:]
	return head
}

func (d *decoder) number(size int) (n int) {
	for _, b := range d.take(size) {
		n = n<<8 | int(b)
	}
	return n
}

func (d *decoder) many(n int) []any {
	out := []any{}
	for range n {
		out = append(out, d.term())
	}
	return out
}

func (d *decoder) term() any {
	switch tag := d.take(1)[0]; tag {
	case tagByte:
		return d.number(1)
	case tagInteger:
		return int(int32(d.number(4)))
	case tagBig, tagHuge:
		size := d.number(map[byte]int{tagBig: 1, tagHuge: 4}[tag])
		sign := d.number(1)
		n := new(big.Int)
		for i, b := range d.take(size) {
			n.Or(n, new(big.Int).Lsh(big.NewInt(int64(b)), uint(8*i)))
		}
		if sign == 1 {
			n.Neg(n)
		}
		return n.String()
	case tagAtom:
		return "(" + string(d.take(d.number(2))) + ")"
	case tagString:
		return string(d.take(d.number(2)))
	case tagBinary:
		return string(d.take(d.number(4)))
	case tagTuple:
		return d.many(d.number(1))
	case tagNil:
		return []any{}
	case tagList:
		list := d.many(d.number(4))
		if d.take(1)[0] != tagNil {
			d.t.Fatal("improper list")
		}
		return list
	default:
		d.t.Fatalf("tag %#x", tag)
		return nil
	}
}

// TestTerms pins encodings that the examples do not reach, from the format's definition.
func TestTerms(t *testing.T) {
	long := strings.Repeat("7,", 65_535)
	for in, want := range map[string]string{
		`null`:                 "640004 6e756c6c",
		`true`:                 "640004 74727565",
		`-0`:                   "61 00",
		`255`:                  "61 ff",
		`256`:                  "62 00000100",
		`-1`:                   "62 ffffffff",
		`2147483647`:           "62 7fffffff",
		`-2147483648`:          "62 80000000",
		`2147483648`:           "6e 04 00 00000080",
		`-2147483649`:          "6e 04 01 01000080",
		`18446744073709551616`: "6e 09 00 000000000000000001",
		`1.0`:                  "46 3ff0000000000000",
		`-2.5e-1`:              "46 bfd0000000000000",
		`0.1`:                  "46 3fb999999999999a",
		`""`:                   "6d 00000000",
		`"é"`:                  "6d 00000002 c3a9",
		`[]`:                   "6a",
		`{}`:                   "6801 6a",
		`[1,-0,255]`:           "6b 0003 0100ff",
		`["1"]`:                "6c 00000001 6d0000000131 6a",
		`[1,-1]`:               "6c 00000002 6101 62ffffffff 6a",
		`[99999]`:              "6c 00000001 62 0001869f 6a",
		`[1,256]`:              "6c 00000002 6101 6200000100 6a",
		`[[1],[]]`:             "6c 00000002 6b000101 6a 6a",
		`[1.0]`:                "6c 00000001 463ff0000000000000 6a",
		`{"b":1,"a":[{}]}`: "6801 6c 00000002 6802 6d0000000162 6101 " +
			"6802 6d0000000161 6c 00000001 68016a 6a 6a",
		`[` + long[:len(long)-1] + `]`: "6b ffff " + strings.Repeat("07", 65_535),
		`[` + long + `7]`:              "6c 00010000 " + strings.Repeat("6107", 65_536) + "6a",
	} {
		v, err := ejson.Parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(appendJSON(nil, v)); got != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%.40s: got %.80s, want %.80s", in, got, want)
		}
	}
	for bytes, tag := range map[uint]byte{255: tagBig, 256: tagHuge} {
		if got := integerText(new(big.Int).Lsh(big.NewInt(1), 8*bytes-1).String()); got[0] != tag {
			t.Errorf("%d bytes: tag %#x", bytes, got[0])
		}
	}
	huge := "1" + strings.Repeat("0", 700)
	if d := (decoder{t, integerText("-" + huge)}); d.term() != "-"+huge || len(d.rest) > 0 {
		t.Error("a number of 701 digits came back as another")
	}
	if v, _ := ejson.Parse([]byte(`5`)); hex.EncodeToString(integer(5)) != hex.EncodeToString(appendJSON(nil, v)) {
		t.Error("5 has two encodings")
	}
}

func TestFilterSource(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "  ": "", " \n": "\n", "f": "f", "  f  ": "f", " f g \n": "f g\n", "\tf ": "\tf", " f\t": "f\t",
		"f\r\n":  "f\r\n",
		" f\n\n": " f\n\n", " f \n g ": " f \n g ", "\nf ": "\nf ",
	} {
		if got := trimSource(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	r := parse(t, doc(`"filter":"dd/name"`))
	id := func(source string) string { return Base(4, Server{UUID: uuid}, r, source) }
	if id(" function() {} ") != id("function() {}") || id("function() {}") == id("function(){}") {
		t.Error("the source's spaces count where they should not, or not where they should")
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]ID{
		"": {}, "abc": {"abc", ""}, "abc+x+y": {"abc", "+x+y"}, "abc x y": {"abc", "+x+y"}, "+x": {"", "+x"},
		"a++": {"a", "++"},
	} {
		if got := Parse(in); got != want {
			t.Errorf("%q: got %v", in, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if got := Parse(text).String(); got != strings.ReplaceAll(text, " ", "+") {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// TestOldVersions checks what each version's term is made of; no ids of theirs are on record.
func TestOldVersions(t *testing.T) {
	s := Server{UUID: uuid, HostName: "box", Port: 5984}
	r := parse(t, `{"source":"http://u:p@h:80/a","target":{"url":"https://h/b","headers":{"x":"y"}},`+
		`"doc_ids":["i"],"winning_revs_only":true}`)
	source := terms{atom("remote"), charlist("http://h:80/a/"), []byte{tagNil}}.tuple()
	target := terms{atom("remote"), charlist("https://h/b/"),
		terms{terms{charlist("x"), charlist("y")}.tuple()}.list()}.tuple()
	rest := terms{source, target, terms{binaryTerm("i")}.list(), binaryTerm("winning_revs_only")}
	for version, head := range map[int]terms{
		3: {binaryTerm(uuid)}, 2: {charlist("box"), integer(5984)}, 1: {charlist("box")},
	} {
		if got, want := Base(version, s, r, ""), hash(append(head, rest...)); got != want {
			t.Errorf("version %d: got %s, want %s", version, got, want)
		}
	}
}

// TestRelevance checks which changes of a document change its ids.
func TestRelevance(t *testing.T) {
	base := `"source":"http://u:p@h/a","target":"http://t/b","doc_ids":["y","x"]`
	filtered := `"source":"http://u:p@h/a","target":"http://t/b","filter":"d/f","query_params":{"a":1,"b":2}`
	for _, c := range []struct {
		from, to string
		base     bool // whether the replication's base id changes
		job      bool // whether the job's id does
	}{
		{base, `"source":"http://u:other@h/a","target":"http://t/b","doc_ids":["y","x"]`, false, false},
		{base, `"source":"https://u:p@h:443/a/","target":"http://t:5984/b","doc_ids":["x","%79","x"]`, false, false},
		{base, base + `,"retries_per_request":9,"http_connections":3,"worker_processes":1,"use_checkpoints":false`,
			false, false},
		{base, base + `,"comment":{"x":1},"winning_revs_only":false,"user_ctx":{"name":"n"},"owner":"o","_id":"z",` +
			`"proxy":"http://p"`, false, false},
		{base, base + `,"continuous":true`, false, true},
		{base, base + `,"create_target":true`, false, true},
		{base, base + `,"winning_revs_only":true`, true, true},
		{base, base + `,"since_seq":0`, true, true},
		{base + `,"since_seq":1`, base + `,"since_seq":[1]`, true, true},
		{base + `,"since_seq":1`, base + `,"since_seq":"1"`, true, true},
		{base, `"source":"http://v:p@h/a","target":"http://t/b","doc_ids":["y","x"]`, true, true},
		{base, `"source":"http://u:p@H/a","target":"http://t/b","doc_ids":["y","x"]`, true, true},
		{base, `"source":"http://u:p@h:81/a","target":"http://t/b","doc_ids":["y","x"]`, true, true},
		{base, `"source":"http://u:p@h/a","target":"http://t/b","doc_ids":[]`, true, true},
		{base, `"source":"http://u:p@h/a","target":"http://t/b"`, true, true},
		{base, `"source":"http://u:p@h/a","target":{"url":"http://t/b","headers":{"X":"1"}},"doc_ids":["y","x"]`,
			true, true},
		{base, `"target":"http://u:p@h/a","source":"http://t/b","doc_ids":["y","x"]`, true, true},
		{filtered, strings.Replace(filtered, `"a":1,"b":2`, `"b":2,"a":1`, 1), true, true},
		{filtered, strings.Replace(filtered, `"a":1,"b":2`, `"a":0,"a":1,"b":2`, 1), false, false},
		{filtered, strings.Replace(filtered, `d/f`, `d/g`, 1), false, true}, // the same source text in both
		{`"source":"http://h/a","target":"http://t/b","selector":{"a":{"b":1}}`,
			`"source":"http://h/a","target":"http://t/b","selector":{"a.b":{"$eq":1}}`, false, false},
	} {
		s := Server{UUID: uuid}
		a, b := parse(t, "{"+c.from+"}"), parse(t, "{"+c.to+"}")
		if got := New(s, a, "f").Base != New(s, b, "f").Base; got != c.base {
			t.Errorf("%s\n%s: base id changes: %v", c.from, c.to, got)
		}
		if got := JobID(s, a, "me") != JobID(s, b, "me"); got != c.job {
			t.Errorf("%s\n%s: job id changes: %v", c.from, c.to, got)
		}
	}
}

func TestJobID(t *testing.T) {
	r := parse(t, doc(`"filter":"d/f"`))
	s := Server{UUID: uuid}
	if JobID(s, r, "a") == JobID(s, r, "b") || JobID(s, r, "a") == JobID(Server{UUID: "x"}, r, "a") {
		t.Error("user and server must be in the id")
	}
	// Pinned: a later release must meet the jobs of this one.
	if got := JobID(s, r, "a"); got != "f9e297bf845439a3cd5120c31fd9a004" {
		t.Error(got)
	}
}

// TestIDsOfReferences: the name of a secret is a part of an id where its text would be, and the password is not.
func TestIDsOfReferences(t *testing.T) {
	id := func(endpoint string) string {
		r, err := spec.ParseRequest([]byte(`{"source":`+endpoint+`,"target":"http://t/b"}`), spec.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		return New(Server{UUID: "u"}, r, "").String()
	}
	basic := func(password string) string {
		return id(`{"url":"http://s/a","auth":{"basic":{"username":"u","password":` + password + `}}}`)
	}
	if basic(`{"secret":"x"}`) != basic(`"pass"`) {
		t.Error("a password that is kept elsewhere changes the id")
	}
	header := func(value string) string { return id(`{"url":"http://s/a","headers":{"Authorization":` + value + `}}`) }
	if header(`{"secret":"x"}`) == header(`{"secret":"y"}`) || header(`{"secret":"x"}`) == id(`"http://s/a"`) {
		t.Error("the reference of a header is no part of the id")
	}
}
