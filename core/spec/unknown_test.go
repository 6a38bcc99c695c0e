package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/ejson"
)

// TestUnknownFields: what means nothing in a document or request is named, but for what CouchDB writes itself.
func TestUnknownFields(t *testing.T) {
	for in, want := range map[string][2][]string{ // of a document, of a request
		``:                                    {},
		`"prioritty":5`:                       {{"prioritty"}, {"prioritty"}},
		`"Continuous":1,"coment":{"a":1}`:     {{"Continuous", "coment"}, {"Continuous", "coment"}},
		`"owner":"o","user_ctx":{"name":"n"}`: {nil, {"owner", "user_ctx"}},
		`"id":"x","replication_id":"y"`:       {{"id", "replication_id"}, nil},
		`"_replication_state":"error","_rev":"1-a"`: {},
		`"cancel":false`: {},
		`"target":{"url":"http://h/b","heders":{},"auth":{}}`: {{"target.heders"}, {"target.heders"}},
	} {
		text := "{" + ends
		if in != "" {
			text += "," + in
		}
		text += "}"
		if got := document(t, text).Unknown; !slices.Equal(got, want[0]) {
			t.Errorf("document with %s: %q, want %q", in, got, want[0])
		}
		body, err := ejson.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := UnknownInDocument(body); !slices.Equal(got, want[0]) {
			t.Errorf("body with %s: %q, want %q", in, got, want[0])
		}
		request, err := ParseRequest([]byte(text), DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(request.Unknown, want[1]) {
			t.Errorf("request with %s: %q, want %q", in, request.Unknown, want[1])
		}
	}
}

// TestManyUnknownFields: what is told of them is bounded.
func TestManyUnknownFields(t *testing.T) {
	text := "{" + ends + `,"` + strings.Repeat("é", 60) + `":1`
	for i := range 100 {
		text += fmt.Sprintf(`,"x%d":1`, i)
	}
	got := document(t, text+"}").Unknown
	if len(got) != 20 || got[0] != strings.Repeat("é", 50)+"..." || got[19] != "x18" {
		t.Errorf("%q", got)
	}
}

// TestSuggest: a slip is recognised, and what has little in common with any field is not.
func TestSuggest(t *testing.T) {
	for name, want := range map[string]string{
		"Continuous": "continuous", "continous": "continuous", "tagret": "target", "create-target": "create_target",
		"createTarget": "create_target", "doc_id": "doc_ids", "query_parms": "query_params",
		"user_batch_size": "", "source.heders": "source.headers", "target.passwrd": "", "fliter": "filter",
		"x": "", "comment": "", "n": "", "": "", "pause": "paused", "paused": "",
	} {
		if got := Suggest(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestCancelInDocument: a document cannot cancel. That it does not is no mistake.
func TestCancelInDocument(t *testing.T) {
	_, err := parseDocument("{"+ends+`,"cancel":true}`, DefaultConfig())
	if err == nil || !strings.Contains(err.Error(), "delete the document") {
		t.Errorf("refused with %v", err)
	}
	if document(t, "{"+ends+`,"cancel":false}`).Cancel {
		t.Error("it cancels")
	}
}
