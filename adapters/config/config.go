// Package config reads couchrelay's configuration: CouchDB's INI format with CouchDB's sections and
// keys where it has them. A key that is unknown, or known but not supported yet, is an error: a setting
// is never ignored silently.
package config

import (
	"fmt"
	"slices"

	"couchrelay/core/config"
	"couchrelay/core/node"
)

// Config is everything that can be configured.
type Config struct {
	BindAddress string     // [chttpd] bind_address
	Port        int        // [chttpd] port
	UUID        string     // [couchdb] uuid; empty means that the store keeps one
	LogLevel    string     // [log] level: debug, info, warning, error
	KeyPrefix   string     // [store] key_prefix; the name below which all keys of the store lie
	Roles       node.Roles // [node_types]; COUCHDB_NODE_TYPE_* in the environment
	// Maintenance is one of MaintenanceModes ([couchdb] maintenance_mode).
	Maintenance string
	// Admins are user names with passwords, in clear or hashed by CouchDB ([admins]).
	Admins map[string]string

	config.Settings // [replicator], [replicator.shares]

	// Ignored lists sections, and variables of the environment, that mean nothing here.
	Ignored []string
}

// MaintenanceModes are what CouchDB knows: in true the node hands its jobs back and load balancers are told to
// leave it out; in nolb only the latter.
var MaintenanceModes = []string{"false", "true", "nolb"}

// Default is the configuration without a file.
func Default() Config {
	c := Config{
		BindAddress: "127.0.0.1", Port: 5980, LogLevel: "info", KeyPrefix: "couchrelay", Admins: map[string]string{},
		Settings: config.Default(), Roles: node.AllRoles, Maintenance: "false",
	}
	c.Replicator.Server.Port = c.Port
	return c
}

// Load reads files, later ones over earlier ones.
func Load(paths ...string) (Config, error) {
	c := Default()
	for _, path := range paths {
		if err := c.read(path); err != nil {
			return Config{}, fmt.Errorf("configuration %s: %w", path, err)
		}
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	return c, nil
}

func (c *Config) read(path string) error {
	sections, err := readINI(path)
	if err != nil {
		return err
	}
	for _, s := range sections {
		if err := c.section(s); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) section(s section) error {
	if _, known := sections[s.name]; !known && !slices.Contains(shared, s.name) {
		if !slices.Contains(c.Ignored, s.name) {
			c.Ignored = append(c.Ignored, s.name)
		}
		return nil
	}
	for _, k := range s.keys {
		if err := c.Set(s.name, k.key, k.value); err != nil {
			return err
		}
	}
	return nil
}

// shared are the sections beside those of the table.
var shared = []string{"admins", "replicator", "replicator.shares"}

// Set sets one key, as a line of a file does.
func (c *Config) Set(section, name, value string) error {
	switch section {
	case "admins":
		c.Admins[name] = value
		return nil
	case "replicator":
		return c.Settings.Set(name, value)
	case "replicator.shares":
		return c.SetShares(name, value)
	}
	return sections[section].Set(c, section, name, value)
}

// check looks at settings that depend on each other.
func (c *Config) check() error {
	c.Replicator.Server.UUID, c.Replicator.Server.Port = c.UUID, c.Port
	return c.Settings.Check()
}
