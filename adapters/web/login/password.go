package login

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"

	"couchrelay/adapters/web"
)

// Bounds in bytes of what clients send.
const (
	maxName     = 1000
	maxPassword = 10_000
)

// account is a user with a password.
type account struct {
	web.User
	salt string // goes into the cookies, so that they end with the password
	// digest differs between passwords of one name.
	digest  string
	matches func(password string) bool
}

// parseAdmins reads a section [admins]: names and passwords, in clear or as CouchDB hashes them:
// -pbkdf2-KEY,SALT,ITERATIONS, -pbkdf2:PRF-KEY,SALT,ITERATIONS or -hashed-KEY,SALT.
func parseAdmins(section map[string]string) (map[string]*account, error) {
	admins := map[string]*account{}
	for name, secret := range section {
		a, err := parsePassword(secret)
		if err != nil {
			return nil, errors.New("[admins] " + name + ": " + err.Error())
		}
		a.User = web.User{Name: name, Roles: []string{web.AdminRole}}
		admins[name] = a
	}
	return admins, nil
}

// CheckAdmins returns an error for passwords of admins that cannot be read.
func CheckAdmins(section map[string]string) error {
	_, err := parseAdmins(section)
	return err
}

// known remembers the last right password of each account by a digest, since deriving a key takes long: wherever it
// came from, and for each address from which it came.
type known struct {
	key  []byte // of the digests, so that they are of no use elsewhere
	mu   *sync.Mutex
	last map[guess]knownPassword
}

// anywhere stands for all addresses together.
const anywhere = "*"

type knownPassword struct{ digest, mac string }

// maxKnown bounds the memory of known passwords.
const maxKnown = 20_000

func newKnown() known {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it cannot fail
	return known{key, &sync.Mutex{}, map[guess]knownPassword{}}
}

func (k known) mac(password string) string {
	h := hmac.New(sha256.New, k.key)
	h.Write([]byte(password))
	return string(h.Sum(nil))
}

// has reports whether the password was found right before from an address, and the account's has not changed since.
func (k known) has(a *account, password, from string) bool {
	mac := k.mac(password)
	k.mu.Lock()
	defer k.mu.Unlock()
	last, found := k.last[guess{a.Name, from}]
	return found && last.digest == a.digest && hmac.Equal([]byte(last.mac), []byte(mac))
}

func (k known) add(a *account, password, from string) {
	right := knownPassword{a.digest, k.mac(password)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.last) >= maxKnown {
		clear(k.last)
	}
	k.last[guess{a.Name, anywhere}], k.last[guess{a.Name, from}] = right, right
}

// prfs are the functions that CouchDB derives keys with, by the names that it gives them. Without one it is
// sha.
var prfs = map[string]func() hash.Hash{
	"sha": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
}

// parsePassword reads a secret. A text that looks hashed and cannot be read is refused: as a password in clear
// it would let in everyone who has seen the file, and keep out the admin. Errors do not show it.
func parsePassword(secret string) (*account, error) {
	switch {
	case strings.HasPrefix(secret, "-pbkdf2"):
		return parsePBKDF2(strings.TrimPrefix(secret, "-pbkdf2"))
	case strings.HasPrefix(secret, "-hashed-"):
		return parseHashed(strings.TrimPrefix(secret, "-hashed-"))
	case secret == "":
		return nil, errors.New("has an empty password")
	}
	salt := sha256.Sum256([]byte("couchrelay\x00" + secret))
	return &account{salt: hex.EncodeToString(salt[:]), digest: secret, matches: func(s string) bool {
		return subtle.ConstantTimeCompare([]byte(s), []byte(secret)) == 1
	}}, nil
}

// parseHashed reads KEY,SALT.
func parseHashed(text string) (*account, error) {
	parts := strings.Split(text, ",")
	want, err := hex.DecodeString(parts[0])
	if len(parts) != 2 || err != nil || len(want) != sha1.Size {
		return nil, errors.New("is not -hashed-KEY,SALT with a key of 40 hexadecimal digits")
	}
	return hashed(want, parts[1]), nil
}

// parsePBKDF2 reads what follows -pbkdf2: -KEY,SALT,ITERATIONS or :PRF-KEY,SALT,ITERATIONS.
func parsePBKDF2(text string) (*account, error) {
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
	return derived(prf, want, parts[1], iterations, func(s string) string { return s }), nil
}

// hashed is an account whose password is SHA-1 of it and a salt.
func hashed(want []byte, salt string) *account {
	return &account{salt: salt, digest: salt + string(want), matches: func(s string) bool {
		got := sha1.Sum([]byte(s + salt))
		return subtle.ConstantTimeCompare(got[:], want) == 1
	}}
}

// derived is an account from whose password, once it has passed first, a key is derived.
func derived(prf func() hash.Hash, want []byte, salt string, iterations int, first func(string) string) *account {
	return &account{salt: salt, digest: salt + string(want), matches: func(s string) bool {
		got, err := pbkdf2.Key(prf, first(s), []byte(salt), iterations, len(want))
		return err == nil && subtle.ConstantTimeCompare(got, want) == 1
	}}
}
