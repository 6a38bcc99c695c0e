package spec

import (
	"strings"
	"testing"
)

// TestKinds: each parameter takes values of some kinds and refuses all others by its name: n is null, b a boolean, i an
// integer, s a string, a an array, o an object.
func TestKinds(t *testing.T) {
	values := map[string]string{"n": "null", "b": "true", "i": "7", "s": `"x"`, "a": "[]", "o": "{}"}
	for name, kinds := range map[string]string{
		"continuous": "b", "create_target": "b", "create_target_params": "o", "winning_revs_only": "b",
		"use_checkpoints": "b", "use_bulk_get": "b", "worker_processes": "i", "worker_batch_size": "i",
		"http_connections": "i", "connection_timeout": "i", "retries_per_request": "i", "checkpoint_interval": "i",
		"socket_options": "", "doc_ids": "na", "selector": "o", "query_params": "o", "since_seq": "isa",
		"user_ctx": "o", "source_proxy": "", "target_proxy": "", "proxy": "", "cancel": "", "paused": "b",
	} {
		for kind, value := range values {
			body := `{"source":"http://a/b","target":"http://c/d","` + name + `":` + value + `}`
			_, err := parseDocument(body, DefaultConfig())
			takes := err == nil
			if takes != strings.Contains(kinds, kind) {
				t.Errorf("%s takes %s: %v", name, value, err)
			}
			if err != nil && !strings.Contains(err.Error(), "`"+name+"`") {
				t.Errorf("%s: %s: the error names no parameter: %v", name, value, err)
			}
		}
	}
}
