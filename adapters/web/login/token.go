package login

import (
	"errors"
	"slices"
	"strings"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web"

	"github.com/golang-jwt/jwt/v5"
)

// keyTypes are the types of keys by the algorithms that need them. A token is never read with a key of another type: a
// public key would be a secret that everybody knows.
var keyTypes = map[string]string{
	"HS256": "hmac", "HS384": "hmac", "HS512": "hmac", "RS256": "rsa", "RS384": "rsa", "RS512": "rsa",
	"ES256": "ec", "ES384": "ec", "ES512": "ec",
}

var algorithms = []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512"}

// byToken reads a JSON Web Token.
func (l *Login) byToken(s *settings, q *web.Request) (web.User, error) {
	text, is := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer ")
	if !is {
		return web.User{}, nil
	}
	claims := jwt.MapClaims{}
	key := func(t *jwt.Token) (any, error) { return keyOfToken(s.JWT.Keys, t) }
	t, err := jwt.ParseWithClaims(text, claims, key, jwt.WithTimeFunc(l.Clock.Now), jwt.WithValidMethods(algorithms),
		jwt.WithStrictDecoding())
	if err != nil {
		return web.User{}, tokenError(err)
	}
	if err := checkClaims(s.JWT.Claims, t, claims); err != nil {
		return web.User{}, err
	}
	name, is := claims["sub"].(string)
	if !is || name == "" {
		return web.User{}, web.Unauthorized("Token missing sub claim.")
	}
	roles, err := rolesOf(s.JWT, claims)
	return web.User{Name: name, Roles: roles}, err
}

var errKey = errors.New("unknown key")

// keyOfToken returns the key that a token names, of the type that its algorithm needs.
func keyOfToken(keys map[string]config.Key, t *jwt.Token) (any, error) {
	id, given := t.Header["kid"].(string)
	if !given {
		id = "_default"
	}
	kind := keyTypes[t.Method.Alg()]
	k, known := keys[kind+":"+id]
	switch {
	case !known:
		return nil, errKey
	case kind == "rsa":
		return k.RSA, nil
	case kind == "ec":
		return k.EC, nil
	}
	return k.HMAC, nil
}

// tokenError answers a token that cannot be read. It does not tell what the library found, which may quote the token.
func tokenError(err error) error {
	switch {
	case errors.Is(err, errKey):
		return web.BadRequest("Unknown kid")
	case errors.Is(err, jwt.ErrTokenExpired):
		return web.Unauthorized("exp not in future")
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return web.Unauthorized("nbf not in past")
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return web.Unauthorized("Bad signature in authentication token")
	}
	return web.BadRequest("Malformed authentication token")
}

// checkClaims demands the claims that the configuration requires. What exp and nbf say has been checked.
func checkClaims(required []config.Claim, t *jwt.Token, claims jwt.MapClaims) error {
	for _, c := range required {
		value, found := claims[c.Name]
		if c.Name == "kid" || c.Name == "typ" {
			value, found = t.Header[c.Name]
		}
		switch {
		case !found:
			return web.BadRequest("Missing %s claim", c.Name)
		case c.Name == "typ" && value != "JWT", c.Value != "" && value != c.Value:
			return web.BadRequest("Invalid %s claim", c.Name)
		}
	}
	return nil
}

// rolesOf returns the roles that a token has, a list or a text with commas.
func rolesOf(c config.JWT, claims jwt.MapClaims) ([]string, error) {
	path := []string{c.RoleName}
	if c.RolesPath != "" {
		path = nil
		const dot = "\x00" // that is a part of a name
		for step := range strings.SplitSeq(strings.ReplaceAll(c.RolesPath, `\.`, dot), ".") {
			path = append(path, strings.ReplaceAll(step, dot, "."))
		}
	}
	var value any = map[string]any(claims)
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	roles := []string{}
	switch value := value.(type) {
	case nil:
	case string:
		for role := range strings.SplitSeq(value, ",") {
			roles = append(roles, strings.TrimSpace(role))
		}
	case []any:
		for _, role := range value {
			text, is := role.(string)
			if !is {
				return nil, web.BadRequest("Malformed token")
			}
			roles = append(roles, text)
		}
	default:
		return nil, web.BadRequest("Malformed token")
	}
	return slices.DeleteFunc(roles, func(role string) bool { return role == "" }), nil
}
