package relay

import (
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"couchrelay/adapters/web"
)

// Admins are the users of the service: names and passwords, in clear or as CouchDB hashes
// them: -pbkdf2-KEY,SALT,ITERATIONS, -pbkdf2:PRF-KEY,SALT,ITERATIONS or -hashed-KEY,SALT. Without any,
// every client that can reach the service is an admin, so it must be reachable from this machine only.
type Admins struct {
	passwords map[string]password
	mu        *sync.Mutex
	// known holds a digest of the last right password of each admin, since deriving a key takes long.
	known map[string][sha256.Size]byte
}

// password checks one.
type password func(string) bool

// NewAdmins reads a section [admins].
func NewAdmins(section map[string]string) (Admins, error) {
	a := Admins{passwords: map[string]password{}, mu: &sync.Mutex{}, known: map[string][sha256.Size]byte{}}
	for name, secret := range section {
		check, err := parsePassword(secret)
		if err != nil {
			return Admins{}, errors.New("[admins] " + name + ": " + err.Error())
		}
		a.passwords[name] = check
	}
	return a, nil
}

// Any reports whether there is an admin.
func (a Admins) Any() bool { return len(a.passwords) > 0 }

// authenticate returns the admin that sends a request, which has no name as long as there are no admins.
func (a Admins) authenticate(r *http.Request) (web.User, error) {
	admin := web.User{Roles: []string{web.AdminRole}}
	if !a.Any() {
		return admin, nil
	}
	name, secret, ok := r.BasicAuth()
	if !ok {
		return web.User{}, web.Unauthorized("You are not a server admin.")
	}
	if !a.check(name, secret) {
		return web.User{}, web.Unauthorized("Name or password is incorrect.")
	}
	admin.Name = name
	return admin, nil
}

func (a Admins) check(name, secret string) bool {
	check, found := a.passwords[name]
	if !found {
		return false
	}
	digest := sha256.Sum256([]byte(secret))
	a.mu.Lock()
	known, has := a.known[name]
	a.mu.Unlock()
	if has && subtle.ConstantTimeCompare(known[:], digest[:]) == 1 {
		return true
	}
	if !check(secret) {
		return false
	}
	a.mu.Lock()
	a.known[name] = digest
	a.mu.Unlock()
	return true
}

// checkHost refuses, as long as there is no admin, requests that name another host than this machine: a
// web page that rebinds its name to the loopback address would be as good as an admin.
func (a Admins) checkHost(q *web.Request) error {
	if a.Any() {
		return nil
	}
	host := q.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); host == "" || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return web.Forbidden("without an admin only requests to localhost are answered; configure one in [admins]")
}

// prfs are the functions that CouchDB derives keys with, by the names that it gives them. Without one it is
// sha.
var prfs = map[string]func() hash.Hash{
	"sha": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
}

// parsePassword reads a secret. A text that looks hashed and cannot be read is refused: as a password in clear
// it would let in everyone who has seen the file, and keep out the admin. Errors do not show it.
func parsePassword(secret string) (password, error) {
	switch {
	case strings.HasPrefix(secret, "-pbkdf2"):
		return parsePBKDF2(strings.TrimPrefix(secret, "-pbkdf2"))
	case strings.HasPrefix(secret, "-hashed-"):
		return parseHashed(strings.TrimPrefix(secret, "-hashed-"))
	case secret == "":
		return nil, errors.New("has an empty password")
	}
	return func(s string) bool { return subtle.ConstantTimeCompare([]byte(s), []byte(secret)) == 1 }, nil
}

// parseHashed reads KEY,SALT.
func parseHashed(text string) (password, error) {
	parts := strings.Split(text, ",")
	want, err := hex.DecodeString(parts[0])
	if len(parts) != 2 || err != nil || len(want) != sha1.Size {
		return nil, errors.New("is not -hashed-KEY,SALT with a key of 40 hexadecimal digits")
	}
	return func(s string) bool {
		got := sha1.Sum([]byte(s + parts[1]))
		return subtle.ConstantTimeCompare(got[:], want) == 1
	}, nil
}

// parsePBKDF2 reads what follows -pbkdf2: -KEY,SALT,ITERATIONS or :PRF-KEY,SALT,ITERATIONS.
func parsePBKDF2(text string) (password, error) {
	name, rest, _ := strings.Cut(text, "-")
	prf := prfs["sha"]
	if name != "" {
		prf = prfs[strings.TrimPrefix(name, ":")]
	}
	if prf == nil || name != "" && name[0] != ':' {
		return nil, errors.New("is hashed in a way that is not known; known are -pbkdf2-, -pbkdf2:sha-, sha224-, " +
			"sha256-, sha384-, sha512- and -hashed-")
	}
	parts := strings.Split(rest, ",")
	if len(parts) != 3 || parts[1] == "" {
		return nil, errors.New("is not -pbkdf2:PRF-KEY,SALT,ITERATIONS")
	}
	want, err := hex.DecodeString(parts[0])
	if size := prf().Size(); err != nil || len(want) != size {
		return nil, fmt.Errorf("is not -pbkdf2:PRF-KEY,SALT,ITERATIONS with a key of %d hexadecimal digits, "+
			"as its PRF makes them", 2*size)
	}
	iterations, err := strconv.Atoi(parts[2])
	if err != nil || iterations < 1 || iterations > 10_000_000 {
		return nil, errors.New("is not -pbkdf2:PRF-KEY,SALT,ITERATIONS with 1 to 10,000,000 iterations")
	}
	return func(s string) bool {
		got, err := pbkdf2.Key(prf, s, []byte(parts[1]), iterations, len(want))
		return err == nil && subtle.ConstantTimeCompare(got, want) == 1
	}, nil
}
