package spec

import (
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

func TestChangesParams(t *testing.T) {
	for in, want := range map[string]string{
		`"doc_ids":["x"]`:        "filter=_doc_ids",
		`"selector":{}`:          "filter=_selector",
		`"query_params":{"a":1}`: "",
		`"filter":"d/f"`:         "filter=d/f",
		`"filter":"d/f","query_params":{"z":"x y","a":1.0,"n":null,"o":{"a":[]},"key":"k"}`: "filter=d/f&" +
			`z=x y&a=1.0&n=null&o={"a":[]}&key=k`,
		`"filter":"d/f","query_params":{"attachments":"no","include_docs":false,"limits":3}`: "filter=d/f&" +
			`attachments=no&include_docs=false&limits=3`,
		`"filter":"_view","query_params":{"view":"d/v","key":"k","reduce":false,"include_docs":false,"q":"k"}`: "" +
			`filter=_view&view=d/v&key="k"&reduce=false&include_docs=false&q=k`,
	} {
		var got []string
		for _, p := range document(t, "{"+ends+","+in+"}").Filter.ChangesParams() {
			got = append(got, p.Name+"="+p.Value)
		}
		if strings.Join(got, "&") != want {
			t.Errorf("%s: got %s, want %s", in, strings.Join(got, "&"), want)
		}
	}
}

// TestEveryParam: a filter is told all that the document says, or the document is refused.
func TestEveryParam(t *testing.T) {
	own := []string{"attachments", "include_docs", "conflicts", "att_encoding_info", "view", "q"}
	for _, name := range append(own, feedParams...) {
		for _, name := range []string{name, strings.ToUpper(name)} {
			r, err := parseDocument(`{"_id":"a",`+ends+`,"filter":"d/f","query_params":{"`+name+`":"x"}}`,
				DefaultConfig())
			if refused := slices.Contains(feedParams, strings.ToLower(name)); refused != (err != nil) {
				t.Errorf("%s: %v", name, err)
			} else if !refused && !slices.Contains(r.Filter.ChangesParams(), peer.Param{Name: name, Value: "x"}) {
				t.Errorf("%s: the filter is told %v", name, r.Filter.ChangesParams())
			}
		}
	}
}
