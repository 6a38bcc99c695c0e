package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"couchrelay/adapters/manual"

	"github.com/alecthomas/kong"
)

// thisProgram is the command line for its manual.
func thisProgram(t *testing.T) *manual.Program {
	t.Helper()
	p, err := program(newParser(new(commands), func(int) {}).Model)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestReferenceIsFresh: docs/configuration.md has all keys as they are.
func TestReferenceIsFresh(t *testing.T) {
	const path = "../../docs/configuration.md"
	text := thisProgram(t).Markdown()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if had, err := os.ReadFile(path); err != nil || string(had) != text {
		t.Errorf("docs/configuration.md is stale (%v): go test ./cmd/couchrelay -run TestReferenceIsFresh -update", err)
	}
}

// TestSettingsHaveAnEffect: for each key it is known when a change takes effect, but for those with one value.
func TestSettingsHaveAnEffect(t *testing.T) {
	want := map[string]string{
		"[log] level": "at once", "[replicator] max_jobs": "at once", "[replicator] use_bulk_get": "at the next start",
		"[replicator] usage_coeff": "at once, on all nodes", "[chttpd] port": "at the next start",
		"[tls NAME] ca_file": "at once", "[follow name] url": "at once", "[ssl] cert_file": "at once",
		"[node_types] replication": "at the next start", "[admins] NAME": "at once",
	}
	alone := []string{"update_docs", "max_document_id_length", "ibrowse_options", "valid_ibrowse_options",
		"secure_renegotiate"}
	for _, s := range settings() {
		name := "[" + s.Section + "] " + s.Key
		if (s.Effect == "") != slices.Contains(alone, s.Key) {
			t.Errorf("%s takes effect %q: does otherValues have a value of it?", name, s.Effect)
		}
		if w, has := want[name]; has && s.Effect != w {
			t.Errorf("%s takes effect %q", name, s.Effect)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("no such keys: %v", want)
	}
}

// sentenceLike reports whether a text begins and ends as sentences do.
func sentenceLike(text string) bool {
	first := text[:min(1, len(text))]
	return strings.HasSuffix(text, ".") && strings.ToUpper(first) == first
}

// TestManualIsWhole: every command and flag has a sentence, and is in its page and in the scripts; every command has
// examples, exit statuses that can be told apart, and is in a group.
func TestManualIsWhole(t *testing.T) {
	p := thisProgram(t)
	pages := p.Pages()
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		page := pages[manual.Name(n)+".1"]
		for _, v := range n.Values() {
			shown := strings.ReplaceAll(v.Name, "-", `\-`)
			if v.Flag == nil {
				shown = "ARGUMENTS"
			}
			if !strings.Contains(page, shown) {
				t.Errorf("%s: %s is not in its page", n.FullPath(), v.Name)
			}
			if !sentenceLike(manual.Explain(v)) || strings.Contains(v.Help, "${") {
				t.Errorf("%s %s: %q is no sentence", n.FullPath(), v.Name, v.Help)
			}
			if v.Flag != nil && v.Required && len(v.Flag.Xor) > 0 {
				t.Errorf("%s --%s: stands in the usage beside a flag that excludes it", n.FullPath(), v.Name)
			}
			if v.Flag != nil && !v.IsBool() && v.Tag.PlaceHolder == "" {
				t.Errorf("%s --%s: has no placeholder", n.FullPath(), v.Name)
			}
		}
		for _, c := range n.Children {
			if !sentenceLike(c.Help) || page == "" {
				t.Errorf("%s: %q is no sentence, or it has no page", c.FullPath(), c.Help)
			}
			if !strings.Contains(manual.Parse(c.Detail).Examples, "    couchrelay "+c.Path()) {
				t.Errorf("%s: has no example of itself", c.FullPath())
			}
			for _, s := range manual.Parse(c.Detail).Statuses {
				if strings.Trim(s.Code, "012345") != "" || s.Says == "" {
					t.Errorf("%s: exit status %q %q", c.FullPath(), s.Code, s.Says)
				}
			}
			walk(c)
		}
	}
	walk(p.App.Node)
	settings := pages["couchrelay.ini.5"]
	for _, s := range p.Settings {
		if !sentenceLike(s.Says) || s.Takes == "" {
			t.Errorf("[%s] %s: %q is no sentence", s.Section, s.Key, s.Says)
		}
		if !strings.Contains(settings, strings.ReplaceAll(s.Key, "-", `\-`)) {
			t.Errorf("[%s] %s is not in couchrelay.ini(5)", s.Section, s.Key)
		}
	}
}

// TestManual: scripts and pages are printed, written, and read by the programs that they are for.
func TestManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	dir := t.TempDir()
	if out, status, err := typed(t, 0, "man", "--directory", dir); status != 0 || out != "" {
		t.Fatal(out, err)
	}
	_, _, err := typed(t, 0, "man", "--directory", "manual.go")
	if err == nil || err.Error() != "--directory: mkdir manual.go: not a directory" {
		t.Errorf("into a file: %v", err)
	}
	for name, want := range thisProgram(t).Pages() {
		page, err := os.ReadFile(filepath.Join(dir, "man"+name[len(name)-1:], name))
		if err != nil || string(page) != want || !strings.Contains(want, `"1970-01-02"`) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := exec.LookPath("groff"); err != nil {
			t.Log("SKIPPED: ", err)
			continue
		}
		groff := exec.Command("groff", "-ww", "-man", "-Tutf8")
		groff.Stdin = strings.NewReader(want)
		var problems strings.Builder
		groff.Stderr = &problems
		if err := groff.Run(); err != nil || problems.Len() > 0 {
			t.Errorf("%s: %v %s", name, err, &problems)
		}
	}
	for line, want := range map[string]string{
		"man": `couchrelay \- replication`, "man hold add": `couchrelay\-hold\-add \-`,
		"man couchrelay.ini":   `couchrelay.ini \-`,
		"completion bash":      "complete -F _couchrelay couchrelay",
		"config --markdown":    "## [replicator]",
		"config store":         "[store]",
		"man completion":       `couchrelay completion fish > `,
		"completion zsh":       "#compdef couchrelay",
		"completion fish":      "complete -c couchrelay",
		"man --help":           "Examples:",
		"jobs --help":          "Default: 100.",
		"nodes --help":         "$COUCHRELAY_SERVER, else http://",
		"version":              "couchrelay " + version,
		"couchrelay-not-there": "",
	} {
		if out, _, _ := typed(t, 0, strings.Fields(line)...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", line, out)
		}
	}
	for _, line := range []string{"man holt", "completion tcsh"} {
		if out, status, err := typed(t, 0, strings.Fields(line)...); status == 0 || err == nil {
			t.Errorf("%s: %s", line, out)
		}
	}
}

// TestWordsOfCompletion: states are those that the service knows.
func TestWordsOfCompletion(t *testing.T) {
	r := newRig(t)
	_, answer := r.call("GET", "_scheduler/docs?states=unheard", "")
	_, known, _ := strings.Cut(answer["reason"].(string), "Choose from: [")
	got := strings.Split(strings.TrimSuffix(known, "]"), ",")
	want := slices.Clone(thisProgram(t).Words["state"])
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the service knows the states %q, and scripts %q", got, want)
	}
}
