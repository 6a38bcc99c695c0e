package config

import "couchrelay/core/config"

// Scrapes says where metrics can be read without a login ([prometheus]).
type Scrapes struct {
	Enable      bool
	BindAddress string
	Port        int
}

var scrapeKeys = config.Section[Config]{
	{
		Name: "additional_port",
		Says: "Whether /_node/NAME/_prometheus can also be read on a port of its own, without a login.",
		Kind: config.Boolean(func(c *Config) *bool { return &c.Beside.Scrapes.Enable }),
	},
	{
		Name: "bind_address", Says: "The address of that port.",
		Kind: address(func(c *Config) *string { return &c.Beside.Scrapes.BindAddress }),
	},
	{
		Name: "port", Says: "The TCP port.",
		Kind: config.Integer(func(c *Config) *int { return &c.Beside.Scrapes.Port }, 0, 65535),
	},
}
