package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestQueryParameters: a value is taken as it is, whatever signs it has.
func TestQueryParameters(t *testing.T) {
	t.Parallel()
	var c commands
	_, err := newParser(&c, func(int) {}).Parse([]string{"replicate", "http://a/b", "http://c/d", "--filter", "x/y",
		"--query-param", "query=a=1;b=2", "--query-param", "list=1,2"})
	if got := c.Replicate.QueryParam; err != nil || len(got) != 2 || got["query"] != "a=1;b=2" || got["list"] != "1,2" {
		t.Errorf("%q, %v", got, err)
	}
	for _, second := range []string{"x=z", "x=y", "x"} {
		_, err := newParser(new(commands), func(int) {}).Parse([]string{"verify", "http://a/b", "http://c/d",
			"--filter", "x/y", "--query-param", "x=y", "--query-param", second})
		if err == nil || !strings.Contains(err.Error(), "--query-param") {
			t.Errorf("x=y and %s: %v", second, err)
		}
	}
}

// TestVerifyCannot: a request that asks to end a replication names nothing to compare, and sections of a configuration
// are not known here.
func TestVerifyCannot(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "replication.json")
	for text, field := range map[string]string{
		`{"source":"http://a/a","target":"http://b/b","cancel":true}`:        "`cancel`",
		`{"cancel":true,"id":"x"}`:                                           "`cancel`",
		`{"source":{"url":"https://a/a","tls":"lab"},"target":"http://b/b"}`: "`tls`",
		`{"source":"http://a/a","target":{"url":"https://b/b","tls":"lab"}}`: "`tls`",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, status, err := typed(t, 0, "verify", "--replication", file)
		if status != badUsage || err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: status %d, %v", text, status, err)
		}
	}
}

// TestValuesOutOfRange: an error of a value names the flag that it was given with, its unit and its range. One of a
// file names the field.
func TestValuesOutOfRange(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "replication.json")
	text := `{"source":"http://a/a","target":"http://b/b","worker_processes":0}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const replicate, verify = "replicate|http://a/a|http://b/b|", "verify|http://a/a|http://b/b|"
	for line, wants := range map[string]string{
		verify + "--timeout|10us": "--timeout: parameter `connection_timeout` must be an integer from 1 to 86400000 " +
			"(milliseconds)",
		verify + "--retries|1001":                "--retries: ",
		replicate + "--connections|0":            "--connections: ",
		replicate + "--workers|0":                "--workers: ",
		replicate + "--batch-size|0":             "--batch-size: ",
		replicate + "--checkpoint-interval|100h": "--checkpoint-interval: ",
		"verify|--replication|" + file:           "parameter `worker_processes`",
		"verify|a|http://b/b": "local_endpoints_not_supported: `source` must be a URL that begins with http:// or " +
			"https://",
	} {
		var c commands
		ctx, err := newParser(&c, func(int) {}).Parse(strings.Split(line, "|"))
		if err == nil {
			err = ctx.Run(&window{to: &strings.Builder{}})
		}
		if err == nil || !strings.HasPrefix(err.Error(), wants) || exitStatus(err) != badUsage ||
			strings.Contains(err.Error(), "[local]") { // which a command cannot set
			t.Errorf("%q: %v", line, err)
		}
	}
}
