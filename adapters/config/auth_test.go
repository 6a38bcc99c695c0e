package config

import (
	"strings"
	"testing"
)

// TestAuth: values of logins that are accepted, in CouchDB's spelling too, and as they are told.
func TestAuth(t *testing.T) {
	for text, told := range map[string]string{
		"[chttpd]\nauthentication_handlers = {chttpd_auth, cookie_authentication_handler}, default": "cookie, default",
		"[chttpd_auth]\nsecret = x":                                     Masked,
		"[couch_httpd_auth]\ntimeout = 60":                              "1m",
		"[jwt_keys]\nhmac:_default = aGVsbG8=":                          Masked,
		"[couch_auth]\nurl = http://couch:5984/":                        "http://couch:5984",
		"[couch_auth]\nurl = none":                                      "none",
		"[chttpd_auth]\nhash_algorithms = sha512":                       "sha512",
		"[jwt_auth]\nrequired_claims = exp,nbf , {iss, \"My Company\"}": `exp, nbf, {iss, "My Company"}`,
	} {
		c, err := load(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		section, rest, _ := strings.Cut(strings.Trim(text, "["), "]")
		key, _, _ := strings.Cut(strings.TrimSpace(rest), " =")
		if section == "couch_httpd_auth" {
			section = "chttpd_auth"
		}
		if got := c.Values()[section][key]; got != told {
			t.Errorf("%s: told as %q", text, got)
		}
	}
}

// TestAuthorityOfFront: the CouchDB of a front knows the users, unless another one does, or none.
func TestAuthorityOfFront(t *testing.T) {
	const front = "[front]\ncouchdb = http://couch:5984/\n"
	for text, want := range map[string]string{
		front: "http://couch:5984",
		front + "[couch_auth]\nurl = http://users": "http://users",
		front + "[couch_auth]\nurl = none":         "",
		"[couch_auth]\nurl = none":                 "",
	} {
		if c, err := load(t, text); err != nil || c.Auth.Couch.URL != want || c.Guarded() != (want != "") {
			t.Errorf("%s: users are known at %q, %v", text, c.Auth.Couch.URL, err)
		}
	}
}

// TestAuthMistakes: errors name the key and show no secret.
func TestAuthMistakes(t *testing.T) {
	const public = `-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9\n` +
		`q9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==\n-----END PUBLIC KEY-----\n`
	if _, err := load(t, "[jwt_keys]\nec:e = "+public); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"[chttpd_auth]\nsecret =":                    "[chttpd_auth] secret = *****: must be 1 to 1000 characters",
		"[chttpd_auth]\nsecret = " + Masked:          "stands for a value that is not shown",
		"[chttpd_auth]\nhash_algorithms = md5":       "must be some of sha, sha224",
		"[chttpd_auth]\nhash_algorithms = sha,":      "must be some of sha, sha224",
		"[chttpd_auth]\nsame_site = maybe":           "one of none, lax, strict",
		"[chttpd_auth]\ncookie_domain = a;b":         "must be a domain name",
		"[chttpd_auth]\ntimeout = 0":                 "[chttpd_auth] timeout",
		"[chttpd_auth]\npbkdf2_prf = md5":            "one of sha, sha224, sha256, sha384, sha512",
		"[chttpd_auth_lockout]\nmode = on":           "one of enforce, warn, off",
		"[chttpd]\nauthentication_handlers = proxy":  "others of CouchDB's are not supported",
		"[jwt_auth]\nrequired_claims = sub":          "must be some of exp, nbf",
		"[jwt_auth]\nrequired_claims = {exp, \"x\"}": "must be some of exp, nbf",
		"[jwt_keys]\nhmac = aGlkZGVu":                "hmac:ID, rsa:ID or ec:ID",
		"[jwt_keys]\ndsa:x = aGlkZGVu":               "hmac:ID, rsa:ID or ec:ID",
		"[jwt_keys]\nhmac:x = aGlkZGVu!":             "[jwt_keys] hmac:x: must be a secret in base64",
		"[jwt_keys]\nrsa:x = aGlkZGVu":               "[jwt_keys] rsa:x: must be a public key as PEM",
		"[jwt_keys]\nrsa:x = " + public:              "must be a public key of the type rsa",
		"[couch_auth]\nurl = couch:5984":             "must be the URL of a server",
		"[couch_auth]\nurl = ftp://couch":            "must be the URL of a server",
		"[couch_auth]\nurl = http://u:hidden@couch":  "without a login in it",
		"[couch_auth]\nurl = http://couch/?a=b":      "must be the URL of a server",
		"[couch_auth]\nurl = http://couch:65536":     "must be the URL of a server",
	} {
		_, err := load(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "aGlkZGVu") ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
