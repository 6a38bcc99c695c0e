package jobstore

import (
	"strings"
	"testing"

	"couchrelay/core/docs"
)

// TestRedact: nothing of an endpoint is left that could be secret.
func TestRedact(t *testing.T) {
	for body, want := range map[string]string{
		`{"source":"https://u:hidden@h:1/a?token=hidden#hidden","target":"http://h/b"}`: `{"source":"https://h:1/a",` +
			`"target":"http://h/b"}`,
		`{"source":{"url":"http://u:hidden@h/a?x=hidden","headers":{"A":"hidden"},"x":"hidden",` +
			`"auth":{"basic":{"password":"hidden"}}}}`: `{"source":{"url":"http://h/a"}}`,
		`{"source":{"headers":{"A":"hidden"}},"target":["hidden"]}`: `{"source":{},"target":null}`,
		`{"source":"http://u:hid%zzden@h/","target":"hidden"}`:      `{"source":"","target":""}`,
		`{"proxy":"http://u:hidden@p:1","source_proxy":"socks5://u:hidden@p","selector":{"a":1}}`: `{"proxy":` +
			`"http://p:1","source_proxy":"socks5://p","selector":{"a":1}}`,
		`{"_replication_state_reason":"GET http://u:hidden@h/a?t=hidden: 500"}`: `{"_replication_state_reason":` +
			`"GET http://h/a 500"}`,
	} {
		got, err := Redact([]byte(body))
		if err != nil || string(got) != want || strings.Contains(string(got), "hidden") {
			t.Errorf("%s\n got %s, %v", body, got, err)
		}
	}
}

// TestOthersDocuments: whatever a write says, the document of another owner stays.
func TestOthersDocuments(t *testing.T) {
	b := newBench(t)
	joe, eve := Writer{Name: "joe"}, Writer{Name: "eve"}
	if refusal := b.put("r", simple, joe); refusal != nil {
		t.Fatal(refusal)
	}
	for _, body := range []string{simple, `{"source":"http://h/x","target":"http://h/b"}`,
		`{"source":"http://h/x","target":"http://h/b","owner":"joe"}`,
		`{"source":"http://h/x","target":"http://h/b","owner":"eve"}`} {
		for _, by := range []Writer{eve, {}} {
			if refusal := b.put("r", body, by); refusal == nil || refusal.Kind != docs.Denied {
				t.Errorf("%s by %q: %v", body, by.Name, refusal)
			}
		}
	}
	if refusal := b.put("_design/d", `{"a":1}`, joe); refusal == nil || refusal.Kind != docs.Denied {
		t.Errorf("a design document: %v", refusal)
	}
	if refusal := b.put("r", `{"source":"http://h/y","target":"http://h/b"}`, joe); refusal != nil {
		t.Error(refusal)
	}
}
