package config

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"couchrelay/adapters/web/front"
	"couchrelay/core/config"
	"couchrelay/core/node"
)

// sections is the table of sections that only production has, without [admins] and [jwt_keys]. Those that scenarios
// have too are in core/config.
var sections = map[string]config.Section[Config]{
	"chttpd": append(config.Section[Config]{
		{
			Name: "bind_address", Says: "The address on which the service answers requests.",
			Kind: address(func(c *Config) *string { return &c.BindAddress }),
		},
		{
			Name: "port", Says: "The TCP port of the service.",
			Kind: config.Integer(func(c *Config) *int { return &c.Port }, 0, 65535),
		},
		{
			Name: "trusted_proxies",
			Says: "Proxies whose headers X-Forwarded-For and X-Forwarded-Proto say from where and how a request " +
				"comes; max_connections_per_address does not count them.",
			Kind: networks(func(c *Config) *[]netip.Prefix { return &c.Limits.Proxies }),
		},
	}, slices.Concat(sizeKeys, usersKeys, config.Section[Config]{enableCORS})...),
	"chttpd_auth":         loginKeys,
	"chttpd_auth_lockout": lockoutKeys,
	"jwt_auth":            tokenKeys,
	"couch_auth":          couchKeys,
	"couchdb": append(config.Section[Config]{
		{
			Name: "uuid",
			Says: "The server's identity, a part of replication ids; without it the one in the store, where a single " +
				"node keeps it.",
			Kind: name(func(c *Config) *string { return &c.UUID }, ", 32 hexadecimal digits as a rule"),
		},
		{
			Name: "maintenance_mode",
			Says: "With true the node runs no jobs and /_up answers 404; with nolb only /_up does.",
			Kind: maintenance,
		},
	}, documentKeys...),
	"cors":   corsKeys,
	"limits": limitKeys,
	"ssl":    sslKeys,

	"prometheus": scrapeKeys,
	"node_types": {
		{
			Name: "api_frontend",
			Says: "Whether the node answers clients; COUCHDB_NODE_TYPE_API_FRONTEND wins over it.",
			Kind: role(node.APIFrontend),
		},
		{
			Name: "replication", Says: "Whether the node runs jobs; COUCHDB_NODE_TYPE_REPLICATION wins over it.",
			Kind: role(node.Replication),
		},
	},
	"log": {
		{
			Name: "level", Says: "The least severe messages that the service logs.",
			Kind: level,
		},
		{
			Name: "format", Says: "How the service writes its log: key=value pairs, or a JSON object a line.",
			Kind: config.OneOf(func(c *Config) *string { return &c.LogFormat }, "text", "json"),
		},
	},
	"audit": {
		{
			Name: "file",
			Says: "File that gets the lines of the audit log, as JSON, whatever [log] level is; SIGHUP opens it anew.",
			Kind: config.Text(func(c *Config) *string { return &c.AuditFile }, "the path of a file"),
		},
	},
	"fauxton": {
		{
			Name: "docroot",
			Says: "The directory of Fauxton, CouchDB's web interface, which is then at /_utils/; " +
				"COUCHDB_FAUXTON_DOCROOT wins over it.",
			Kind: config.Text(func(c *Config) *string { return &c.Beside.Fauxton },
				"the path of a directory with index.html"),
		},
	},
	"front": {
		{
			Name: "couchdb",
			Says: "The CouchDB to which all requests go that are not about replications: one address for both.",
			Kind: couchdbURL(func(c *Config) *string { return &c.Beside.CouchDB }),
		},
	},
	"local": {
		{
			Name: "url",
			Says: "The server of sources and targets that are names; [front] couchdb unless this says otherwise.",
			Kind: couchdbURL(func(c *Config) *string { return &c.Replicator.Parse.Local }),
		},
	},
	"secrets": {
		{
			Name: "key_file",
			Says: "File of the keys that encrypt credentials in the store, one a line, of which the first encrypts; " +
				"without it an embedded store makes secret.key in its directory.",
			Kind: config.Text(func(c *Config) *string { return &c.Secrets.KeyFile },
				"the path of a file that others cannot read"),
		},
		{
			Name: "encrypt",
			Says: "With false credentials are stored in clear, and those that are encrypted are decrypted.",
			Kind: config.Boolean(func(c *Config) *bool { return &c.Secrets.Encrypt }),
		},
		{
			Name: "directory",
			Says: "Directory of the secrets that replications name, a file each; else they are looked for in the " +
				"environment, as COUCHRELAY_SECRET_NAME.",
			Kind: config.Text(func(c *Config) *string { return &c.Secrets.Directory }, "the path of a directory"),
		},
	},
	"store": {
		{
			Name: "key_prefix", Says: "The name below which all keys of the service lie in the store.",
			Kind: name(func(c *Config) *string { return &c.KeyPrefix }, ""),
		},
	},
}

// Sections are the names of all sections, in order.
func Sections() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(sections)), shared...)))
}

// Masked stands for a value that is not shown.
const Masked = "*****"

// IsSecret reports whether the value of a key is never shown.
func IsSecret(n Name) bool {
	return n.Section == "admins" || n.Section == "jwt_keys" || n.Key == "password" ||
		n == Name{"chttpd_auth", "secret"} || strings.HasPrefix(n.Section, followPrefix) && n.Key == "auth"
}

// Exists reports whether there is such a key; any account, admin and key of tokens may be one.
func Exists(n Name) bool {
	switch n.Section {
	case "admins", "jwt_keys", "replicator.shares":
		return true
	case "replicator":
		return config.Replicator.Has(n.Key)
	}
	return sections[n.Section].Has(n.Key)
}

// Values are the keys with a value, by section, as files have them. They show no secret.
func (c *Config) Values() map[string]map[string]string {
	values := map[string]map[string]string{}
	for _, section := range Sections() {
		values[section] = map[string]string{}
	}
	for _, row := range c.Rows() {
		if row.Value != "" {
			if values[row.Section] == nil {
				values[row.Section] = map[string]string{}
			}
			values[row.Section][row.Key] = row.Value
		}
	}
	for name := range c.Admins {
		values["admins"][name] = Masked
	}
	for name := range c.Auth.JWT.Keys {
		values["jwt_keys"][name] = Masked
	}
	return values
}

// Rows describes every key of the configuration by section, with its value in force. It shows no password.
func (c *Config) Rows() []config.Row {
	byDefault := Default()
	var rows []config.Row
	for _, section := range Sections() {
		switch section {
		case "admins":
			rows = append(rows, c.admins()...)
		case "jwt_keys":
			rows = append(rows, config.Row{
				Section: section, Key: "TYPE:ID",
				Takes: "a secret in base64, or a public key as PEM with \\n for line ends",
				Says:  "A key of tokens, for those with the key id ID; TYPE is hmac, rsa or ec.",
			})
		case "replicator":
			rows = append(rows, config.Replicator.Rows(section, &c.Settings, &byDefault.Settings)...)
		case "replicator.shares":
			rows = append(rows, c.Shares()...)
		default:
			rows = append(rows, sections[section].Rows(section, c, &byDefault)...)
		}
	}
	return append(append(rows, c.profiles()...), c.follows()...)
}

// admins describes [admins], whose keys are names: a row without a value for each admin, or one for any if
// there is none.
func (c *Config) admins() []config.Row {
	names := slices.Sorted(maps.Keys(c.Admins))
	if len(names) == 0 {
		names = []string{"NAME"}
	}
	rows := make([]config.Row, len(names))
	for i, name := range names {
		rows[i] = config.Row{
			Section: "admins", Key: name, Takes: "a password in clear, or hashed by CouchDB",
			Says: "The password of this admin; without an admin the service answers its own machine only.",
		}
	}
	return rows
}

// name accepts a text of 1 to 100 bytes. hint tells people more about it, in the error too.
func name(field func(*Config) *string, hint string) config.Kind[Config] {
	takes := "1 to 100 characters" + hint
	return config.Kind[Config]{
		Takes: takes,
		Get:   func(c *Config) string { return *field(c) },
		Set: func(c *Config, v string) error {
			if v == "" || len(v) > 100 {
				return errors.New("must be " + takes)
			}
			*field(c) = v
			return nil
		},
	}
}

// couchdbURL accepts the address of a CouchDB.
func couchdbURL(field func(*Config) *string) config.Kind[Config] {
	return config.Kind[Config]{
		Takes: front.TakesURL, Secret: true, // a wrong one may hold a password
		Get: func(c *Config) string { return *field(c) },
		Set: func(c *Config, v string) error {
			if _, err := front.ParseURL(v); err != nil {
				return err
			}
			*field(c) = v
			return nil
		},
	}
}

var mode = config.OneOf(func(c *Config) *string { return &c.Maintenance }, MaintenanceModes...)

// maintenance is the mode. It also sets what the node knows of it: whether to hand its jobs back.
var maintenance = config.Kind[Config]{
	Takes: mode.Takes,
	Get:   mode.Get,
	Set: func(c *Config, v string) error {
		if err := mode.Set(c, v); err != nil {
			return err
		}
		c.Node.Maintenance = v == "true"
		return nil
	},
}

var levels = config.OneOf(func(c *Config) *string { return &c.LogLevel }, "debug", "info", "warning", "error")

// level accepts the log's levels. A level that only CouchDB has stands for the nearest one.
var level = config.Kind[Config]{
	Takes: levels.Takes + "; notice is info, warn is warning; " +
		"err, crit, critical, alert, emerg and emergency are error",
	Get: levels.Get,
	Set: func(c *Config, v string) error {
		switch v {
		case "notice":
			v = "info"
		case "warn":
			v = "warning"
		case "err", "crit", "critical", "alert", "emerg", "emergency":
			v = "error"
		}
		return levels.Set(c, v)
	},
}

// role accepts true or false, in upper or lower case, for one of a node's roles.
func role(r node.Roles) config.Kind[Config] {
	return config.Kind[Config]{
		Takes: "true or false",
		Get:   func(c *Config) string { return strconv.FormatBool(c.Roles.Has(r)) },
		Set: func(c *Config, v string) error {
			if v = strings.ToLower(v); v != "true" && v != "false" {
				return errors.New("must be true or false")
			}
			c.Roles = c.Roles.With(r, v == "true")
			return nil
		},
	}
}
