package login

import (
	"cmp"
	"crypto/pbkdf2"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/users"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// account returns the account with a name, nil if none is known here.
func (l *Login) account(s *settings, q *web.Request, name string) (*account, error) {
	if a := s.admins[name]; a != nil {
		return a, nil
	}
	if s.Couch.URL != "" || name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return nil, nil
	}
	doc, err := web.Run(q, l.DB, kv.Options{Stale: true, Tag: "login"}, func(tx kv.Tx) (*docs.Document, error) {
		db, err := l.Users.Open(tx, users.Database)
		if err != nil {
			return nil, err
		}
		return db.Read(users.Prefix+name, docs.Want{})
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
	TOTP jsontext.Value `json:"totp"`
}

// asChecked reads documents as users.Validate does: names must be spelled exactly, and of repeated ones the last
// counts. Else a user might write Roles beside the roles that are checked.
var asChecked = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// parseUser returns the account of a document, nil if the document has no password that can be checked.
func (s *settings) parseUser(name string, text []byte) *account {
	var body userBody
	if json.Unmarshal(text, &body, asChecked) != nil || body.TOTP != nil || body.Salt == "" {
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
	// A user may write any key, and a login derives one of the same length, with as many iterations as the user says:
	// a long key, or many iterations, would keep other logins waiting.
	if err != nil || prf == nil || len(want) != prf().Size() ||
		body.Iterations < s.MinIterations || body.Iterations > max(s.MaxIterations, s.iterations()) {
		return nil
	}
	return derived(prf, want, body.Salt, body.Iterations, first)
}

// iterations are those of new passwords, which have to be accepted.
func (s *settings) iterations() int { return max(s.Iterations, s.MinIterations) }

var errLongPassword = &web.Error{Status: http.StatusRequestEntityTooLarge, Name: "too_large",
	Reason: "a `password` may have " + strconv.Itoa(maxPassword) + " bytes"}

// Derive returns the key of a new password.
func (l *Login) Derive(q *web.Request, password string) (users.Key, error) {
	if len(password) > maxPassword {
		return users.Key{}, errLongPassword
	}
	release, err := l.slot(q)
	if err != nil {
		return users.Key{}, err
	}
	defer release()
	s := l.settings.Load()
	k := users.Key{PRF: s.PRF, Salt: newSalt(), Iterations: strconv.Itoa(s.iterations())}
	prf := prfs[k.PRF]
	key, err := pbkdf2.Key(prf, password, []byte(k.Salt), s.iterations(), prf().Size())
	k.Key = hex.EncodeToString(key)
	return k, err
}
