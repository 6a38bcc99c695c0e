package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestCommentsStay: a change of the local file leaves all that is right, and is made where the key was.
func TestCommentsStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "local.ini")
	was := `; since the outage
[log]
; not less
level = info ; or debug
# of the past
file = a
  ; that one goes on
 b
[replicator]
max_jobs = 5

; the end`
	want := `; since the outage
[log]
; not less
level = debug
# of the past
  ; that one goes on
[replicator]
max_jobs = 5
worker_processes = 2

; the end

[chttpd]
port = 1
`
	if err := os.WriteFile(path, []byte(was), 0o600); err != nil {
		t.Fatal(err)
	}
	l := Local{{"log", "level"}: "debug", {"replicator", "max_jobs"}: "5", {"replicator", "worker_processes"}: "2",
		{"chttpd", "port"}: "1"}
	d, err := l.Draft(path)
	if err == nil {
		err = d.Place()
	}
	if got, _ := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%v, now there is\n%s", err, got)
	}
}

// TestEditsOfAnyText: whatever a user has written, the file has the settings afterwards, and all comments.
func TestEditsOfAnyText(t *testing.T) {
	lines := rapid.SliceOf(rapid.SampledFrom([]string{"[log]", "[x]", " [ log ] ; s", "a = 1", "a=2", "b = 1 ;c",
		" b =", " more", " on ;d", "  ; e", "; f", "#g", "", " ", "c=\r"}))
	comments := func(text string) (all []string) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && (line[0] == ';' || line[0] == '#' || line[0] == '[') {
				all = append(all, line)
			}
		}
		return all
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(lines.Draw(t, "lines"), "\n")
		was, err := parseLocal(text)
		if _, edited := (Local{}).edit(text); (edited != nil) != (err != nil) {
			t.Fatalf("%q is read with %v, and edited with %v", text, err, edited)
		}
		if err != nil {
			return
		}
		l := Local{}
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			n := Name{rapid.SampledFrom([]string{"log", "x", "y"}).Draw(t, "in"),
				rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")}
			l[n] = rapid.SampledFrom([]string{"1", "", "2", was[n]}).Draw(t, "value")
		}
		now, err := l.edit(text)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := parseLocal(now); err != nil || !maps.Equal(read, l) {
			t.Fatalf("%q with %q is %q: %q, %v", text, l, now, read, err)
		}
		had, has := comments(text), comments(now)
		if len(has) < len(had) || !slices.Equal(has[:len(had)], had) {
			t.Fatalf("%q is %q: comments are missing", text, now)
		}
	})
	right := "[log]\na = 1\n 2\n"
	if same, err := (Local{{"log", "a"}: "1 2"}).edit(right); err != nil || same != right {
		t.Errorf("%q, %v", same, err)
	}
}
