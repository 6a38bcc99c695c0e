package reach

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func rules(t *testing.T, text string) Rules {
	t.Helper()
	rs, err := ParseRules(text)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// check is what a connection meets: its name, and the address that it has if it gets so far.
func check(p *Policy, host, addr string, port uint16) error {
	if err := p.Host(host, port); err != nil || addr == "" {
		return err
	}
	return p.Address(host, netip.MustParseAddr(addr), port)
}

func TestPolicy(t *testing.T) {
	const admin, user = false, true
	for _, c := range []struct {
		allow, deny string
		guarded     bool
		host, addr  string // no address where the host is one, or a proxy resolves it
		port        uint16
		want        string // of the error; empty if it is allowed
	}{
		{"", "", admin, "127.0.0.1", "", 80, ""},
		{"", "", admin, "db.test", "169.254.169.254", 80, ""},
		{"", "", user, "db.test", "203.0.113.5", 443, ""},
		{"", "", user, "db.test", "10.0.0.5", 5984, ""},

		// The machine itself, its links, and what stands for them.
		{"", "", user, "127.0.0.1", "", 80, "no connection to 127.0.0.1: jobs of users"},
		{"", "", user, "127.200.3.4", "", 80, "kept away from loopback"},
		{"", "", user, "127.0.0.1.", "", 80, "kept away from loopback"},
		{"", "", user, "localhost", "127.0.0.1", 80, "no connection to localhost (127.0.0.1): jobs of users"},
		{"", "", user, "localhost", "::1", 80, "kept away"},
		{"", "", user, "::1", "", 80, "kept away"},
		{"", "", user, "169.254.169.254", "", 80, "kept away"},
		{"", "", user, "rebind.test", "169.254.169.254", 80, "no connection to rebind.test (169.254.169.254): jobs"},
		{"", "", user, "fe80::1", "", 80, "kept away"}, {"", "", user, "fe80::1%eth0", "", 80, "kept away"},
		{"", "", user, "0.0.0.0", "", 80, "kept away"}, {"", "", user, "::", "", 80, "kept away"},
		{"", "", user, "0.1.2.3", "", 80, "kept away"},
		{"", "", user, "::ffff:127.0.0.1", "", 80, "kept away"},
		{"", "", user, "::ffff:a9fe:a9fe", "", 80, "kept away"}, {"", "", user, "::127.0.0.1", "", 80, "kept away"},
		{"", "", user, "64:ff9b::7f00:1", "", 80, "kept away"}, {"", "", user, "fd00:ec2::254", "", 80, "kept away"},
		{"", "", user, "100.100.100.200", "", 80, "kept away"}, {"", "", user, "100.100.100.201", "", 80, ""},
		{"", "", user, "168.63.129.16", "", 80, "kept away"}, {"", "", user, "192.0.0.192", "", 80, "kept away"},
		{"", "", user, "fd20:ce::254", "", 80, "kept away"},
		{"", "", user, "255.255.255.255", "", 80, "kept away"}, {"", "", user, "ff02::1", "", 80, "kept away"},
		{"", "", user, "fd00::1", "", 80, ""}, {"", "", user, "64:ff9b::cb00:7105", "", 80, ""},

		// Networks of endpoint_allow open what is guarded, names and * do not.
		{"127.0.0.0/8, *", "", user, "localhost", "127.0.0.1", 80, ""},
		{"127.0.0.1:5984, *", "", user, "127.0.0.1", "", 5984, ""},
		{"127.0.0.1:5984, *", "", user, "127.0.0.1", "", 80, "kept away"},
		{"localhost", "", user, "localhost", "127.0.0.1", 80, "kept away"},
		{"*", "", user, "127.0.0.1", "", 80, "kept away"},

		// A network that stands for addresses of IPv4 is denied as it is written, too.
		{"", "64:ff9b::/96", admin, "db.test", "64:ff9b::cb00:7105", 80, "endpoint_deny has 64:ff9b::/96"},
		{"", "::/0", admin, "64:ff9b::cb00:7105", "", 80, "endpoint_deny has ::/0"},
		{"", "::/0, 64:ff9b::/96", admin, "db.test", "203.0.113.5", 80, ""},
		{"", "::/0", admin, "db.test", "::ffff:203.0.113.5", 80, ""},

		// Who may go where endpoint_allow has rules.
		{"*.example.com", "", user, "db.example.com", "203.0.113.5", 80, ""},
		{"*.example.com", "", user, "DB.Example.COM.", "203.0.113.5", 80, ""},
		{"*.example.com", "", user, "a.b.example.com", "203.0.113.5", 80, ""},
		{"*.example.com", "", admin, "example.com", "", 80, "no connection to example.com: endpoint_allow has neither"},
		{"*.example.com", "", admin, "badexample.com", "", 80, "endpoint_allow has neither"},
		{"*.example.com", "", admin, "203.0.113.5", "", 80, "endpoint_allow has neither"},
		{"*.example.com", "", user, "db.example.com", "127.0.0.1", 80, "kept away"},
		{"example.com:5984", "", admin, "example.com", "203.0.113.5", 5984, ""},
		{"example.com:5984", "", admin, "example.com", "", 443, "endpoint_allow has neither"},
		{"10.0.0.0/8", "", admin, "db.test", "10.1.2.3", 80, ""},
		{"10.0.0.0/8", "", admin, "db.test", "::ffff:10.1.2.3", 80, ""},
		{"10.0.0.0/8", "", admin, "db.test", "11.1.2.3", 80, "no connection to db.test (11.1.2.3): endpoint_allow"},
		{"10.0.0.0/8, db.test", "", admin, "db.test", "11.1.2.3", 80, ""},
		{"10.0.0.0/8", "", admin, "db.test", "", 80, ""}, {"*:5984", "", admin, "db.test", "", 5984, ""},
		{"10.0.0.0/8:5984", "", admin, "db.test", "", 5984, ""},
		{"*:5984", "", admin, "db.test", "", 80, "no connection to db.test: endpoint_allow has neither"},
		{"10.0.0.0/8:5984", "", admin, "db.test", "", 80, "no connection to db.test: endpoint_allow has neither"},
		{"fd00::/8", "", admin, "fd12::7", "", 80, ""}, {"[fd12::7]:5984", "", admin, "fd12::7", "", 5984, ""},
		{"[fd12::7]:5984", "", admin, "fd12::7", "", 80, "endpoint_allow has neither"},

		// endpoint_deny wins, for admins too.
		{"", "bad.test", admin, "bad.test", "", 80, "no connection to bad.test: endpoint_deny has bad.test"},
		{"*", "bad.test", admin, "Bad.Test.", "", 80, "endpoint_deny has bad.test"},
		{"", "10.0.0.0/8", admin, "db.test", "10.1.2.3", 80, "db.test (10.1.2.3): endpoint_deny has 10.0.0.0/8"},
		{"", "10.0.0.0/8", admin, "10.1.2.3", "", 80, "endpoint_deny has 10.0.0.0/8"},
		{"10.0.0.0/8", "10.1.0.0/16:22", admin, "10.1.2.3", "", 22, "endpoint_deny has 10.1.0.0/16:22"},
		{"10.0.0.0/8", "10.1.0.0/16:22", admin, "10.1.2.3", "", 23, ""},
		{"", "*:22", admin, "127.0.0.1", "", 22, "endpoint_deny has *:22"},
		{"", "*:22", admin, "a.test", "", 22, "*:22"},
		{"", "127.0.0.1", user, "127.0.0.1", "", 80, "endpoint_deny has 127.0.0.1"},
		{"", "127.0.0.1", admin, "::ffff:127.0.0.1", "", 80, "endpoint_deny has 127.0.0.1"},
		{"", "::ffff:127.0.0.1", admin, "127.0.0.1", "", 80, "endpoint_deny has 127.0.0.1"},

		// What stands for an address of IPv4 is that address, however it is written.
		{"", "127.0.0.0/8", admin, "64:ff9b::127.0.0.1", "", 80, "endpoint_deny has 127.0.0.0/8"},
		{"", "127.0.0.0/8", admin, "64:ff9b:1::127.0.0.1", "", 80, "endpoint_deny has 127.0.0.0/8"},
		{"", "127.0.0.0/8", admin, "db.test", "::ffff:127.0.0.1", 80, "endpoint_deny has 127.0.0.0/8"},
		{"", "127.0.0.0/8", admin, "::ffff:0:127.0.0.1", "", 80, "endpoint_deny has 127.0.0.0/8"},
		{"", "127.0.0.0/8", admin, "2002:7f00:1::5", "", 80, "endpoint_deny has 127.0.0.0/8"},
		{"", "", user, "2002:7f00:1::5", "", 80, "kept away"}, {"", "", user, "64:ff9b:1::7f00:1", "", 80, "kept away"},
		{"", "", user, "::5", "", 80, "kept away"},
		{"", "0.0.0.0/8", admin, "::5", "", 80, "endpoint_deny has 0.0.0.0/8"},
		{"10.0.0.0/8", "", admin, "2002:0a01:0203::1", "", 80, ""},

		// A rule that names a translating network opens the addresses of IPv4 that the network leads to.
		{"64:ff9b::/96", "", admin, "db.test", "64:ff9b::cb00:7105", 80, ""},
		{"[64:ff9b::/96]:443", "", admin, "db.test", "64:ff9b::cb00:7105", 80, "endpoint_allow has neither"},
		{"[64:ff9b::/96]:443, 10.0.0.0/8", "", admin, "db.test", "64:ff9b::cb00:7105", 80,
			"endpoint_allow has neither"},
		{"64:ff9b::cb00:7100/120", "", admin, "64:ff9b::cb00:7105", "", 80, ""},
		{"64:ff9b::/96", "", admin, "db.test", "203.0.113.5", 80, "endpoint_allow has neither"},
		{"::/0", "", admin, "db.test", "64:ff9b::cb00:7105", 80, "endpoint_allow has neither"},
		{"64:ff9b::/96", "203.0.113.5", admin, "db.test", "64:ff9b::cb00:7105", 80, "endpoint_deny has 203.0.113.5"},
		{"64:ff9b::/96", "", user, "db.test", "64:ff9b::7f00:1", 80, "kept away"},
	} {
		p := &Policy{Allow: rules(t, c.allow), Deny: rules(t, c.deny), Guarded: c.guarded}
		err := check(p, c.host, c.addr, c.port)
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			refusal = &Refusal{}
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(refusal.Error(), c.want) {
			t.Errorf("allow %q, deny %q, guarded %t: %s (%s) port %d: %v, want %q",
				c.allow, c.deny, c.guarded, c.host, c.addr, c.port, err, c.want)
		}
	}
}

// TestOwnServer: the server that the operator shares is open to users, by its name, however that is spelled, and port
// alone, unless a rule of endpoint_deny or endpoint_allow closes it.
func TestOwnServer(t *testing.T) {
	for _, c := range []struct {
		own, deny, host, addr string
		port                  uint16
		open                  bool
	}{
		{"127.0.0.1", "", "127.0.0.1", "127.0.0.1", 5984, true},
		{"127.0.0.1", "", "127.0.0.1", "127.0.0.1", 5985, false},
		{"127.0.0.1", "", "127.0.0.2", "127.0.0.2", 5984, false},
		{"127.0.0.1", "", "localhost", "127.0.0.1", 5984, false},
		{"127.0.0.1", "*:5984", "127.0.0.1", "127.0.0.1", 5984, false},
		{"localhost", "", "LocalHost.", "127.0.0.1", 5984, true},
	} {
		p := &Policy{Deny: rules(t, c.deny), Guarded: true, Own: Server{c.own, 5984}}
		if err := p.Address(c.host, netip.MustParseAddr(c.addr), c.port); (err == nil) != c.open {
			t.Errorf("own %s, deny %q: %s (%s) port %d: %v", c.own, c.deny, c.host, c.addr, c.port, err)
		}
	}
}

// TestProxied: a proxy is asked for no host that it may take for another one, unless all are allowed. How it is written
// tells nothing against a usual one.
func TestProxied(t *testing.T) {
	for _, p := range []*Policy{{Deny: rules(t, "bad.test")}, {Allow: rules(t, "10.0.0.0/8")}, {Guarded: true}} {
		for host, usual := range map[string]bool{
			"ｂａｄ.test": false, "ba\u00add.test": false, "bad.test..": false, "１０.0.0.1": false, "bücher.test": false,
			"167772161": false, "10.1": false, "012.0.0.1": false, "0x7f.1": false, "0x7F000001": false, "0x": false,
			"xn--bcher-kva.test": true, "DB_1.Test.": true, "0xa.test": true, "10.0.0.1": true, "10.0.0.1.": true,
		} {
			err := p.Proxied(host, 443)
			if refused := err != nil && strings.Contains(err.Error(), proxyRule); refused == usual {
				t.Errorf("%+v: %s: %v", p, host, err)
			}
			if err := (&Policy{}).Proxied(host, 443); err != nil {
				t.Errorf("without rules: %v", err)
			}
		}
		if err := p.Proxied("127.0.0.1", 443); (err == nil) != (len(p.Deny) > 0) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestDeniedNameOfAnAddress: a connection is refused for the name of its host, too, however that is spelled.
func TestDeniedNameOfAnAddress(t *testing.T) {
	p := &Policy{Deny: rules(t, "db.test")}
	if err := p.Address("DB.Test.", netip.MustParseAddr("203.0.113.5"), 443); err == nil {
		t.Error("an address of a denied host is let through")
	}
}

func TestMistakes(t *testing.T) {
	for _, text := range []string{
		",", "a.test,", "http://a.test", "a.test/x", "a b", "*a.test", "*.", "a.*.test", ".a.test", "a..test",
		"10.0.0.0/33", "10.0.0/8", "::ffff:10.0.0.0/104", "a.test:0", "a.test:65536", "a.test:",
		"a.test:x", "a.test:05", ":80",
		"[::1", "[::1]x", "[10.0.0.1]:80", "[a]:80", "300.1.1.1", "127.1", "2130706433", "é.test", "user@a",
		strings.Repeat("a", 254),
	} {
		if rs, err := ParseRules(text); !errors.Is(err, errForm) {
			t.Errorf("%q is read as %q, %v", text, rs, err)
		}
	}
	_, err := ParseRules("a.test, b c, d.test")
	if err == nil || !strings.HasSuffix(err.Error(), `; "b c" is not one of them`) {
		t.Errorf("the mistake is not named: %v", err)
	}
	if rs, err := ParseRules("  "); rs != nil || err != nil {
		t.Errorf("%v, %v", rs, err)
	}
}

// TestRulesAreReadAsWritten: what a rule writes is that rule.
func TestRulesAreReadAsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"A.Test. , *.b.test:80,*": "a.test, *.b.test:80, *", "10.1.2.3/8": "10.0.0.0/8", "::1": "::1",
		"[fd00:1:2:3:4:5:6:7]:80": "[fd00:1:2:3:4:5:6:7]:80",
		"[::1]:80":                "[::1]:80", "[FD00::/8]:80": "[fd00::/8]:80", "10.0.0.0/8:22": "10.0.0.0/8:22",
		"my_db:5984":  "my_db:5984",
		"10.0.0.1/32": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "*:443": "*:443",
	} {
		rs := rules(t, text)
		if rs.String() != want || rules(t, want).String() != want {
			t.Errorf("%q is written %q, want %q", text, rs, want)
		}
	}
}

// TestGuardHasNoHoles: no address that stands for a guarded one is let through, whatever is denied, and no rule but one
// for its network changes that.
func TestGuardHasNoHoles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.SliceOfN(rapid.Byte(), 3, 3).Draw(t, "low")
		first := rapid.SampledFrom([]byte{0, 127}).Draw(t, "first")
		v4 := netip.AddrFrom4([4]byte{first, low[0], low[1], low[2]})
		bytes := v4.As16()
		switch rapid.IntRange(0, 2).Draw(t, "form") {
		case 0:
			copy(bytes[:12], make([]byte, 12)) // compatible
		case 1:
			copy(bytes[:], []byte{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0})
		}
		p := &Policy{Guarded: true}
		p.Allow, _ = ParseRules(rapid.SampledFrom([]string{"", "*", "a.test", "10.0.0.0/8,*"}).Draw(t, "allow"))
		for _, addr := range []netip.Addr{v4, netip.AddrFrom16(bytes), netip.AddrFrom16(bytes).WithZone("x")} {
			if p.Address("a.test", addr, 80) == nil || p.Host(addr.String(), 80) == nil {
				t.Fatalf("%s was let through", addr)
			}
		}
	})
}

// FuzzRules reads any text as rules. Those that it holds read as they are written, and never crash.
func FuzzRules(f *testing.F) {
	for _, text := range []string{
		"*.a.test:80, 10.0.0.0/8,[::1]:5984, fd00::/8, *", "[fe80::1%x]:80", "::ffff:1.2.3.4",
	} {
		f.Add(text, "db.a.test", uint16(80))
	}
	f.Fuzz(func(t *testing.T, text, host string, port uint16) {
		rs, err := ParseRules(text)
		if err != nil {
			if !errors.Is(err, errForm) || rs != nil {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := ParseRules(rs.String())
		if err != nil || again.String() != rs.String() {
			t.Fatalf("%q is written %q, which is read as %q, %v", text, rs, again, err)
		}
		deny := Policy{Deny: rs}
		if deny.Host(host, port) == nil && len(rs) > 0 && rs[0].any && rs[0].port == 0 {
			t.Fatalf("%q let %q through", text, host)
		}
	})
}
