package reach

import (
	"fmt"
	"net/netip"
	"strings"
)

// Detour has connections to a server go to another one (connect_to). The server is still called by its own name.
type Detour struct {
	from Rule // of a name or an address, with a port
	host string
	port uint16
}

// Detours are tried in order.
type Detours []Detour

const detourForm = "must be HOST:PORT:TARGET:PORT with commas between them, where HOST is a name or *.NAME, " +
	"TARGET a name, and both may be an address of IPv4 or one of IPv6 in brackets"

// DetourForm describes what ParseDetours accepts.
func DetourForm() string { return strings.TrimPrefix(detourForm, "must be ") }

// ParseDetours reads detours with commas between them.
func ParseDetours(text string) (ds Detours, err error) {
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		d, ok := parseDetour(one)
		if !ok {
			return nil, fmt.Errorf("%s; %q is not one of them", detourForm, one)
		}
		ds = append(ds, d)
	}
	return ds, nil
}

func parseDetour(text string) (d Detour, ok bool) {
	bracket := 0 // behind an address of IPv6
	if strings.HasPrefix(text, "[") {
		bracket = strings.Index(text, "]") + 1
	}
	host, rest, _ := strings.Cut(text[bracket:], ":")
	port, target, _ := strings.Cut(rest, ":")
	host = text[:bracket] + host
	d.from, ok = parseRule(host + ":" + port)
	if !ok || d.from.name == "" && !d.from.net.IsSingleIP() || strings.Contains(host, "/") {
		return d, false
	}
	to, ok := parseRule(target)
	if !ok || to.port == 0 || strings.HasPrefix(to.name, ".") || to.name == "" && !to.net.IsSingleIP() {
		return d, false
	}
	d.host, d.port = to.name, to.port
	if to.name == "" {
		d.host = to.net.Addr().String()
	}
	return d, !strings.Contains(target, "/")
}

// Find returns the address, as dialers have it, to which connections to a server go instead, and whether there is one.
func (ds Detours) Find(host string, port uint16) (address string, found bool) {
	name, addr := canonical(host), netip.Addr{}
	if a, is := literal(host); is {
		name, addr = "", embedded(a)
	}
	for _, d := range ds {
		if (Rules{d.from}).find(name, addr, port) != nil {
			return hostPort(d.host, d.port), true
		}
	}
	return "", false
}

// String is the detours as ParseDetours reads them.
func (ds Detours) String() string {
	texts := make([]string, len(ds))
	for i, d := range ds {
		texts[i] = d.from.String() + ":" + hostPort(d.host, d.port)
	}
	return strings.Join(texts, ", ")
}
