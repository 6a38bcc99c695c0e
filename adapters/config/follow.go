package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"couchrelay/core/config"
	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/follow"
	"couchrelay/core/spec"
)

// followPrefix begins the names of sections [follow NAME].
const followPrefix = "follow "

// Follow is a server whose databases have replication documents ([follow NAME]).
type Follow struct {
	URL       spec.Secret // may have a user and a password
	Auth      spec.Secret // JSON, as in endpoints of documents
	TLS       string
	Databases []string
	Trusted   bool
}

const (
	takesServer    = "the URL of a server, http://HOST:PORT or https://..., which may have user:password@"
	takesAuth      = `as "auth" of an endpoint: {"basic": {"username": "u", "password": "p" or {"secret": "NAME"}}}`
	takesDatabases = "names of databases, separated by commas"
)

// followKeys are the keys of these sections.
var followKeys = config.Section[Follow]{
	{
		Name: "url", Says: "The CouchDB whose databases have replication documents; with databases.",
		Kind: config.Kind[Follow]{
			Takes: takesServer, Secret: true,
			Get: func(f *Follow) string { return masked(f.URL.Reveal()) },
			Set: func(f *Follow, v string) error {
				u, err := url.Parse(v)
				if err != nil || !spec.IsServer(v, true) {
					return fmt.Errorf("must be %s", takesServer)
				}
				if password, _ := u.User.Password(); password == Masked {
					return fmt.Errorf("must be %s; %s stands for a password that is not shown", takesServer, Masked)
				}
				f.URL = spec.Hide(v)
				return nil
			},
		},
	},
	{
		Name: "databases", Says: "The databases that are followed; each has a mirror NAME/DATABASE/_replicator here.",
		Kind: config.Kind[Follow]{
			Takes: takesDatabases,
			Get:   func(f *Follow) string { return strings.Join(f.Databases, ", ") },
			Set: func(f *Follow, v string) error {
				f.Databases = nil
				for name := range strings.SplitSeq(v, ",") {
					name = strings.TrimSpace(name)
					if docs.ValidName(name) != nil || slices.Contains(f.Databases, name) {
						return fmt.Errorf("must be %s, each once", takesDatabases)
					}
					f.Databases = append(f.Databases, name)
				}
				return nil
			},
		},
	},
	{
		Name: "auth", Says: "How to log in there, if url has no user.",
		Kind: config.Kind[Follow]{
			Takes: takesAuth, Secret: true,
			Get: func(f *Follow) string {
				if !f.Auth.IsSet() {
					return ""
				}
				return Masked
			},
			Set: func(f *Follow, v string) error {
				if body, err := ejson.Parse([]byte(v)); err != nil || body.Kind != ejson.Object {
					return fmt.Errorf("must be %s", takesAuth)
				}
				f.Auth = spec.Hide(v)
				return nil
			},
		},
	},
	{
		Name: "tls", Says: "The section [tls NAME] that says how to connect.",
		Kind: config.Text(func(f *Follow) *string { return &f.TLS }, "the NAME of a section [tls NAME]"),
	},
	{
		Name: "trusted",
		Says: "Whether all who write documents there may do what admins may here: name secrets and, as their owner, " +
			"reach this machine.",
		Kind: config.Boolean(func(f *Follow) *bool { return &f.Trusted }),
	},
}

// masked is a URL, which parses, with ***** for its password.
func masked(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	login := ""
	if u.User != nil {
		login = url.User(u.User.Username()).String() + "@"
	}
	if _, has := u.User.Password(); has {
		login = strings.TrimSuffix(login, "@") + ":" + Masked + "@"
	}
	u.User = nil
	return strings.Replace(strings.TrimSuffix(u.String(), "/"), "://", "://"+login, 1)
}

// IsFollow reports whether a section is one of [follow NAME].
func IsFollow(section string) bool {
	name, is := strings.CutPrefix(section, followPrefix)
	return is && !strings.Contains(name, "/") && docs.ValidName(name+"/x") == nil
}

// setFollow sets a key of [follow NAME].
func (c *Config) setFollow(section, name, value string) error {
	f := c.Follow[strings.TrimPrefix(section, followPrefix)]
	if err := followKeys.Set(&f, section, name, value); err != nil {
		return err
	}
	c.Follow[strings.TrimPrefix(section, followPrefix)] = f
	return nil
}

// follows describes the sections [follow NAME], or any if there is none, without values.
func (c *Config) follows() []config.Row {
	return namedRows(followKeys, followPrefix, "name", c.Follow, Follow{})
}

// Followed is a database to follow, and how to connect to it.
type Followed struct {
	follow.Database
	Connect spec.Replication // both of its endpoints are the database
}

// Followed returns the databases of all sections [follow NAME], in order.
func (c *Config) Followed() (list []Followed, err error) {
	for _, name := range slices.Sorted(maps.Keys(c.Follow)) {
		f := c.Follow[name]
		if !f.URL.IsSet() || len(f.Databases) == 0 {
			return nil, fmt.Errorf("[%s%s] url and databases are needed both", followPrefix, name)
		}
		if f.twoLogins() {
			return nil, fmt.Errorf("[%s%s] auth: url has a user as well: one must go", followPrefix, name)
		}
		if _, is := c.Profiles[f.TLS]; f.TLS != "" && !is {
			return nil, fmt.Errorf("[%s%s] tls = %s: there is no section [%s%s]", followPrefix, name, f.TLS, tlsPrefix,
				f.TLS)
		}
		for _, database := range f.Databases {
			one, err := f.database(name, database, c.Replicator.Parse)
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
	}
	if len(list) > follow.MaxDatabases {
		return nil, fmt.Errorf("sections [%sNAME] have %d databases, and may have %d", followPrefix, len(list),
			follow.MaxDatabases)
	}
	return list, nil
}

// database reads the settings of a followed database as those of an endpoint in a replication document.
func (f *Follow) database(section, name string, c spec.Config) (Followed, error) {
	text := func(s string) ejson.Value { return ejson.Value{Kind: ejson.String, Text: s} }
	endpoint := ejson.Value{Kind: ejson.Object, Members: []ejson.Member{
		{Name: "url", Value: text(strings.TrimSuffix(f.URL.Reveal(), "/") + "/" + spec.EscapeName(name))},
	}}
	if f.Auth.IsSet() {
		auth, _ := ejson.Parse([]byte(f.Auth.Reveal())) // which was read before
		endpoint.Members = append(endpoint.Members, ejson.Member{Name: "auth", Value: auth})
	}
	if f.TLS != "" {
		endpoint.Members = append(endpoint.Members, ejson.Member{Name: "tls", Value: text(f.TLS)})
	}
	rep, err := spec.ParseDocument(ejson.Value{Kind: ejson.Object, Members: []ejson.Member{
		{Name: "source", Value: endpoint}, {Name: "target", Value: endpoint},
	}}, c)
	one := Followed{Database: follow.Database{Section: section, Name: name, Trusted: f.Trusted}}
	if err == nil {
		one.Connect, one.URL = *rep, rep.Source.URL
		err = docs.ValidName(one.ID())
	}
	if err != nil {
		said := keysOfEndpoint.Replace(err.Error())
		return one, fmt.Errorf("[%s%s] database %s: %s", followPrefix, section, name, said)
	}
	return one, nil
}

// keysOfEndpoint turns what an error says of the fields of an endpoint into the keys of these sections.
var keysOfEndpoint = strings.NewReplacer("`source.", "`", "`source`", "`url`")

// twoLogins reports whether the URL and auth both say how to log in: one of them would be ignored.
func (f *Follow) twoLogins() bool {
	u, err := url.Parse(f.URL.Reveal())
	return err == nil && u.User != nil && f.Auth.IsSet()
}
