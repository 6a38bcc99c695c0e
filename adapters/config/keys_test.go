package config

import (
	"maps"
	"strings"
	"testing"
)

// TestEachKeyIsItsOwn sets each key for which it has a value: no other key may have another value then, except the same
// setting's other name, such as interval_sec for interval.
func TestEachKeyIsItsOwn(t *testing.T) {
	values := strings.Fields("true false 1 2 7 77 0.5 600 5m x strict debug json nolb relay.example 127.0.0.9 " +
		"http://relay.example:1 [\"http://relay.example\"] https://relay.example /x tlsv1.2 GET cookie,default " +
		"bcrypt sha512 fifo wait jsonp x:y 3,4")
	otherNames := map[string]string{"startup_jitter": "accept_jitter", "accept_jitter": "startup_jitter"}
	byDefault, tried := Default(), 0
	before := valuesOf(&byDefault)
	for at := range before {
		if at.Section == "admins" || strings.Contains(at.Key, ":") || strings.Contains(at.Section, " ") {
			continue // its place has a name for the user to choose
		}
		for _, value := range values {
			c := Default()
			if c.Set(at.Section, at.Key, value) != nil {
				continue
			}
			after := valuesOf(&c)
			if after[at] == before[at] {
				continue
			}
			maps.DeleteFunc(after, func(n Name, value string) bool {
				return n == at || before[n] == value || n.Key == otherNames[at.Key] ||
					strings.TrimSuffix(n.Key, "_sec") == strings.TrimSuffix(at.Key, "_sec")
			})
			if len(after) > 0 {
				t.Errorf("%s = %s also sets %v", at, value, after)
			}
			tried++
			break
		}
	}
	if tried < 125 {
		t.Errorf("only %d of %d keys were set", tried, len(before))
	}
}

func valuesOf(c *Config) map[Name]string {
	values := map[Name]string{}
	for _, row := range c.Rows() {
		values[Name{row.Section, row.Key}] = row.Value
	}
	return values
}

// TestDefaultsForGood: another release with other values would not find its store, or be found by its clients.
func TestDefaultsForGood(t *testing.T) {
	c := Default()
	got := valuesOf(&c)
	for n, want := range map[Name]string{
		{"store", "key_prefix"}: "couchrelay", {"chttpd", "port"}: "5980", {"chttpd", "bind_address"}: "127.0.0.1",
		{"ssl", "port"}: "6984", {"secrets", "encrypt"}: "true",
	} {
		if got[n] != want {
			t.Errorf("%s is %q, and must be %q", n, got[n], want)
		}
	}
}

// TestClone: what becomes of a clone does not show in the configuration.
func TestClone(t *testing.T) {
	c := Default()
	if err := c.Apply(Local{{"admins", "a"}: "-x", {"jwt_keys", "hmac:a"}: "eA==", {"replicator.shares", "user:a"}: "7",
		{"tls a", "verify"}: "false", {"follow a", "url"}: "http://h:1"}); err != nil {
		t.Fatal(err)
	}
	c.Empty, c.Skipped, c.Ignored = []string{"e"}, []string{"s"}, []string{"i"}
	other := c.Clone()
	clear(other.Admins)
	clear(other.Auth.JWT.Keys)
	clear(other.Replicator.Sharing.Shares)
	clear(other.Profiles)
	clear(other.Follow)
	clear(other.Empty)
	clear(other.Skipped)
	clear(other.Ignored)
	if len(c.Admins) != 1 || len(c.Auth.JWT.Keys) != 1 || len(c.Replicator.Sharing.Shares) != 1 ||
		len(c.Profiles) != 1 || len(c.Follow) != 1 || c.Empty[0] != "e" || c.Skipped[0] != "s" || c.Ignored[0] != "i" {
		t.Errorf("%+v", c)
	}
}
