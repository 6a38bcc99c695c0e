package repid

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// relevant are the parts of a document that its id depends on, each with some values of which no two
// mean the same. An empty value leaves the part out.
var relevant = map[string][]string{
	"user":    {"", "ann:%s@", "bob:%s@"},
	"host":    {"h", "H", "[::1]"},
	"port":    {"", ":81", ":6984"},
	"path":    {"", "/db", "/db/x", "/db?x"},
	"headers": {`{}`, `{"X":"1"}`, `{"x":"1"}`, `{"X":"2"}`, `{"Authorization":"Bearer t"}`},
	"filter": {``, `,"doc_ids":[]`, `,"doc_ids":["a"]`, `,"doc_ids":["a","b"]`, `,"selector":{}`,
		`,"selector":{"a":1}`, `,"selector":{"a":1.0}`,
		`,"filter":"d/f"`, `,"filter":"_design"`, `,"filter":"d/f","query_params":{"a":1}`,
		`,"filter":"d/f","query_params":{"a":"1"}`},
	"winning": {``, `,"winning_revs_only":true`},
	"since":   {``, `,"since_seq":"1"`, `,"since_seq":0`, `,"since_seq":"0"`, `,"since_seq":[0]`},
}

var irrelevant = []string{
	`,"retries_per_request":9`, `,"worker_processes":"2"`, `,"http_connections":1`, `,"connection_timeout":5000`,
	`,"use_bulk_get":false`,
	`,"use_checkpoints":false`, `,"checkpoint_interval":10`, `,"proxy":"http://u:p@p"`,
	`,"socket_options":"[{nodelay,true}]"`,
	`,"note":{"filter":"x/y"}`, `,"owner":"o"`, `,"user_ctx":{"name":"n"}`, `,"_id":"x"`, `,"winning_revs_only":false`,
}

// compose writes a document of the chosen parts and adds what has no influence.
func compose(t *rapid.T, chosen map[string]string) string {
	password := rapid.StringMatching(`[a-z0-9]{0,5}`).Draw(t, "password")
	protocol := "http"
	if chosen["port"] != "" && rapid.Bool().Draw(t, "https") {
		protocol = "https"
	}
	user := chosen["user"]
	if user != "" {
		user = fmt.Sprintf(user, password)
	}
	url := protocol + "://" + user + chosen["host"] + chosen["port"] + chosen["path"]
	out := `{"target":"http://t","source":{"url":"` + url + `","headers":` + chosen["headers"] + `}` +
		chosen["filter"] + chosen["since"] + chosen["winning"]
	for _, more := range irrelevant {
		if rapid.Bool().Draw(t, more) && !(strings.Contains(more, "winning") && chosen["winning"] != "") {
			out += more
		}
	}
	return out + "}"
}

// TestIDDependsOnWhatMatters draws two documents; their ids are equal if and only if they agree in all
// that is relevant.
func TestIDDependsOnWhatMatters(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b := map[string]string{}, map[string]string{}
		for _, part := range slices.Sorted(maps.Keys(relevant)) {
			a[part] = rapid.SampledFrom(relevant[part]).Draw(r, part)
			b[part] = a[part]
			if rapid.IntRange(0, 9).Draw(r, "differ") == 0 {
				b[part] = rapid.SampledFrom(relevant[part]).Draw(r, part)
			}
		}
		first, second := compose(r, a), compose(r, b)
		s := Server{UUID: uuid}
		same := New(s, parse(t, first), "f") == New(s, parse(t, second), "f")
		if same != maps.Equal(a, b) {
			r.Fatalf("ids are equal: %v\n%s\n%s", same, first, second)
		}
		if sameJob := JobID(s, parse(t, first), "me") == JobID(s, parse(t, second), "me"); sameJob != same {
			r.Fatalf("job ids are equal: %v\n%s\n%s", sameJob, first, second)
		}
	})
}
