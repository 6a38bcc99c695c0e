package config

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"

	"couchrelay/adapters/certs"
	"couchrelay/core/config"
	"couchrelay/core/spec"
)

// SSL are the settings of the port with TLS, which is beside the plain one or in its place ([ssl]).
type SSL struct {
	Enable      bool
	BindAddress string // [ssl] bind_address; empty for the address of [chttpd]
	Port        int
	certs.Listening
}

func defaultSSL() SSL {
	return SSL{Port: 6984, Listening: certs.Listening{Depth: 1, MinVersion: tls.VersionTLS12,
		MaxVersion: tls.VersionTLS13}}
}

// SecureAddress is where the service is reached with TLS.
func (c *Config) SecureAddress() string {
	if c.SSL.BindAddress != "" {
		return c.SSL.BindAddress
	}
	return c.BindAddress
}

const pemFile = "the path of a PEM file"

var sslKeys = config.Section[Config]{
	{
		Name: "enable", Says: "Whether the service is reached with TLS, too; needs cert_file and key_file.",
		Kind: config.Boolean(func(c *Config) *bool { return &c.SSL.Enable }),
	},
	{
		Name: "bind_address", Says: "The address of the port with TLS; that of [chttpd] unless this says otherwise.",
		Kind: address(func(c *Config) *string { return &c.SSL.BindAddress }),
	},
	{
		Name: "port", Says: "The TCP port with TLS.",
		Kind: config.Integer(func(c *Config) *int { return &c.SSL.Port }, 0, 65535),
	},
	{
		Name: "cert_file", Says: "The certificate of the service, with those behind it; read again when it changes.",
		Kind: config.Text(func(c *Config) *string { return &c.SSL.CertFile }, pemFile),
	},
	{
		Name: "key_file", Says: "The private key of cert_file.",
		Kind: config.Text(func(c *Config) *string { return &c.SSL.KeyFile }, pemFile),
	},
	{
		Name: "password", Says: "The password of key_file, if that is encrypted.",
		Kind: config.Password(func(c *Config) *spec.Secret { return &c.SSL.Password }),
	},
	{
		Name: "cacert_file", Says: "The certificate authorities of clients, for verify_ssl_certificates.",
		Kind: config.Text(func(c *Config) *string { return &c.SSL.CAFile }, pemFile),
	},
	{
		Name: "verify_ssl_certificates",
		Says: "Whether clients are asked for certificates, and those that show a wrong one are turned away.",
		Kind: config.Boolean(func(c *Config) *bool { return &c.SSL.VerifyClients }),
	},
	{
		Name: "fail_if_no_peer_cert", Says: "Whether clients without a certificate are turned away, too.",
		Kind: config.Boolean(func(c *Config) *bool { return &c.SSL.RequireClients }),
	},
	{
		Name: "ssl_certificate_max_depth",
		Says: "How many certificates may lie between that of a client and a trusted one.",
		Kind: config.Integer(func(c *Config) *int { return &c.SSL.Depth }, 0, 100),
	},
	{Name: "tls_versions", Says: "The versions of TLS.", Kind: tlsVersions},
	{
		Name: "ciphers", Says: "The cipher suites of TLS 1.2; without it those that Go considers safe.",
		Kind: terms(func(c *Config) *[]uint16 { return &c.SSL.Ciphers }, ciphers, "of OpenSSL's names of safe cipher "+
			"suites of TLS 1.2; those of TLS 1.3 cannot be chosen"),
	},
	{
		Name: "ecc_curves", Says: "The curves of key exchange; without it those that Go considers safe.",
		Kind: terms(func(c *Config) *[]tls.CurveID { return &c.SSL.Curves }, curves, ""),
	},
	{Name: "secure_renegotiate", Says: "Connections are never renegotiated.", Kind: renegotiation},
}

// versions are those of TLS by Erlang's names.
var versions = map[string]uint16{"tlsv1.2": tls.VersionTLS12, "tlsv1.3": tls.VersionTLS13}

// ciphers are the safe suites of TLS 1.2 by OpenSSL's names.
var ciphers = map[string]uint16{
	"ECDHE-ECDSA-AES128-GCM-SHA256": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-ECDSA-AES256-GCM-SHA384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-ECDSA-CHACHA20-POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-RSA-AES128-GCM-SHA256":   tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-RSA-AES256-GCM-SHA384":   tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-RSA-CHACHA20-POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-ECDSA-AES128-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
	"ECDHE-ECDSA-AES256-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,
	"ECDHE-RSA-AES128-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
	"ECDHE-RSA-AES256-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
}

var curves = map[string]tls.CurveID{
	"x25519": tls.X25519, "secp256r1": tls.CurveP256, "secp384r1": tls.CurveP384, "secp521r1": tls.CurveP521,
	"x25519mlkem768": tls.X25519MLKEM768,
}

// termsOf reads a list in Erlang's words, ['tlsv1.2', 'tlsv1.3'] or ["A", "B"], or without its marks.
func termsOf(v string) []string {
	v = strings.TrimSpace(v)
	if list, is := strings.CutPrefix(v, "["); is {
		v = strings.TrimSuffix(list, "]")
	}
	var list []string
	for term := range strings.SplitSeq(v, ",") {
		list = append(list, strings.Trim(term, ` '"`))
	}
	return list
}

// terms takes some of the names of known values, in Erlang's words, too. What only Erlang knows is refused.
func terms[V comparable](field func(*Config) *[]V, known map[string]V, takes string) config.Kind[Config] {
	all := strings.Join(sortedNames(known), ", ")
	must := refusal("must be some " + takes + ": " + all)
	if takes == "" {
		takes = "of " + all
		must = refusal("must be some " + takes)
	}
	return config.Kind[Config]{
		Takes: "some " + takes,
		Get: func(c *Config) string {
			var list []string
			for _, v := range *field(c) {
				list = append(list, nameOf(known, v))
			}
			return strings.Join(list, ", ")
		},
		Set: func(c *Config, v string) error {
			var list []V
			for _, name := range termsOf(v) {
				value, is := known[name]
				if !is {
					return must
				}
				list = append(list, value)
			}
			*field(c) = list
			return nil
		},
	}
}

func sortedNames[V any](known map[string]V) []string {
	var list []string
	for name := range known {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func nameOf[V comparable](known map[string]V, value V) string {
	for name, v := range known {
		if v == value {
			return name
		}
	}
	return ""
}

var tlsVersions = config.Kind[Config]{
	Takes: "tlsv1.2, tlsv1.3 or both, with a comma between",
	Get: func(c *Config) string {
		least, most := c.SSL.MinVersion, c.SSL.MaxVersion
		if most == least {
			return nameOf(versions, least)
		}
		return "tlsv1.2, tlsv1.3"
	},
	Set: func(c *Config, v string) error {
		var list []uint16
		for _, name := range termsOf(v) {
			version, is := versions[name]
			if !is {
				return refusal("must be tlsv1.2, tlsv1.3 or both, with a comma between; earlier ones are not safe")
			}
			list = append(list, version)
		}
		c.SSL.MinVersion, c.SSL.MaxVersion = slices.Min(list), slices.Max(list)
		return nil
	},
}

var renegotiation = config.Kind[Config]{
	Takes: "true",
	Get:   func(*Config) string { return "" },
	Set: func(_ *Config, v string) error {
		switch v {
		case "true":
			return nil
		case "false":
			return refusal("must be true: connections are never renegotiated")
		}
		return errors.New("must be true")
	},
}

// checkSSL returns an error for settings that are not whole.
func (c *Config) checkSSL() error {
	s := &c.SSL
	switch {
	case !s.Enable:
		return nil
	case s.CertFile == "" || s.KeyFile == "":
		return errors.New("[ssl] enable = true: needs cert_file and key_file")
	case s.VerifyClients && s.CAFile == "":
		return errors.New("[ssl] verify_ssl_certificates = true: needs cacert_file, with the authorities of clients")
	case s.RequireClients && !s.VerifyClients:
		return errors.New("[ssl] fail_if_no_peer_cert = true: needs verify_ssl_certificates = true")
	}
	return nil
}
