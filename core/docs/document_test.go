package docs

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestParse reads documents and writes them again with their history.
func TestParse(t *testing.T) {
	const id = "967a00dff5e02add41819138abb3284d"
	for _, c := range [][2]string{
		{`{"_id":"a","_rev":"1-x"}`,
			`{"_id":"a","_rev":"1-x","_revisions":{"start":1,"ids":["x"]}}`},
		{" { \"_rev\" : \"1-x\" ,\n\"b\" : [ 1 , {} ] } ",
			`{"_id":"","_rev":"1-x","b":[1,{}],"_revisions":{"start":1,"ids":["x"]}}`},
		{`{"_rev":"1-` + strings.ToUpper(id) + `"}`,
			`{"_id":"","_rev":"1-` + id + `","_revisions":{"start":1,"ids":["` + id + `"]}}`},
		{`{"_revisions":{"start":3,"ids":["c","b"]},"_rev":"9-z","x":1}`,
			`{"_id":"","_rev":"3-c","x":1,"_revisions":{"start":3,"ids":["c","b"]}}`},
		{`{"_rev":"9-z","_revisions":{"start":3,"ids":["c","b"]}}`,
			`{"_id":"","_rev":"3-c","_revisions":{"start":3,"ids":["c","b"]}}`},
		{`{"_revisions":{"start":3,"ids":[]}}`, `{"_id":""}`},
		{`{"_revisions":{"start":1,"ids":["c","b"]}}`,
			`{"_id":"","_rev":"1-c","_revisions":{"start":1,"ids":["c"]}}`},
		{`{"_rev":"1-x","n":1.50,"m":1E400,"i":12345678901234567890123}`,
			`{"_id":"","_rev":"1-x","n":1.50,"m":1E400,"i":12345678901234567890123,` +
				`"_revisions":{"start":1,"ids":["x"]}}`},
		{`{"_rev":"1-x","é\u00e9\/":"\u0041\"\\","d":1,"d":2}`,
			`{"_id":"","_rev":"1-x","é\u00e9\/":"\u0041\"\\","d":1,"d":2,"_revisions":{"start":1,"ids":["x"]}}`},
		{`{"\u005fid":"a\"b","_rev":"1-x","_deleted":true,` +
			`"_conflicts":[],"_local_seq":3,"_revs_info":0,"_deleted_conflicts":{}}`,
			`{"_id":"a\"b","_rev":"1-x","_deleted":true,"_revisions":{"start":1,"ids":["x"]}}`},
		{`{"_rev":"1-x","_deleted":false,"_replication_state":{"a":[1]},"a":{"_b":1}}`, `{"_id":"","_rev":"1-x",` +
			`"_replication_state":{"a":[1]},"a":{"_b":1},"_revisions":{"start":1,"ids":["x"]}}`},
	} {
		raw, want := c[0], c[1]
		text := []byte(raw)
		d, err := ParseDocument(text, ReplicationMembers...)
		if got := shown(t, d, err, Format{Revisions: true}); got != want || string(text) != raw {
			t.Errorf("%s\n got %s\nwant %s, of %s", raw, got, want, text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const history = "_revisions must have an integer start and ids, an array of strings."
	for raw, want := range map[string]string{
		``: "invalid UTF-8 JSON", `{`: "invalid UTF-8 JSON", `{"a":1} x`: "invalid UTF-8 JSON",
		`{"a":"\ud800"}`:   "invalid UTF-8 JSON",
		"{\"a\":\"\xff\"}": "invalid UTF-8 JSON", `{"a":01}`: "invalid UTF-8 JSON", "\ufeff{}": "invalid UTF-8 JSON",
		`[]`: "Document must be a JSON object", `null`: "Document must be a JSON object",
		`"{}"`:                     "Document must be a JSON object",
		`{"_x":1}`:                 "Bad special document member: _x",
		`{"_replication_state":1}`: "Bad special document member: _replication_state",
		`{"_deleted":1}`:           "Bad special document member: _deleted",
		`{"_attachments":[]}`:      "Bad special document member: _attachments",
		`{"_id":1}`:                "Document id must be a string", `{"_id":""}`: "Document id must not be empty",
		`{"_id":"_x"}`:       "Only reserved document ids may start with underscore.",
		`{"_id":"_design/"}`: "Illegal document id `_design/`", `{"_id":"_local/"}`: "Illegal document id `_local/`",
		`{"_id":"` + strings.Repeat("x", 4097) + `"}`: "Document id is too long",
		`{"_rev":1}`: "Invalid rev format", `{"_rev":"x"}`: "Invalid rev format",
		`{"_rev":"-1-x"}`: "Invalid rev format", `{"_rev":""}`: "Invalid rev format",
		`{"_attachments":{"_a":{"data":""}}}`: "Attachment name '_a' starts with prohibited character '_'",
		`{"_attachments":{"":{"data":""}}}`:   "Attachment name must not be empty",
		`{"_attachments":{"a":{"follows":true,"encoding":"br","length":1}}}`: "Attachment a has encoding br; " +
			"gzip and identity are supported",
		`{"_revisions":{"start":1,"ids":["c"]},"_rev":"x"}`:                          "Invalid rev format",
		`{"_revisions":{"start":"1","ids":[]}}`:                                      history,
		`{"_revisions":{"start":1,"ids":[2]}}`:                                       history,
		`{"_revisions":{"ids":["a"]}}`:                                               history,
		`{"_revisions":{"start":-1,"ids":["a"]}}`:                                    "RevId isn't a valid hexadecimal",
		`{"_revisions":{"start":1,"ids":["zz345678901234567890123456789012"]}}`:      "RevId isn't a valid hexadecimal",
		`{"_attachments":{"a":{}}}`:                                                  "Invalid attachment data for a",
		`{"_attachments":{"a":{"data":"?"}}}`:                                        "Invalid attachment data for a",
		`{"_attachments":{"a":1}}`:                                                   "Invalid attachment data for a",
		`{"_attachments":{"a":{"stub":true,"length":-1}}}`:                           "Invalid attachment data for a",
		`{"_attachments":{"a":{"stub":true},"a":{"stub":true}}}`:                     "Duplicate attachments",
		strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000):            "invalid UTF-8 JSON",
		`{"_revisions":{"start":1,"ids":["` + strings.Repeat("r", 256) + `"]}}`:      "RevId isn't a valid hexadecimal",
		`{"_attachments":{"a":{"stub":true,"digest":"md5-x","revpos":"y"}}}`:         "Invalid attachment data for a",
		`{"_attachments":{"a":{"stub":true,"encoded_length":-3,"encoding":"gzip"}}}`: "Invalid attachment data for a",
		`{"_revisions":{"start":99999999999999999999,"ids":["a"]}}`:                  history,
		`{"_revisions":{"start":9000000000000000000,"ids":["a"]}}`:                   "RevId isn't a valid hexadecimal",
		`{"_rev":"9000000000000000000-a"}`:                                           "Invalid rev format",
	} {
		d, err := ParseDocument([]byte(raw))
		if got := shown(t, d, err, Format{}); got != want {
			t.Errorf("%.80s: %s, want %s", raw, got, want)
		}
		if refusal, is := errors.AsType[*Error](err); is && refusal.Kind != Invalid {
			t.Errorf("%.80s is refused as of kind %d", raw, refusal.Kind)
		}
	}
}

// TestParseHostile: what encoding/json takes as an object of plain members comes back equal, and nothing
// else does harm.
func TestParseHostile(t *testing.T) {
	value := rapid.OneOf(rapid.Just(`1`), rapid.Just(`"a,}]\""`), rapid.Just(`[[],{"x":[1,"]"]}]`),
		rapid.Just(`null`), rapid.Just(`{}`), rapid.Just(`-1.5e3`))
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteByte('{')
		for i := range rapid.IntRange(0, 4).Draw(t, "members") {
			if i > 0 {
				b.WriteString(" , ")
			}
			b.WriteString(rapid.SampledFrom([]string{`"a"`, `"\u005f"`, `"_id" : "x" ,"b"`, `"c\"}"`}).Draw(t,
				"name") + ":" + value.Draw(t, "value"))
		}
		b.WriteByte('}')
		raw := []byte(b.String())
		if rapid.Bool().Draw(t, "harm") {
			raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		d, err := ParseDocument(raw)
		if err != nil {
			if refusal := (*Error)(nil); !errors.As(err, &refusal) {
				t.Fatalf("%s: %v", raw, err)
			}
			return
		}
		var want, got map[string]any
		if json.Unmarshal(raw, &want) != nil {
			t.Fatalf("accepted %q", raw)
		}
		delete(want, "_id")
		if err := json.Unmarshal(d.Body, &got); err != nil || len(got) != len(want) {
			t.Fatalf("%q became %q", raw, d.Body)
		}
	})
}

// TestWith: a revision with another body has a name of its own, of the same generation, the same for all readers.
func TestWith(t *testing.T) {
	w := newWorld(t)
	rev := w.put(t, `{"_id":"d","x":1}`)
	for range 3 {
		d := must(t, w, func(db *Database) (*Document, error) { return db.Read("d", Want{}) })
		shown, again := d.With([]byte(`{"x":2}`)), d.With([]byte(`{"x":2}`))
		if shown.Rev.Gen != d.Rev.Gen || shown.Rev == d.Rev || shown.Rev != again.Rev ||
			string(shown.Body) != `{"x":2}` {
			t.Errorf("%s is shown as %s and %s", d.Rev, shown.Rev, again.Rev)
		}
		if d.Rev.String() != rev || string(d.Body) == `{"x":2}` || shown.ID != "d" {
			t.Errorf("it is %s with %s now", d.Rev, d.Body)
		}
		rev = w.put(t, `{"_id":"d","_rev":"`+rev+`","x":3}`)
	}
}

// TestWaysOfAttachments: a document says of each attachment where its bytes are.
func TestWaysOfAttachments(t *testing.T) {
	for content, want := range map[Content]string{
		Inline: `"data":"b25l"`, Follows: `"length":3,"follows":true`, Stub: `"length":3,"stub":true`,
	} {
		d := Document{ID: "a", Body: []byte("{}"), Attachments: []Attachment{{
			Name: "f", Type: "text/plain", RevPos: 1, Digest: make([]byte, 16),
			Length: 3, Content: content, Data: []byte("one"),
		}}}
		if text := string(d.AppendJSON(nil, Format{})); !strings.Contains(text, `==",`+want+`}`) {
			t.Errorf("want %s: %s", want, text)
		}
	}
}
