package couch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// deepValue is nested deeper than JSON is read.
var deepValue = strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)

// TestCopyDocTooDeep: a revision that is nested too deep, and comes among others in an array, counts as refused. The
// others are copied.
func TestCopyDocTooDeep(t *testing.T) {
	deep := strings.Replace(docWith("3-c"), "1.0", deepValue, 1)
	docs := map[string]string{"1-a": docWith("1-a"), "3-c": deep, "2-b": docWith("2-b"), "4-d": deep}
	target, asked := &writes{t: t}, 0
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		var revs, list []string
		_ = json.Unmarshal([]byte(r.URL.Query().Get("open_revs")), &revs)
		for _, rev := range revs {
			list = append(list, `{"ok":`+docs[rev]+`}`)
		}
		says(200, "["+strings.Join(list, ",")+"]")(w, r)
	}, target.serve, func(r *rig) {
		got := must[peer.Copied](r, peer.CopyDoc{ID: "doc", Revs: []string{"1-a", "3-c", "2-b", "4-d"}})
		refused := map[string]bool{}
		for _, rev := range got.Revs {
			v := rev.Refused
			refused[rev.Rev] = v != nil && v.Status == 413 && v.Rev == rev.Rev
		}
		want := map[string]bool{"1-a": false, "2-b": false, "3-c": true, "4-d": true}
		if !reflect.DeepEqual(refused, want) || len(target.list) != 2 || asked != 4 {
			t.Errorf("%v, %d requests, %d writes", refused, asked, len(target.list))
		}
	})
}

// TestFetchDocsTooDeep: a document that is nested too deep is left out, those before it are taken, and those behind it
// are asked for again.
func TestFetchDocsTooDeep(t *testing.T) {
	answer := func(id, doc string) string { return `{"id":"` + id + `","docs":[{"ok":` + doc + `}]}` }
	first := answer("a", docA) + ","
	deep := answer("b", `{"_id":"b","_rev":"1-a","x":`+deepValue+`}`) + ","
	last := answer("c", `{"_id":"c","_rev":"1-a"}`)
	a, b, c := peer.DocRev{ID: "a", Rev: "1-a"}, peer.DocRev{ID: "b", Rev: "1-a"}, peer.DocRev{ID: "c", Rev: "1-a"}
	for _, c := range []struct {
		answers string
		docs    []peer.DocRev
		want    []peer.Fate
	}{
		{first + deep + last, []peer.DocRev{a, b, c}, []peer.Fate{peer.Taken, peer.Unreadable, peer.Left}},
		{deep + last, []peer.DocRev{b, c}, []peer.Fate{peer.Unreadable, peer.Left}},
	} {
		inRig(t, says(200, `{"results":[`+c.answers+`]}`), nil, func(r *rig) {
			var fates []peer.Fate
			for _, d := range must[peer.Fetched](r, peer.FetchDocs{Docs: c.docs, Budget: 1 << 20}).Docs {
				fates = append(fates, d.Fate)
			}
			if !slices.Equal(fates, c.want) {
				t.Errorf("%v, want %v", fates, c.want)
			}
		})
	}
}

// TestFindRevOfDeepDocument: a revision that is nested too deep to be read is found nevertheless.
func TestFindRevOfDeepDocument(t *testing.T) {
	deep := `[{"ok":{"_id":"a","_rev":"1-x","x":` + deepValue + `}},`
	for answer, found := range map[string]bool{`{}`: true, `{"a":{"missing":["1-y"]}}`: false} {
		inRig(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/db/_revs_diff" {
				says(200, answer)(w, r)
				return
			}
			says(200, deep+`{"missing":"1-y"}]`)(w, r)
		}, nil, func(r *rig) {
			if got := must[peer.RevFound](r, peer.FindRev{ID: "a", Revs: []string{"1-x", "1-y"}}); got.Found != found {
				t.Errorf("%s: found %t", answer, got.Found)
			}
		})
	}
}

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

// TestShallow: contents that are nested too deeply become spaces, and every other byte stays where it was.
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
