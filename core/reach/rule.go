package reach

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Rule is a pattern for servers.
type Rule struct {
	// name is a host's, in lower case; with a leading dot it is that of all hosts below. It is empty in a rule for a
	// network.
	name string
	net  netip.Prefix
	any  bool   // every host
	port uint16 // 0 for all ports
}

// Rules are patterns, of which one has to match.
type Rules []Rule

const form = "must be patterns with commas between them: a host (db.example.com), the hosts below a name " +
	"(*.example.com), an address (10.1.2.3), a network (10.0.0.0/8, fd00::/8) or *, each with a port or without " +
	"(db.example.com:5984, [fd00::1]:5984)"

// errForm is the error of a text that holds no rules.
var errForm = errors.New(form)

// Form describes what ParseRules accepts.
func Form() string { return strings.TrimPrefix(form, "must be ") }

// maxName is the length of the longest name of a host.
const maxName = 253

// ParseRules reads rules with commas between them. An empty text has none.
func ParseRules(text string) (Rules, error) {
	var rules Rules
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		r, ok := parseRule(one)
		if !ok {
			return nil, fmt.Errorf("%w; %q is not one of them", errForm, one)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(text string) (r Rule, ok bool) {
	host, port := text, ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 && (strings.Count(text, ":") == 1 || text[i-1] == ']') {
		host, port = text[:i], text[i+1:]
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port != strconv.FormatUint(n, 10) {
			return r, false
		}
		r.port = uint16(n)
	}
	if inside, is := strings.CutPrefix(host, "["); is {
		if host, is = strings.CutSuffix(inside, "]"); !is || !strings.Contains(host, ":") {
			return r, false
		}
	}
	if r.any = host == "*"; r.any {
		return r, true
	}
	if net, err := netip.ParsePrefix(host); err == nil {
		r.net = net.Masked()
		return r, !net.Addr().Is4In6()
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = embedded(addr)
		r.net = netip.PrefixFrom(addr, addr.BitLen())
		return r, true
	}
	r.name = canonical(host)
	if below, is := strings.CutPrefix(r.name, "*"); is {
		r.name = below
		return r, strings.HasPrefix(below, ".") && isName(below[1:])
	}
	return r, isName(r.name)
}

// isName reports whether a text can be the name of a host. Underscores occur in those of containers. A name whose last
// part is a number would be taken for an address by some, and matched by none.
func isName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	last := ""
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
		last = part
	}
	digits, hex := "0123456789", strings.TrimPrefix(last, "0x")
	if hex != last {
		digits += "abcdef"
	}
	return strings.Trim(hex, digits) != ""
}

// String is the rule as ParseRules reads it.
func (r Rule) String() string {
	switch {
	case r.any:
		return hostPort("*", r.port)
	case r.name == "" && r.net.IsSingleIP():
		return hostPort(r.net.Addr().String(), r.port)
	case r.name == "":
		return hostPort(r.net.String(), r.port)
	case r.name[0] == '.':
		return hostPort("*"+r.name, r.port)
	}
	return hostPort(r.name, r.port)
}

// String is the rules as ParseRules reads them.
func (rs Rules) String() string {
	texts := make([]string, len(rs))
	for i, r := range rs {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}

// find returns the first rule for a name or an address, of which one may be missing; nil if there is none.
func (rs Rules) find(name string, addr netip.Addr, port uint16) *Rule {
	for i, r := range rs {
		if !r.of(port) {
			continue
		}
		below := strings.HasPrefix(r.name, ".") && strings.HasSuffix(name, r.name)
		if r.any || r.name != "" && (r.name == name || below) || r.holds(addr) {
			return &rs[i]
		}
	}
	return nil
}

// holds reports whether a rule for a network has an address, which may be none.
func (r Rule) holds(addr netip.Addr) bool { return r.net.Contains(addr) }

// of reports whether a rule is one for a port.
func (r Rule) of(port uint16) bool { return r.port == 0 || r.port == port }

// hasNetworks reports whether a rule may match an address that a name turns out to have, with this port.
func (rs Rules) hasNetworks(port uint16) bool {
	for _, r := range rs {
		if r.net.IsValid() && r.of(port) {
			return true
		}
	}
	return false
}

// opens reports whether a rule names an address by its network.
func (rs Rules) opens(addr netip.Addr, port uint16) bool {
	for _, r := range rs {
		if r.holds(addr) && r.of(port) {
			return true
		}
	}
	return false
}
