// Package config reads couchrelay's configuration: CouchDB's INI format with CouchDB's sections and
// keys where it has them. A key that is unknown, or known but not supported yet, is an error: a setting
// is never ignored silently.
package config

import (
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/repid"
)

// Config is everything that can be configured. The names of the fields' keys are in package comments
// of their tables.
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

	Replicator jobstore.Config
	Node       node.Settings
	TLS        TLS

	// Ignored lists sections, and variables of the environment, that mean nothing here.
	Ignored []string
}

// MaintenanceModes are what CouchDB knows: in true the node hands its jobs back and load balancers are told to
// leave it out; in nolb only the latter.
var MaintenanceModes = []string{"false", "true", "nolb"}

// TLS says how connections to endpoints are secured.
type TLS struct {
	Verify   bool   // verify_ssl_certificates; true, where CouchDB has false
	CAFile   string // ssl_trusted_certificates_file; empty means the system's
	CertFile string // cert_file
	KeyFile  string // key_file
}

// Default is the configuration without a file.
func Default() Config {
	c := Config{
		BindAddress: "127.0.0.1", Port: 5980, LogLevel: "info", KeyPrefix: "couchrelay", Admins: map[string]string{},
		Replicator: jobstore.DefaultConfig(repid.Server{HostName: "localhost", Port: 5980}), Node: node.DefaultSettings(),
		TLS: TLS{Verify: true}, Roles: node.AllRoles, Maintenance: "false",
	}
	c.Replicator.Sharing.Shares = map[string]int64{}
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
	if s.name == "admins" {
		for _, k := range s.keys {
			c.Admins[k.key] = k.value
		}
		return nil
	}
	if s.name == "replicator.shares" {
		for _, k := range s.keys {
			if err := c.shares(k.key, k.value); err != nil {
				return err
			}
		}
		return nil
	}
	keys, known := sections[s.name]
	if !known {
		if !slices.Contains(c.Ignored, s.name) {
			c.Ignored = append(c.Ignored, s.name)
		}
		return nil
	}
	for _, k := range s.keys {
		if err := c.set(s.name, keys, k.key, k.value); err != nil {
			return err
		}
	}
	return nil
}

// set sets one key.
func (c *Config) set(section string, keys []key, name, value string) error {
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
	switch {
	case i < 0 && slices.Contains(unsupported, name):
		return fmt.Errorf("[%s] %s is not supported yet; remove it", section, name)
	case i < 0:
		var names []string
		for _, k := range keys {
			names = append(names, k.name)
		}
		slices.Sort(names)
		return fmt.Errorf("[%s] %s: no such key; known are %s", section, name, strings.Join(names, ", "))
	}
	if err := keys[i].set(c, value); err != nil {
		return fmt.Errorf("[%s] %s = %s: %w", section, name, value, err)
	}
	return nil
}

// check looks at settings that depend on each other.
func (c *Config) check() error {
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		return fmt.Errorf("[replicator] cert_file and key_file are needed both or none")
	}
	if b := c.Replicator.Backoff; b.Min > b.Max {
		return fmt.Errorf("[replicator] min_backoff_penalty_sec (%s) is above max_backoff_penalty_sec (%s)", b.Min, b.Max)
	}
	c.Replicator.Sharing.Forgetting.Interval = c.Node.Interval
	c.Replicator.Server.UUID, c.Replicator.Server.Port = c.UUID, c.Port
	return nil
}
