package login

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/json"
	"couchrelay/core/kv"
)

// UsersDB is the database of users.
const UsersDB = "_users"

// userPrefix begins the ids of users' documents; the rest is the name.
const userPrefix = "org.couchdb.user:"

// account returns the account with a name, nil if none is known here.
func (l *Login) account(s *settings, q *web.Request, name string) (*account, error) {
	if a := s.admins[name]; a != nil {
		return a, nil
	}
	if s.Couch.URL != "" || name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return nil, nil
	}
	doc, err := web.Run(q, l.DB, kv.Options{Stale: true, Tag: "login"}, func(tx kv.Tx) (*docs.Document, error) {
		db, err := l.Users.Open(tx, UsersDB)
		if err != nil {
			return nil, err
		}
		return db.Read(userPrefix+name, docs.Want{})
	})
	if _, gone := errors.AsType[*docs.Error](err); gone {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.parseUser(name, doc.Body), nil
}

// userBody is what a document of _users says of a password.
type userBody struct {
	Roles      []string `json:"roles"`
	Scheme     string   `json:"password_scheme"`
	Salt       string   `json:"salt"`
	SHA        string   `json:"password_sha"`
	PRF        string   `json:"pbkdf2_prf"`
	Iterations int      `json:"iterations"`
	Key        string   `json:"derived_key"`
	// TOTP demands a second factor, which is not supported: such users cannot log in.
	TOTP json.Raw `json:"totp"`
}

// parseUser returns the account of a document, nil if the document has no password that can be checked.
func (s *settings) parseUser(name string, text []byte) *account {
	var body userBody
	if json.Decode(text, &body) != nil || body.TOTP != nil || body.Salt == "" {
		return nil
	}
	a := s.credential(&body)
	if a == nil {
		return nil
	}
	// The validation of documents keeps such roles out; a restored or older store may have them.
	system := func(role string) bool { return strings.HasPrefix(role, "_") && role != "_metrics" }
	a.User = web.User{Name: name, Roles: slices.DeleteFunc(body.Roles, system)}
	return a
}

func (s *settings) credential(body *userBody) *account {
	same := func(password string) string { return password }
	legacy := func(password string) string {
		sum := sha1.Sum([]byte(password + body.Salt))
		return hex.EncodeToString(sum[:])
	}
	switch body.Scheme {
	case "", "simple":
		if want, err := hex.DecodeString(body.SHA); err == nil && len(want) == sha1.Size {
			return hashed(want, body.Salt)
		}
	case "pbkdf2":
		return s.derived(body, same)
	case "simple+pbkdf2":
		return s.derived(body, legacy)
	}
	return nil
}

func (s *settings) derived(body *userBody, first func(string) string) *account {
	body.PRF, body.Iterations = cmp.Or(body.PRF, "sha"), cmp.Or(body.Iterations, 10_000)
	prf := prfs[body.PRF]
	want, err := hex.DecodeString(body.Key)
	if err != nil || len(want) == 0 || prf == nil ||
		body.Iterations < s.MinIterations || body.Iterations > s.MaxIterations {
		return nil
	}
	return derived(prf, want, body.Salt, body.Iterations, first)
}
