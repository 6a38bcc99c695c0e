package explain

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"couchrelay/core/jobstore"
)

// named are the places where the core names the errors of jobs.
var named = regexp.MustCompile(`(?m)Error: +"([a-z_]+)"|t\.Error(?:, t\.\w+)? = "([a-z_]+)"|` +
	`\treturn "([a-z_]+)"$|Failed, now, now, "([a-z_]+)"`)

// TestClasses: every error that the core gives a job has a class and advice, also the kinds of failures.
func TestClasses(t *testing.T) {
	var names []string
	for _, pattern := range []string{"replication/*.go", "node/run.go", "host/host.go", "jobstore/document.go"} {
		files, err := filepath.Glob("../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if ok, _ := filepath.Match("*_test.go", filepath.Base(file)); ok {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				if m[1] == "not_found" {
					continue // an answer that is compared, no error of a job
				}
				if m[3] == "" || filepath.Base(file) == "policy.go" { // elsewhere other words are returned
					names = append(names, m[1]+m[2]+m[3]+m[4])
				}
			}
		}
	}
	for _, must := range []string{"db_not_found", "unauthorized", "max_backoff", "worker_lost", "invariant_broken",
		"parse_error", "invalid_replication", "missing_doc", "doc_write_failed"} {
		if !slices.Contains(names, must) {
			t.Errorf("%s is not found in the core", must)
		}
	}
	text, err := os.ReadFile("../peer/failure.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`[A-Z]\w+: "([a-z_]+)"`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "status" {
			names = append(names, m[1])
		}
	}
	for _, name := range append(names, "http_error_418", "stalled", "refused", string(jobstore.Failed)) {
		if c, known := ClassOf(name); !known || c.Class == "" || c.Advice == "" {
			t.Errorf("error %q has no class or no advice", name)
		}
	}
	if _, known := ClassOf("no_such_error"); known {
		t.Error("an error that there is not has a class")
	}
}

// TestFailedForGood: no advice for a job that has failed for good says that it is tried again by itself, and each names
// what makes it run again. A job of a request has no document that could be corrected.
func TestFailedForGood(t *testing.T) {
	for _, name := range append(Errors(), "http_error_418") {
		c, _ := ClassOf(name)
		document, request := c.OfFailed(false), c.OfFailed(true)
		for _, advice := range []string{document, request} {
			if advice == "" || regexp.MustCompile("by itself|runs again|nothing").MatchString(advice) ||
				!regexp.MustCompile("retry|send it again").MatchString(advice) {
				t.Errorf("%s: %s", name, advice)
			}
		}
		if regexp.MustCompile("in the document|correct the document, and").MatchString(request) {
			t.Errorf("%s of a request: %s", name, request)
		}
	}
	if got := (ErrorClass{}).OfFailed(true); got != "" {
		t.Errorf("an error without a class has the advice %q", got)
	}
}
