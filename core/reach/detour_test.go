package reach

import (
	"net/netip"
	"strings"
	"testing"
)

func TestDetours(t *testing.T) {
	const text = "db.test:443:10.0.0.1:8443, *.cloud.test:443:proxy:9000, V6.Test:80:[fd00::1]:5984, " +
		"127.0.0.1:5984:couch:5984, [::1]:5984:[fd00::1]:1"
	ds, err := ParseDetours(text)
	if err != nil {
		t.Fatal(err)
	}
	const want = "db.test:443:10.0.0.1:8443, *.cloud.test:443:proxy:9000, v6.test:80:[fd00::1]:5984, " +
		"127.0.0.1:5984:couch:5984, [::1]:5984:[fd00::1]:1"
	if again, err := ParseDetours(ds.String()); err != nil || ds.String() != want || again.String() != want {
		t.Errorf("%s, %v", ds, err)
	}
	for _, c := range []struct {
		host string
		port uint16
		want string
	}{
		{"db.test", 443, "10.0.0.1:8443"}, {"DB.Test.", 443, "10.0.0.1:8443"}, {"db.test", 80, ""},
		{"a.cloud.test", 443, "proxy:9000"}, {"a.b.cloud.test", 443, "proxy:9000"}, {"cloud.test", 443, ""},
		{"v6.test", 80, "[fd00::1]:5984"}, {"10.0.0.1", 443, ""},
		{"127.0.0.1", 5984, "couch:5984"}, {"::ffff:127.0.0.1", 5984, "couch:5984"}, {"127.0.0.1", 80, ""},
		{"127.0.0.2", 5984, ""}, {"::1", 5984, "[fd00::1]:1"},
	} {
		if got, found := ds.Find(c.host, c.port); got != c.want || found != (c.want != "") {
			t.Errorf("%s port %d: %q", c.host, c.port, got)
		}
	}
	_, err = ParseDetours("a.test:1:b.test:1, x, y")
	if err == nil || !strings.HasSuffix(err.Error(), `; "x" is not one of them`) {
		t.Errorf("the mistake is not named: %v", err)
	}
	for _, text := range []string{"", "a.test", "a.test:443", "a.test:443:b.test", "a.test:443:b.test:0",
		"a.test::b.test:1", "10.0.0.0/8:443:b.test:1", "10.0.0.1/32:443:b.test:1", "[::1:443:b.test:1",
		"[::1]:b.test:1", "[::1]443:b.test:1", "[a.test]:443:b.test:1", "*:443:b.test:1",
		"a.test:443:*.b.test:1", "a.test:443:*:1",
		"a.test:443:10.0.0.0/8:1", "a.test:443:10.0.0.1/32:1", "a.test:443:fd00::1:1", "a.test:443:b.test:1,"} {
		if ds, err := ParseDetours(text); err == nil {
			t.Errorf("%q is read as %q", text, ds)
		}
	}
}

// TestDetoursOfAddresses: who may not reach this machine may follow a detour from its address, unless a rule of the
// operator says otherwise.
func TestDetoursOfAddresses(t *testing.T) {
	ds, err := ParseDetours("127.0.0.1:5984:couch:5984, localhost:5984:couch:5984")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, deny string
		port       uint16
		allowed    bool
	}{
		{"127.0.0.1", "", 5984, true}, {"localhost", "", 5984, true}, {"127.0.0.1", "", 5985, false},
		{"127.0.0.2", "", 5984, false}, {"127.0.0.1", "127.0.0.0/8", 5984, false},
	} {
		deny, err := ParseRules(c.deny)
		if err != nil {
			t.Fatal(err)
		}
		p := Policy{Deny: deny, Guarded: true, Detours: ds}
		if err := p.Host(c.host, c.port); (err == nil) != c.allowed {
			t.Errorf("%s:%d, deny %q: %v", c.host, c.port, c.deny, err)
		}
		if _, is := literal(c.host); is && p.Proxied(c.host, c.port) == nil {
			t.Errorf("a proxy may connect to %s:%d", c.host, c.port)
		}
	}
}

// TestDetoursIntoNetworks: a detour of a name that no rule of endpoint_allow has may lead into its networks alone.
func TestDetoursIntoNetworks(t *testing.T) {
	for _, c := range []struct {
		allow, host, to string
		allowed         bool
	}{
		{"", "db.test", "10.0.0.1", true}, {"10.0.0.0/8", "db.test", "10.0.0.1", true},
		{"10.0.0.0/8", "db.test", "11.0.0.1", false}, {"10.0.0.0/8:80", "db.test", "10.0.0.1", false},
		{"db.test, 10.0.0.0/8", "db.test", "11.0.0.1", true}, {"db.test:80, 10.0.0.0/8", "db.test", "11.0.0.1", false},
		{"10.0.0.0/8", "10.0.0.1", "11.0.0.1", true},
	} {
		allow, err := ParseRules(c.allow)
		if err != nil {
			t.Fatal(err)
		}
		p, to := Policy{Allow: allow}, netip.AddrPortFrom(netip.MustParseAddr(c.to), 5984)
		if err := p.Detoured(c.host, 5984, to); (err == nil) != c.allowed {
			t.Errorf("%s of %q to %s: %v", c.host, c.allow, c.to, err)
		}
	}
}
