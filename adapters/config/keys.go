package config

import (
	"errors"
	"strconv"
	"strings"

	"couchrelay/core/config"
	"couchrelay/core/node"
)

// sections are the sections that only production has, beside [admins].
var sections = map[string]config.Section[Config]{
	"chttpd": {
		{Name: "bind_address", Kind: config.Text(func(c *Config) *string { return &c.BindAddress })},
		{Name: "port", Kind: config.Integer(func(c *Config) *int { return &c.Port }, 0, 65535)},
	},
	"couchdb": {
		{Name: "uuid", Kind: name(func(c *Config) *string { return &c.UUID }, ", 32 hexadecimal digits as a rule")},
		{Name: "maintenance_mode", Kind: maintenance},
	},
	"node_types": {
		{Name: "api_frontend", Kind: role(node.APIFrontend)},
		{Name: "replication", Kind: role(node.Replication)},
	},
	"log": {
		{Name: "level", Kind: config.OneOf(func(c *Config) *string { return &c.LogLevel }, "debug", "info", "warning", "error")},
	},
	"store": {
		{Name: "key_prefix", Kind: name(func(c *Config) *string { return &c.KeyPrefix }, "")},
	},
}

// name takes text of limited length; hint is for the error.
func name(field func(*Config) *string, hint string) config.Kind[Config] {
	return config.Kind[Config]{
		Get: func(c *Config) string { return *field(c) },
		Set: func(c *Config, v string) error {
			if v == "" || len(v) > 100 {
				return errors.New("must be 1 to 100 characters" + hint)
			}
			*field(c) = v
			return nil
		},
	}
}

var mode = config.OneOf(func(c *Config) *string { return &c.Maintenance }, MaintenanceModes...)

var maintenance = config.Kind[Config]{
	Get: mode.Get,
	Set: func(c *Config, v string) error {
		if err := mode.Set(c, v); err != nil {
			return err
		}
		c.Node.Maintenance = v == "true"
		return nil
	},
}

// role is true or false, in any case, for one of a node's roles.
func role(r node.Roles) config.Kind[Config] {
	return config.Kind[Config]{
		Get: func(c *Config) string { return strconv.FormatBool(c.Roles.Has(r)) },
		Set: func(c *Config, v string) error {
			if v = strings.ToLower(v); v != "true" && v != "false" {
				return errors.New("must be true or false")
			}
			c.Roles = c.Roles.With(r, v == "true")
			return nil
		},
	}
}
