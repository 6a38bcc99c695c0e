package web

import (
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"hash"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"couchrelay/core/docs"
	"couchrelay/core/replicator"
)

// Admins are the names and passwords of those who may use the service, in clear or as CouchDB hashes
// them: -pbkdf2-KEY,SALT,ITERATIONS, -pbkdf2:sha256-KEY,SALT,ITERATIONS or -hashed-KEY,SALT. Without any,
// everybody who can reach the service is an admin, so it must be reachable from this machine only.
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

// Any says whether there is an admin.
func (a Admins) Any() bool { return len(a.passwords) > 0 }

// who tells who sends a request, or refuses it.
func (a Admins) who(r *http.Request) (replicator.Writer, error) {
	if !a.Any() {
		return replicator.Writer{Admin: true}, nil
	}
	name, secret, ok := r.BasicAuth()
	if !ok {
		return replicator.Writer{}, docs.Unauthorized("You are not a server admin.")
	}
	if !a.check(name, secret) {
		return replicator.Writer{}, docs.Unauthorized("Name or password is incorrect.")
	}
	return replicator.Writer{Name: name, Admin: true}, nil
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
func (a Admins) checkHost(r *http.Request) error {
	if a.Any() {
		return nil
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); host == "" || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return docs.Forbidden("without an admin only requests to localhost are answered; configure one in [admins]")
}

func parsePassword(secret string) (password, error) {
	switch {
	case strings.HasPrefix(secret, "-pbkdf2:sha256-"):
		return parsePBKDF2(sha256.New, strings.TrimPrefix(secret, "-pbkdf2:sha256-"))
	case strings.HasPrefix(secret, "-pbkdf2:sha-"):
		return parsePBKDF2(sha1.New, strings.TrimPrefix(secret, "-pbkdf2:sha-"))
	case strings.HasPrefix(secret, "-pbkdf2-"):
		return parsePBKDF2(sha1.New, strings.TrimPrefix(secret, "-pbkdf2-"))
	case strings.HasPrefix(secret, "-hashed-"):
		key, salt, ok := strings.Cut(strings.TrimPrefix(secret, "-hashed-"), ",")
		want, err := hex.DecodeString(key)
		if !ok || err != nil {
			return nil, errors.New("is not -hashed-KEY,SALT")
		}
		return func(s string) bool {
			got := sha1.Sum([]byte(s + salt))
			return subtle.ConstantTimeCompare(got[:], want) == 1
		}, nil
	case secret == "":
		return nil, errors.New("has an empty password")
	}
	return func(s string) bool { return subtle.ConstantTimeCompare([]byte(s), []byte(secret)) == 1 }, nil
}

func parsePBKDF2[H hash.Hash](h func() H, text string) (password, error) {
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return nil, errors.New("is not -pbkdf2-KEY,SALT,ITERATIONS")
	}
	want, err := hex.DecodeString(parts[0])
	iterations, errN := strconv.Atoi(parts[2])
	if err != nil || len(want) == 0 || errN != nil || iterations < 1 || iterations > 10_000_000 {
		return nil, errors.New("is not -pbkdf2-KEY,SALT,ITERATIONS with 1 to 10,000,000 iterations")
	}
	return func(s string) bool {
		got, err := pbkdf2.Key(h, s, []byte(parts[1]), iterations, len(want))
		return err == nil && subtle.ConstantTimeCompare(got, want) == 1
	}, nil
}
