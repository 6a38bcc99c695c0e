package certs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"couchrelay/core/config"

	"github.com/benbjohnson/clock"
)

// TestSource: a profile stays the same until its files are old, is read again then, and keeps what it had when they
// cannot be read.
func TestSource(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	first, _ := chain(t, 0)
	second, _ := chain(t, 0)
	write := func(from string) {
		t.Helper()
		pem, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	wall, told := clock.NewMock(), []string{}
	settings := config.TLS{Verify: true, CAFile: file, Reload: time.Hour}
	s, err := NewSource(map[string]config.TLS{"": {}, "partner": settings}, wall,
		func(what string, err error) { told = append(told, what+": "+err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Config("partner")
	if err != nil {
		t.Fatal(err)
	}
	write(second)
	wall.Add(time.Hour - time.Second)
	if c, _ := s.Config("partner"); c != before {
		t.Error("read again too early")
	}
	wall.Add(time.Second)
	after, _ := s.Config("partner")
	if after == before || after.RootCAs.Equal(before.RootCAs) {
		t.Error("not read again")
	}
	write("testdata/clear.pem")
	wall.Add(time.Hour)
	for range 3 {
		if c, err := s.Config("partner"); c != after || err != nil {
			t.Errorf("%v, %v", c, err)
		}
		wall.Add(time.Minute)
	}
	if len(told) != 1 || !strings.Contains(told[0], "holds no PEM certificate") {
		t.Errorf("%q", told)
	}
	write(first) // a minute after they could not be read
	if c, err := s.Config("partner"); err != nil || !c.RootCAs.Equal(before.RootCAs) {
		t.Errorf("not read again after a failure: %v", err)
	}
	if _, err := s.Config("other"); err == nil || err.Error() != "no [tls other] is configured" {
		t.Error(err)
	}
	bad := map[string]config.TLS{"partner": {CAFile: "testdata/none"}}
	if _, err := NewSource(bad, wall, nil); err == nil || !strings.HasPrefix(err.Error(), "[tls partner] ca_file: ") {
		t.Error(err)
	}
}

// TestSourceConfigured: profiles that are configured anew are as they are then, those with the same settings stay as
// they were, and nothing changes after a mistake.
func TestSourceConfigured(t *testing.T) {
	s, err := NewSource(map[string]config.TLS{"a": {ServerName: "one"}, "b": {Verify: true}}, clock.NewMock(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := s.Config("b")
	if err := s.Configure(map[string]config.TLS{"a": {ServerName: "two"}, "b": {Verify: true}}); err != nil {
		t.Fatal(err)
	}
	if s.Configure(map[string]config.TLS{"a": {ServerName: "three"}, "b": {CAFile: "none"}}) == nil {
		t.Error("a file that is not there is no mistake")
	}
	if a, err := s.Config("a"); err != nil || a.ServerName != "two" {
		t.Errorf("a has %+v, %v", a, err)
	}
	if now, err := s.Config("b"); err != nil || now != b {
		t.Errorf("b was made anew, %v", err)
	}
	if err := s.Configure(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Config("a"); err == nil || !strings.Contains(err.Error(), "no [tls a] is configured") {
		t.Errorf("a profile that is gone: %v", err)
	}
}
