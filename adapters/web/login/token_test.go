package login

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// pemOf is a public key as a line of a configuration.
func pemOf(t *testing.T, public any) string {
	raw, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: raw})
	return strings.ReplaceAll(string(text), "\n", `\n`)
}

// TestTokens: tokens of all kinds of keys, what they must claim, and those that are no good.
func TestTokens(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte("hello")
	rsaPEM := pemOf(t, &rsaKey.PublicKey)
	r := newRig(t, "jwt_keys/hmac:_default="+base64.StdEncoding.EncodeToString(secret), "jwt_keys/rsa:r="+rsaPEM,
		"jwt_keys/ec:e="+pemOf(t, &ecKey.PublicKey), `jwt_auth/required_claims=exp, {iss, "me"}`)
	now := int64(1_750_000_000)
	claims := func(change ...any) jwt.MapClaims {
		c := jwt.MapClaims{"sub": "joe", "exp": now + 1, "iss": "me", "_couchdb.roles": []string{"dev"}}
		for i := 0; i < len(change); i += 2 {
			if c[change[i].(string)] = change[i+1]; change[i+1] == nil {
				delete(c, change[i].(string))
			}
		}
		return c
	}
	make := func(method jwt.SigningMethod, kid string, key any, c jwt.MapClaims) string {
		token := jwt.NewWithClaims(method, c)
		if kid != "" {
			token.Header["kid"] = kid
		}
		text, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	hs := func(change ...any) string { return make(jwt.SigningMethodHS256, "", secret, claims(change...)) }
	const badSignature = "unauthorized: Bad signature in authentication token"
	const joe = `{"name":"joe","roles":["dev"]}`
	// The public key is known to everybody: it must be no secret of an HMAC.
	confused := make(jwt.SigningMethodHS256, "r", []byte(strings.ReplaceAll(rsaPEM, `\n`, "\n")), claims())
	unsigned := make(jwt.SigningMethodNone, "", jwt.UnsafeAllowNoneSignatureType, claims())
	good, longest := hs(), strings.Repeat("x", 1000)
	for _, c := range []struct {
		name, token string
		status      int
		want        string
	}{
		{"HS256", good, 200, joe},
		{"HS512", make(jwt.SigningMethodHS512, "", secret, claims()), 200, joe},
		{"RS256", make(jwt.SigningMethodRS256, "r", rsaKey, claims()), 200, joe},
		{"ES256", make(jwt.SigningMethodES256, "e", ecKey, claims()), 200, joe},
		{"PS256", make(jwt.SigningMethodPS256, "r", rsaKey, claims()), 401, badSignature},
		{"none", unsigned, 401, badSignature},
		{"key confusion", confused, 400, "bad_request: Unknown kid"},
		{"unknown key", make(jwt.SigningMethodHS256, "x", secret, claims()), 400, "bad_request: Unknown kid"},
		{"other key", make(jwt.SigningMethodHS256, "", []byte("jello"), claims()), 401, badSignature},
		{"expired", hs("exp", now), 401, "unauthorized: exp not in future"},
		{"no exp", hs("exp", nil), 400, "bad_request: Missing exp claim"},
		{"exp of words", hs("exp", "soon"), 400, "bad_request: Malformed authentication token"},
		{"too early", hs("nbf", now+1), 401, "unauthorized: nbf not in past"},
		{"other issuer", hs("iss", "you"), 400, "bad_request: Invalid iss claim"},
		{"no issuer", hs("iss", nil), 400, "bad_request: Missing iss claim"},
		{"no sub", hs("sub", nil), 401, "unauthorized: Token missing sub claim."},
		{"empty sub", hs("sub", ""), 401, "unauthorized: Token missing sub claim."},
		{"longest sub", hs("sub", longest), 200, strings.Replace(joe, "joe", longest, 1)},
		{"long sub", hs("sub", longest+"x"), 401, "unauthorized: The user's name is too long."},
		{"sub of numbers", hs("sub", 7), 401, "unauthorized: Token missing sub claim."},
		{"roles in a text", hs("_couchdb.roles", "dev ,ops"), 200, `{"name":"joe","roles":["dev","ops"]}`},
		{"no roles", hs("_couchdb.roles", nil), 200, `{"name":"joe","roles":[]}`},
		{"admin", hs("_couchdb.roles", []string{"_admin"}), 200, `{"name":"joe","roles":["_admin"]}`},
		{"roles of numbers", hs("_couchdb.roles", []int{1}), 400, "bad_request: Malformed token"},
		{"roles as an object", hs("_couchdb.roles", map[string]int{}), 400, "bad_request: Malformed token"},
		{"cut", good[:len(good)-4], 400, "bad_request: Malformed authentication token"},
		{"empty", "", 400, "bad_request: Malformed authentication token"},
		{"two parts", "a.b", 400, "bad_request: Malformed authentication token"},
		{"not JSON", "e30.e30.x", 400, "bad_request: Malformed authentication token"},
		{"long", strings.Repeat("e30.", 20_000), 400, "bad_request: Malformed authentication token"},
	} {
		t.Log(c.name)
		r.want("GET /who", c.status, c.want, "Authorization", "Bearer "+c.token)
	}
	r.set(`jwt_auth/roles_claim_path=my.nested._couchdb\.roles`)
	nested := map[string]any{"nested": map[string]any{"_couchdb.roles": []string{"deep"}}}
	r.want("GET /who", 200, `{"name":"joe","roles":["deep"]}`, "Authorization", "Bearer "+hs("my", nested))
	r.want("GET /who", 200, `{"name":"joe","roles":[]}`, "Authorization", "Bearer "+hs("my", "x"))
	r.want("GET /who", 200, adm, "Authorization", basic("adm", "secret"))
	r.set("jwt_auth/required_claims=kid, typ")
	r.want("GET /who", 400, "bad_request: Missing kid claim", "Authorization", "Bearer "+hs())
	r.want("GET /who", 401, "unauthorized: exp not in future", "Authorization", // though it is not required
		"Bearer "+make(jwt.SigningMethodRS256, "r", rsaKey, claims("exp", now-1)))
}
