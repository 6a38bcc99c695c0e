package spec

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// URL is the parts of an endpoint's or proxy's address that ids and clients need. All are as written:
// percent-encoding stays.
type URL struct {
	Scheme string
	// Userinfo is the text before the @, if there is one.
	Userinfo    string
	HasUserinfo bool
	Host        string // not empty; an IPv6 address is without its brackets
	Port        int    // 0 if the URL has none
	// Path begins with a slash and includes the query.
	Path string
}

var (
	errLong       = fmt.Errorf("it is longer than %d bytes", maxURL)
	errNoScheme   = errors.New("it has no scheme such as https://")
	errUserinfo   = errors.New("user and password in a URL may not hold @, [ or ]; those in `auth.basic` may")
	errHost       = errors.New("it has no host name")
	errIPv6       = errors.New("its IPv6 address is not closed or not one")
	errHostEscape = errors.New("its host name has an ASCII character written with %, which no host name may have")
	errPort       = errors.New("its port is not a number from 1 to 65535, or its password has a / or ?, " +
		"which only those in `auth.basic` may")
	errFragment   = errors.New("it has a fragment; a # in a name is written %23")
	errPercent    = errors.New("it has a % without two hexadecimal digits; a plain % is written %25")
	errCharacters = errors.New("it has a character that must be percent-encoded")
)

// maxURL bounds URLs in bytes, far above what servers accept. They are in a job's record, which is written
// again and again, and in the reasons of its failures.
const maxURL = 64 << 10

// ParseURL takes a URL apart and checks it by RFC 3986. Its errors never quote the URL, which may hold a
// password.
func ParseURL(raw string) (u URL, err error) {
	if len(raw) > maxURL {
		return URL{}, errLong
	}
	scheme, rest, found := strings.Cut(raw, "://")
	if !found || scheme == "" {
		return URL{}, errNoScheme
	}
	u.Scheme = scheme
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, u.Path = rest[:i], rest[i:]
	}
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		u.Userinfo, u.HasUserinfo, authority = authority[:i], true, authority[i+1:]
	}
	if strings.ContainsAny(u.Userinfo, "@[]") {
		return URL{}, errUserinfo
	}
	if err := u.readHost(authority); err != nil {
		return URL{}, err
	}
	if err := cmp.Or(checkCharacters(u.Userinfo), checkCharacters(u.Host), checkCharacters(u.Path),
		checkPercents(u.Host+u.Path), checkHostEscapes(u.Host)); err != nil {
		return URL{}, err
	}
	return u, nil
}

// IsServer reports whether a text is the URL of a server: http or https, without query and fragment. It may hold a
// user, with a password or without, only if login is true.
func IsServer(text string, login bool) bool {
	u, err := ParseURL(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && (login || !u.HasUserinfo) &&
		!strings.Contains(u.Path, "?")
}

func (u *URL) readHost(authority string) error {
	host, port, hasPort := strings.Cut(authority, ":")
	if strings.HasPrefix(authority, "[") {
		inside, after, closed := strings.Cut(authority[1:], "]")
		if addr, err := netip.ParseAddr(inside); err != nil || !closed || !addr.Is6() || addr.Zone() != "" {
			return errIPv6
		}
		host = inside
		if port, hasPort = strings.CutPrefix(after, ":"); !hasPort && after != "" {
			return errIPv6
		}
	} else if strings.ContainsAny(host, "[]") {
		return errIPv6
	}
	if host == "" {
		return errHost
	}
	u.Host = host
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return errPort
		}
		u.Port = int(n)
	}
	return nil
}

func checkCharacters(part string) error {
	for i := range len(part) {
		if part[i] == '#' {
			return errFragment
		}
		if !isAlphanumeric(part[i]) && strings.IndexByte("-._~:/?@!$&'()*+,;=%", part[i]) < 0 {
			return errCharacters
		}
	}
	return nil
}

// checkPercents finds percent signs without two hexadecimal digits. Those of user and password are not
// checked: CouchDB takes them literally.
func checkPercents(part string) error {
	for i := range len(part) {
		if part[i] == '%' && (i+2 >= len(part) || !isHex(part[i+1]) || !isHex(part[i+2])) {
			return errPercent
		}
	}
	return nil
}

// checkHostEscapes finds encoded ASCII characters in a host, which the HTTP client refuses: other letters alone are
// encoded there.
func checkHostEscapes(host string) error {
	for i := range len(host) {
		if host[i] == '%' && host[i+1] < '8' { // a hexadecimal digit, by checkPercents
			return errHostEscape
		}
	}
	return nil
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// credentials reads the userinfo as CouchDB does: without a colon it holds none, and percent-encoding stays.
func (u URL) credentials() Credentials {
	user, password, both := strings.Cut(u.Userinfo, ":")
	if !both {
		return Credentials{}
	}
	return NewCredentials(user, password)
}

// withoutUserinfo returns raw, the URL that u was parsed from, without user and password.
func (u URL) withoutUserinfo(raw string) string {
	if !u.HasUserinfo {
		return raw
	}
	start := len(u.Scheme) + len("://")
	return raw[:start] + raw[start+len(u.Userinfo)+1:]
}
