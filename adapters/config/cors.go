package config

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"couchrelay/core/config"
)

// CORS says which pages of other origins may use the service ([cors], and [chttpd] enable_cors).
type CORS struct {
	Enable      bool
	Origins     []string // each a scheme and a host; * stands for all
	Local       bool     // * stands for the pages of this machine only
	Credentials bool     // whether pages of named origins may send cookies
	Methods     []string
	Headers     []string // of requests, in lower case
	Exposed     []string // headers of answers
	MaxAge      int      // for how many seconds browsers may keep the answer to a preflight
}

func defaultCORS() CORS {
	return CORS{
		Methods: []string{"CONNECT", "COPY", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE"},
		Headers: []string{"accept", "accept-language", "authorization", "content-length", "content-range",
			"content-type", "destination", "expires", "if-match", "last-modified", "origin", "pragma",
			"x-couch-full-commit", "x-couch-id", "x-couch-persist", "x-couchdb-www-authenticate",
			"x-http-method-override", "x-requested-with", "x-couchdb-vhost-path"},
		Exposed: []string{"accept-ranges", "etag", "server", "x-couch-request-id", "x-couch-update-newrev",
			"x-couchdb-body-time"},
		MaxAge: 600,
	}
}

// Pages returns which pages may use the service. While nothing tells an admin from others, so that every client is one,
// * stands for those of this machine only.
func (c *Config) Pages() CORS {
	pages := c.CORS
	pages.Local = len(c.Admins) == 0 && c.Auth.Couch.URL == ""
	return pages
}

// Contradicts reports whether pages of all origins may send cookies. Only pages of origins with a name may.
func (c CORS) Contradicts() bool { return c.Credentials && slices.Contains(c.Origins, "*") }

// ErrCORS is why a change to such settings is refused.
var ErrCORS = errors.New("[cors] credentials = true: cannot go with origins = *, since any page could act for the " +
	"users of its visitors; name the origins")

// enableCORS is a key of [chttpd].
var enableCORS = config.Key[Config]{
	Name: "enable_cors", Says: "Whether pages of the origins in [cors] may use the service.",
	Kind: config.Boolean(func(c *Config) *bool { return &c.CORS.Enable }),
}

var corsKeys = config.Section[Config]{
	{
		Name: "origins", Kind: origins,
		Says: "The origins whose pages may use the service, * for all; without an admin those of this machine.",
	},
	{
		Name: "credentials", Says: "Whether pages of origins that are named, not of *, may use cookies.",
		Kind: config.Boolean(func(c *Config) *bool { return &c.CORS.Credentials }),
	},
	{
		Name: "methods", Says: "The methods that pages may use.",
		Kind: tokens(func(c *Config) *[]string { return &c.CORS.Methods }, strings.ToUpper),
	},
	{
		Name: "headers", Says: "The headers that pages may send.",
		Kind: tokens(func(c *Config) *[]string { return &c.CORS.Headers }, strings.ToLower),
	},
	{
		Name: "exposed_headers", Says: "The headers of answers that pages may read, besides those that all may.",
		Kind: tokens(func(c *Config) *[]string { return &c.CORS.Exposed }, strings.ToLower),
	},
	{
		Name: "max_age", Says: "For how many seconds browsers may remember what is allowed.",
		Kind: config.Integer(func(c *Config) *int { return &c.CORS.MaxAge }, 0, 86400),
	},
}

var origins = config.Kind[Config]{
	Takes: "origins such as https://app.example.com, with commas between, or *",
	Get:   func(c *Config) string { return strings.Join(c.CORS.Origins, ", ") },
	Set: func(c *Config, v string) error {
		var list []string
		for text := range strings.SplitSeq(v, ",") {
			text = strings.ToLower(strings.TrimSpace(text))
			u, err := url.Parse(text)
			if text != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != text) {
				return errors.New("must be origins, each a scheme and a host such as https://app.example.com without " +
					"a slash at the end, with commas between, or *")
			}
			if u != nil { // browsers leave the usual port out
				text = strings.TrimSuffix(text, map[string]string{"https": ":443", "http": ":80"}[u.Scheme])
			}
			list = append(list, text)
		}
		c.CORS.Origins = list
		return nil
	},
}

var token = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// tokens takes names as HTTP has them, with commas between.
func tokens(field func(*Config) *[]string, spelled func(string) string) config.Kind[Config] {
	const takes = "names with commas between"
	return config.Kind[Config]{
		Takes: takes,
		Get:   func(c *Config) string { return strings.Join(*field(c), ", ") },
		Set: func(c *Config, v string) error {
			var list []string
			for name := range strings.SplitSeq(v, ",") {
				name = spelled(strings.TrimSpace(name))
				if !token.MatchString(name) {
					return errors.New("must be " + takes)
				}
				list = append(list, name)
			}
			*field(c) = list
			return nil
		},
	}
}
