package couch

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// TestCopyDeep: a document that is nested deeper than jsontext takes comes over byte for byte, alone and with its
// attachments.
func TestCopyDeep(t *testing.T) {
	deep := `"x":` + strings.Repeat(`{"_rev":["]}\"\\",`, 20_000) + "1" + strings.Repeat("]}", 20_000) + ","
	for _, atts := range [][]att{nil, {attText}} {
		doc := strings.Replace(docWith("2-b", atts...), `"n":`, deep+`"n":`, 1)
		var got []byte
		target := func(w http.ResponseWriter, r *http.Request) {
			got, _ = io.ReadAll(r.Body)
			says(201, `{"ok":true}`)(w, r)
		}
		inRig(t, saysMixed(new(mixed).part(doc, atts...).end()), target, func(r *rig) {
			revs := must[peer.Copied](r, peer.CopyDoc{ID: "doc", Revs: []string{"2-b"}}).Revs
			if fmt.Sprint(revs) != fmt.Sprint([]peer.CopiedRev{{Rev: "2-b"}}) || !bytes.Contains(got, []byte(doc)) {
				t.Errorf("%v, wrote %d bytes of %d", revs, len(got), len(doc))
			}
		})
	}
}

// TestShallow: what is nested deeply is blank, and all else is where it was.
func TestShallow(t *testing.T) {
	in, out := strings.Repeat("[", maxShallow), strings.Repeat("]", maxShallow)
	for doc, want := range map[string]string{
		`{"a":"[[{","b":[]}`:                  `{"a":"[[{","b":[]}`,
		in + `1,"\"[",2` + out:                in + `1,"\"[",2` + out,
		in + `{"a":1},2` + out + " ":          in + `{     },2` + out + " ",
		in + `{"k":["\\",["]"]]},"x"` + out:   in + `{                },"x"` + out,
		in + `["a]\"b]"],["\u005c",{}]` + out: in + `[        ],[           ]` + out,
	} {
		got := string(shallow([]byte(doc)))
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", doc, got, want)
		}
	}
	deep := strings.Repeat(`{"a":[`, 20_000) + strings.Repeat("]}", 20_000)
	if got := shallow([]byte(deep)); !jsontext.Value(got).IsValid() || len(got) != len(deep) {
		t.Errorf("%.300s", got)
	}
}
