package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/config"
	"couchrelay/core/spec"
)

// tlsPrefix begins the names of sections [tls NAME], which endpoints of documents name by "tls".
const tlsPrefix = "tls "

// tlsKeys are the keys of these sections.
var tlsKeys = config.Section[config.TLS]{
	{
		Name: "ca_file", Says: "The certificate authorities to trust instead of the system's.",
		Kind: config.Text(func(t *config.TLS) *string { return &t.CAFile }, "the path of a PEM file"),
	},
	{
		Name: "cert_file", Says: "The client certificate to show; needs key_file.",
		Kind: config.Text(func(t *config.TLS) *string { return &t.CertFile }, "the path of a PEM file"),
	},
	{
		Name: "key_file", Says: "The private key of cert_file.",
		Kind: config.Text(func(t *config.TLS) *string { return &t.KeyFile }, "the path of a PEM file"),
	},
	{
		Name: "password", Says: "The password of key_file, if that is encrypted.",
		Kind: config.Password(func(t *config.TLS) *spec.Secret { return &t.Password }),
	},
	{
		Name: "server_name", Says: "The name that the server's certificate must have, and that it is asked for.",
		Kind: config.Text(func(t *config.TLS) *string { return &t.ServerName }, "the name of a host"),
	},
	{
		Name: "verify", Says: "Whether the server's certificate is verified.",
		Kind: config.Boolean(func(t *config.TLS) *bool { return &t.Verify }),
	},
	{
		Name: "max_depth", Says: "How many certificates may lie between that of the server and a trusted one.",
		Kind: config.Integer(func(t *config.TLS) *int { return &t.Depth }, 0, 100),
	},
}

// isSection reports whether there is a section of a name.
func isSection(name string) bool {
	profile, is := strings.CutPrefix(name, tlsPrefix)
	return is && spec.IsTLSName(profile) || IsFollow(name) || slices.Contains(Sections(), name)
}

// setProfile sets a key of [tls NAME].
func (c *Config) setProfile(section, name, value string) error {
	profile := strings.TrimPrefix(section, tlsPrefix)
	t, has := c.Profiles[profile]
	if !has {
		t = config.Default().TLS
	}
	if err := tlsKeys.Set(&t, section, name, value); err != nil {
		return err
	}
	c.Profiles[profile] = t
	return nil
}

// profiles describes the sections [tls NAME], or any if there is none, without values.
func (c *Config) profiles() []config.Row {
	return namedRows(tlsKeys, tlsPrefix, "NAME", c.Profiles, config.Default().TLS)
}

// namedRows describes the sections of one kind, each of which has a name of its own; if there is none, one with an
// example of a name, without values.
func namedRows[T any](
	keys config.Section[T], prefix, example string, all map[string]T, byDefault T,
) (rows []config.Row) {
	if len(all) == 0 {
		rows = keys.Rows(prefix+example, &byDefault, &byDefault)
		for i := range rows {
			rows[i].Value = ""
		}
		return rows
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := all[name]
		rows = append(rows, keys.Rows(prefix+name, &one, &byDefault)...)
	}
	return rows
}

// checkProfiles returns an error for a profile with a certificate and no key, or the reverse, and fills in the
// settings that profiles share with [replicator].
func (c *Config) checkProfiles() error {
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		t := c.Profiles[name]
		if (t.CertFile == "") != (t.KeyFile == "") {
			return fmt.Errorf("[%s%s] cert_file and key_file are needed both or none", tlsPrefix, name)
		}
		t.Reload, t.WarnInvalid = c.TLS.Reload, c.TLS.WarnInvalid
		c.Profiles[name] = t
	}
	return nil
}
