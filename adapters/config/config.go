// Package config reads couchrelay's configuration: CouchDB's INI format with CouchDB's sections and
// keys where it has them. Keys of CouchDB that concern a database server are skipped and listed, so that its files can
// be used as they are. Any other key that is unknown is an error: a setting is never ignored silently.
package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"couchrelay/core/config"
	"couchrelay/core/node"
)

// Config is the whole configuration of a service.
type Config struct {
	BindAddress string // [chttpd] bind_address; never empty
	Port        int    // [chttpd] port; 0 lets the system choose one
	UUID        string // [couchdb] uuid; if empty the store makes one and keeps it
	LogLevel    string // [log] level: debug, info, warning, error
	LogFormat   string // [log] format: text, json
	// AuditFile gets the lines of the audit log besides the log ([audit] file); empty for none.
	AuditFile string
	Limits    Limits
	SSL       SSL
	CORS      CORS
	Beside    Beside     // [front], [fauxton], [prometheus]
	KeyPrefix string     // [store] key_prefix: the name below which all keys lie in the store
	Roles     node.Roles // [node_types], and COUCHDB_NODE_TYPE_* in the environment
	// Maintenance is one of MaintenanceModes ([couchdb] maintenance_mode).
	Maintenance string
	// Admins are user names with passwords, in clear or hashed by CouchDB ([admins]).
	Admins map[string]string
	Auth   Auth // [chttpd_auth] and others
	// Secrets says how the store keeps credentials ([secrets]).
	Secrets Secrets

	Named

	config.Settings // [replicator], [replicator.shares]

	Oddities
}

// Oddities are what a configuration has that sets nothing.
type Oddities struct {
	// Empty lists the files that have no section.
	Empty []string
	// Skipped lists the sections and keys of files that concern a database server, in the order of the files, and
	// Ignored the sections and variables of the environment that mean nothing. The service logs both, so that nothing
	// is ignored silently.
	Skipped, Ignored []string
}

// Named are sections of which there may be several.
type Named struct {
	// Profiles are ways to connect to endpoints, by their names in documents ([tls NAME]).
	Profiles map[string]config.TLS
	// Follow are servers with replication documents of their own, by the NAME of [follow NAME].
	Follow map[string]Follow
}

// Beside is what else is to be had at the address of the service.
type Beside struct {
	CouchDB string // URL of the CouchDB behind it ([front] couchdb); empty for none
	Fauxton string // directory of Fauxton's files ([fauxton] docroot); empty for none
	Scrapes Scrapes
}

// Secrets are the settings of [secrets].
type Secrets struct {
	KeyFile string // of the keys that encrypt credentials; empty for none
	// MakeKey reports whether KeyFile belongs to the embedded store, which then makes the file if it is missing.
	MakeKey bool
	Encrypt bool // whether credentials are encrypted in the store
	// Directory has the secrets that replications name, a file each; empty for none.
	Directory string
}

// MaintenanceModes are CouchDB's. In mode true the node hands its jobs back, and /_up tells load balancers to
// leave the node out; in mode nolb it does only the latter.
var MaintenanceModes = []string{"false", "true", "nolb"}

// Default returns the configuration without a file.
func Default() Config {
	c := Config{
		BindAddress: "127.0.0.1", Port: 5980, LogLevel: "info", LogFormat: "text", KeyPrefix: "couchrelay",
		Admins: map[string]string{},
		Auth:   defaultAuth(), Limits: defaultLimits(), SSL: defaultSSL(), CORS: defaultCORS(),
		Secrets:  Secrets{Encrypt: true},
		Settings: config.Default(), Roles: node.AllRoles, Maintenance: "false",
	}
	c.Beside.Scrapes = Scrapes{BindAddress: "127.0.0.1", Port: 17986}
	c.Named = Named{map[string]config.TLS{}, map[string]Follow{}}
	c.Replicator.Server.Port = c.Port
	return c
}

// Load returns the configuration in files. A setting in a later file overrides one in an earlier file.
func Load(paths ...string) (Config, error) {
	c, err := Read(paths...)
	if err != nil {
		return Config{}, err
	}
	if err := c.Check(); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	return c, nil
}

// Read is Load without Check, for a configuration that other settings will complete.
func Read(paths ...string) (Config, error) {
	c := Default()
	for _, path := range paths {
		if err := c.read(path); err != nil {
			return Config{}, fmt.Errorf("configuration %s: %w", path, err)
		}
	}
	return c, nil
}

func (c *Config) read(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sections, err := parseINI(string(raw))
	if err != nil {
		return err
	}
	if len(sections) == 0 {
		c.Empty = append(c.Empty, path)
	}
	for _, s := range sections {
		if err := c.section(s); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) section(s section) error {
	if s.name == "couch_httpd_auth" { // the name of earlier releases of CouchDB
		s.name = "chttpd_auth"
	}
	if !isSection(s.name) {
		return c.skip(s)
	}
	for _, k := range s.keys {
		name := Name{s.name, k.key}
		if k.value == "" && name == unfilled {
			note(&c.Skipped, skipped(name, k.value))
			continue
		}
		err := c.Set(s.name, k.key, k.value)
		if errors.Is(err, ErrForeign) {
			note(&c.Skipped, skipped(name, k.value))
		} else if err != nil {
			return fmt.Errorf("line %d: %w", k.line, err)
		}
	}
	return nil
}

// shared are the sections that are not in the table: Set has a case for each.
var shared = []string{"admins", "jwt_keys", "replicator", "replicator.shares"}

// Set sets one key, as a line of a file does. The section must be one of the table or of shared.
func (c *Config) Set(section, name, value string) error {
	switch section {
	case "admins":
		if value == Masked {
			return fmt.Errorf("[admins] %s: %s stands for a password that is not shown", name, Masked)
		}
		c.Admins[name] = value
		return nil
	case "jwt_keys":
		return c.setJWTKey(name, value)
	case "replicator":
		return c.Settings.Set(name, value)
	case "replicator.shares":
		return c.SetShares(name, value)
	}
	if strings.HasPrefix(section, tlsPrefix) {
		return c.setProfile(section, name, value)
	}
	if strings.HasPrefix(section, followPrefix) {
		return c.setFollow(section, name, value)
	}
	if !sections[section].Has(name) {
		return unknown(Name{section, name})
	}
	return sections[section].Set(c, section, name, value)
}

// Check completes settings that follow from others, and checks those that depend on each other, when all are read.
func (c *Config) Check() error {
	if c.CORS.Contradicts() {
		note(&c.Skipped, "[cors] credentials = true for origins = *")
	}
	c.Replicator.Server.UUID, c.Replicator.Server.Port = c.UUID, c.Port
	if c.Replicator.Parse.Local == "" {
		c.Replicator.Parse.Local = c.Beside.CouchDB
	}
	if couch := &c.Auth.Couch; couch.Front || couch.URL == "" && !couch.None {
		couch.Front, couch.URL = true, strings.TrimSuffix(c.Beside.CouchDB, "/")
	}
	if err := errors.Join(c.checkProfiles(), c.checkSSL(), c.checkPorts()); err != nil {
		return err
	}
	if _, err := c.Followed(); err != nil {
		return err
	}
	return c.Settings.Check()
}
