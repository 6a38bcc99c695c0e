package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// TestLocalKeepsWhatIsStorable: settings that are accepted are read as they were written, whatever they are, and what
// is refused was worth it.
func TestLocalKeepsWhatIsStorable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "couchrelay.local.ini")
	text := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune(" ;#=[]\\\"'\t\r\n\x00/:,é\u0085\u00a0\ufeff")),
		rapid.RuneFrom([]rune("abc")), rapid.Rune()))
	names := rapid.OneOf(text, rapid.SampledFrom([]string{"replicator", "log", "user:a", "x/_replicator"}))
	rapid.Check(t, func(t *rapid.T) {
		l := Local{}
		for range rapid.IntRange(1, 5).Draw(t, "n") {
			n, value := Name{names.Draw(t, "section"), names.Draw(t, "key")}, text.Draw(t, "value")
			if Storable(n, value) == nil {
				l[n] = value
			}
		}
		d, err := l.Draft(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Place(); err != nil {
			t.Fatal(err)
		}
		if read, err := ReadLocal(path); err != nil || !maps.Equal(read, l) {
			t.Fatalf("%q is read as %q, %v", l, read, err)
		}
	})
	for _, value := range []string{"a;b", "[a]", "a=b", "a # b", `\`, "é", "", strings.Repeat("x", maxValue)} {
		if err := Storable(Name{"admins", "a b"}, value); err != nil {
			t.Errorf("%.20q: %v", value, err)
		}
	}
}

func TestNotStorable(t *testing.T) {
	for _, c := range []struct{ section, key, value, want string }{
		{"log", "level", "a\nb", "[log] \"level\": must be UTF-8 without line breaks"},
		{"log", "level", "a\rb", "control characters"}, {"log", "level", "\xff", "must be UTF-8"},
		{"log", "level", "a ;b", "no ; behind a space"}, {"log", "level", " a", "no space at either end"},
		{"admins", "a=b", "x", "no = in the key"}, {"admins", ";a", "x", "must be as a line"},
		{"admins", "[a", "x", "must be as a line"}, {"admins", "", "x", "must be as a line"},
		{"a]b ;", "a", "x", "must be as a line"},
		{"log", "level", strings.Repeat("x", maxValue+1), "must be at most 8192 bytes, has 8193"},
		{"log", strings.Repeat("x", maxKey+1), "x", "must be 1 to 256 bytes"},
	} {
		err := Storable(Name{c.section, c.key}, c.value)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 600 {
			t.Errorf("%.50q: %v, want %q", c, err, c.want)
		}
	}
}

// TestDrafts: a file is there as a whole or not at all, for its owner only, and drafts leave nothing behind.
func TestDrafts(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "local.ini")
	one, two := Local{{"log", "level"}: "debug"}, Local{{"log", "level"}: "error", {"chttpd", "port"}: "1"}
	if l, err := ReadLocal(path); err != nil || len(l) != 0 {
		t.Errorf("no file: %v, %v", l, err)
	}
	for _, step := range []struct {
		l     Local
		place bool
		want  Local
	}{{one, true, one}, {two, false, one}, {two, true, two}, {Local{}, true, Local{}}} {
		d, err := step.l.Draft(path)
		if err != nil {
			t.Fatal(err)
		}
		if step.place {
			if err := d.Place(); err != nil {
				t.Fatal(err)
			}
		} else {
			d.Discard()
		}
		got, err := ReadLocal(path)
		if err != nil || !maps.Equal(got, step.want) {
			t.Errorf("%v: %v, %v", step, got, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v is left, %v", files, err)
	}
	if _, err := one.Draft(filepath.Join(dir, "none", "local.ini")); err == nil {
		t.Error("written into a directory that does not exist")
	}
	large := Local{}
	for i := range 200 {
		large[Name{"log", strings.Repeat("k", i+1)}] = strings.Repeat("x", maxValue)
	}
	if _, err := large.Draft(path); err == nil || !strings.Contains(err.Error(), "may have 1048576") {
		t.Errorf("large: %v", err)
	}
}

// TestDraftBehindLink: where the local file is a link, as configuration management makes them, the link stays and its
// target is written, also the first time. A device is not replaced.
func TestDraftBehindLink(t *testing.T) {
	dir := t.TempDir()
	path, real := filepath.Join(dir, "local.ini"), filepath.Join(dir, "data", "real.ini")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "data"), 0o700), os.Symlink("data/real.ini", path)); err != nil {
		t.Fatal(err)
	}
	for _, level := range []string{"debug", "error"} {
		l := Local{{"log", "level"}: level}
		d, err := l.Draft(path)
		if err == nil {
			err = d.Place()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadLocal(real); err != nil || !maps.Equal(got, l) {
			t.Errorf("what the link names has %v, %v", got, err)
		}
		if to, err := os.Readlink(path); to != "data/real.ini" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := (Local{}).Draft(pipe); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		d.Discard()
		t.Errorf("a pipe: %v", err)
	}
}

// TestValues: every key with a value is told, and no secret.
func TestValues(t *testing.T) {
	c, err := load(t, "[admins]\nadm = s3cret\n[replicator.shares]\nuser:a = 7\n")
	if err != nil {
		t.Fatal(err)
	}
	values := c.Values()
	if values["admins"]["adm"] != Masked || values["replicator.shares"]["user:a"] != "7" ||
		values["chttpd"]["port"] != "5980" || len(values) != len(Sections()) {
		t.Errorf("%v", values)
	}
	if _, told := values["replicator"]["cert_file"]; told || len(values["admins"]) != 1 {
		t.Errorf("%v", values)
	}
}

// TestApply: local settings win over files, and are checked as they are.
func TestApply(t *testing.T) {
	c := Default()
	before := c.Clone()
	other := c.Clone()
	err := other.Apply(Local{{"admins", "a"}: "x", {"replicator.shares", "user:a"}: "7", {"log", "level"}: "debug"})
	if err != nil || other.LogLevel != "debug" || len(c.Admins) > 0 || len(before.Replicator.Sharing.Shares) > 0 {
		t.Errorf("%v: %+v", err, other)
	}
	for n, want := range map[Name]string{
		{"logs", "level"}:           "[logs]: no such section; known are admins, audit, chttpd",
		{"log s", "level"}:          "ssl, store, tls NAME, follow NAME",
		{"tls a b", "verify"}:       "[tls a b]: must be [tls NAME], with a NAME of",
		{"log", "levels"}:           "[log] levels: no such key; the nearest is level",
		{"couchdb", "max_dbs_open"}: "concerns a database server", {"log", "level"}: "must be one of",
	} {
		if err := c.Apply(Local{n: "x"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", n, err)
		}
	}
}
