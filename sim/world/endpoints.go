package world

import (
	"strings"

	"couchrelay/core/prng"
	"couchrelay/sim/decide"
)

// Endpoints are what users write of the servers that they replicate between, in percent.
type Endpoints struct {
	// LongURLs is the percentage of replications whose records are large, since the URL of their proxy is.
	LongURLs int
	// Objects is the percentage of endpoints that are objects, and no URLs.
	Objects int
}

// wording is how a user words an endpoint. URLs are the usual form.
type wording uint8

const (
	asURL wording = iota
	asObject
	withHeader
	withAuth // the user and the password, where servers want these, are not in the URL
	wordings
)

// drawEndpoints has one world of four have users who word endpoints as objects.
func (c *Config) drawEndpoints(seed uint64) {
	if r := prng.Fork(seed, "endpoints"); r.Intn(4) == 0 {
		c.Objects = 10 * (1 + r.Intn(10))
	}
}

// wordEndpoint chooses how an endpoint is worded.
func (c *Config) wordEndpoint(site *decide.Site) wording {
	if c.Objects == 0 || !site.Chance(c.Objects*decide.Scale/100) {
		return asURL
	}
	return 1 + wording(site.Int(int(wordings)-1))
}

// word words the endpoints of a replication.
func (j *JobDoc) word(body map[string]any) {
	for i, side := range []string{"source", "target"} {
		url, is := body[side].(string)
		if !is || j.words[i] == asURL {
			continue
		}
		object := map[string]any{"url": url}
		scheme, rest, _ := strings.Cut(url, "://")
		userinfo, place, signed := strings.Cut(rest, "@")
		switch {
		case j.words[i] == withHeader:
			object["headers"] = map[string]any{"X-Relay": side}
		case j.words[i] == withAuth && signed:
			name, password, _ := strings.Cut(userinfo, ":")
			object["url"] = scheme + "://" + place
			object["auth"] = map[string]any{"basic": map[string]any{"username": name, "password": password}}
		}
		body[side] = object
	}
}

// reword has a user word one endpoint of a document in another way, now and then.
func reword(u *users, j *JobDoc) {
	if u.w.Config.Objects > 0 && u.endpoints.Int(8) == 7 {
		j.words[u.endpoints.Int(2)] = u.w.Config.wordEndpoint(u.endpoints)
	}
}
