// Package reach decides where jobs may connect: which servers and proxies, by name, address and port. It resolves no
// names: a connection is checked by its name before it is made (Host), and again by each address that is tried
// (Address).
package reach

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Policy says where the connections of some jobs may go. The zero Policy lets them go everywhere.
type Policy struct {
	Allow Rules // if there are any, connections go only where one matches
	Deny  Rules // no connection goes where one matches, whatever Allow says
	// Guarded keeps connections away from the machine itself and its links, where services trust their neighbours,
	// unless a network or address of Allow says otherwise: a name may resolve to anything.
	Guarded bool
	// Own is a server that the operator shares with all users, wherever it is: Guarded does not keep them from it.
	Own Server
	// Detours lead connections elsewhere. The operator names their targets: of the rules only Allow is about them.
	Detours Detours
}

// Server is a host, in small letters, and a port. The zero Server is none.
type Server struct {
	Host string
	Port uint16
}

// Refusal is the error of a connection that a Policy does not allow.
type Refusal struct {
	Host string // as the URL has it, with the address if that was what did not fit
	Rule string // why
}

func (r *Refusal) Error() string { return "no connection to " + r.Host + ": " + r.Rule }

// Host checks a connection before the name is resolved. A host that is an address is checked as one. The result is a
// *Refusal or nil. Guarded does not keep a detour from where it leads, nor from an address that it replaces.
func (p *Policy) Host(host string, port uint16) error {
	if _, turns := p.Detours.Find(host, port); turns {
		open := *p
		open.Guarded = false
		return open.named(host, port)
	}
	return p.named(host, port)
}

func (p *Policy) named(host string, port uint16) error {
	if addr, is := literal(host); is {
		return p.Address(host, addr, port)
	}
	name := canonical(host)
	if r := p.Deny.find(name, netip.Addr{}, port); r != nil {
		return &Refusal{host, "endpoint_deny has " + r.String()}
	}
	if len(p.Allow) > 0 && !p.Allow.hasNetworks(port) && p.Allow.find(name, netip.Addr{}, port) == nil {
		return &Refusal{host, notAllowed}
	}
	return nil
}

// Proxied is Host for a connection that a proxy makes. The proxy alone learns the address, so the host must be one that
// it cannot take for another: names are mapped to ASCII on the way (ｄｂ.test to db.test), and resolvers read numbers as
// addresses of IPv4 (2130706433, 0x7f.1).
func (p *Policy) Proxied(host string, port uint16) error {
	_, is := literal(host)
	if rules := p.Guarded || len(p.Deny)+len(p.Allow) > 0; rules && !is && !isName(canonical(host)) {
		return &Refusal{host, proxyRule}
	}
	return p.named(host, port)
}

// Address checks a connection to an address that host has, or is.
func (p *Policy) Address(host string, addr netip.Addr, port uint16) error {
	given := addr.Unmap().WithZone("")
	addr, name := embedded(addr), canonical(host)
	shown := host
	if _, is := literal(host); is {
		name = ""
	} else {
		shown += " (" + addr.String() + ")"
	}
	for _, a := range []netip.Addr{addr, given} { // a rule may also name a network that translates addresses
		if r := p.Deny.find(name, a, port); r != nil {
			return &Refusal{shown, "endpoint_deny has " + r.String()}
		}
	}
	if p.Guarded && isGuarded(addr) && !p.Allow.opens(addr, port) && p.Own != (Server{canonical(host), port}) {
		return &Refusal{shown, guardRule}
	}
	if len(p.Allow) > 0 && p.Allow.find(name, addr, port) == nil && !p.Allow.translates(given, port) {
		return &Refusal{shown, notAllowed}
	}
	return nil
}

// Detoured checks a connection that a detour of host leads to an address. Host has let the name of host pass, perhaps
// since Allow has networks: no address of that name is asked for, so the one that is connected to must be in them.
func (p *Policy) Detoured(host string, port uint16, to netip.AddrPort) error {
	name := canonical(host)
	if _, is := literal(host); is || len(p.Allow) == 0 || p.Allow.find(name, netip.Addr{}, port) != nil {
		return nil
	}
	open := Policy{Allow: p.Allow}
	return open.Address(host, to.Addr(), to.Port())
}

const (
	notAllowed = "endpoint_allow has neither the name nor the address"
	guardRule  = "jobs of users who are no admins are kept away from loopback and link-local addresses; " +
		"endpoint_allow can name the network, beside * for all others"
	proxyRule = "a proxy may take it for another name, or for an address; write a name in ASCII (xn--...), or an " +
		"address in its usual form"
)

// guarded are the networks that Guarded is about.
var guarded = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), // loopback
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"), // link-local, metadata of clouds
	netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fd20:ce::/32"), // metadata of clouds
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("::/128"), // unspecified: this machine
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8"), // multicast
	netip.MustParsePrefix("255.255.255.255/32"), // broadcast
}

func isGuarded(addr netip.Addr) bool {
	for _, n := range guarded {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// literal returns the address that a host is. Brackets are left out by those who take URLs apart.
func literal(host string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(host, "."))
	return addr, err == nil
}

// canonical is a name as rules have it.
func canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// translators are networks of IPv6 whose addresses have one of IPv4 in them, to which packets go.
var translators = []struct {
	net netip.Prefix
	at  int // of its first byte
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},  // NAT64 of an operator
	{netip.MustParsePrefix("::/96"), 12},           // compatible addresses
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // stateless translation
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4
}

// embedded returns the address of IPv4 that an address of IPv6 stands for, or the address itself, without a zone.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	b := addr.As16()
	low := b[12] == 0 && b[13] == 0 && b[14] == 0 && b[15] <= 1 // :: and ::1
	for _, t := range translators {
		if t.net.Contains(addr) && !(low && t.net.Addr().IsUnspecified()) {
			return netip.AddrFrom4([4]byte(b[t.at:]))
		}
	}
	return addr
}

// translates reports whether rules name the network, or a part of it, by which an address of IPv6 stands for one of
// IPv4. A rule for more than that is one for servers of IPv6.
func (rs Rules) translates(addr netip.Addr, port uint16) bool {
	for _, t := range translators {
		within := func(r Rule) bool { return r.net.Bits() >= t.net.Bits() && r.holds(addr) && r.of(port) }
		if t.net.Contains(addr) && slices.ContainsFunc(rs, within) {
			return true
		}
	}
	return false
}

// hostPort writes a host with a port, or without if that is 0.
func hostPort(host string, port uint16) string {
	if port == 0 {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s:%d", host, port)
}
