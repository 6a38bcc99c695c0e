package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/reach"
	"couchrelay/core/session"
	"couchrelay/core/spec"
)

// Client says how requests to endpoints are sent.
type Client struct {
	RequestTimeout time.Duration // request_timeout: of a request as a whole; 0 for ever
	IdleTimeout    time.Duration // connection_close_interval
	WarnPlain      bool          // valid_endpoint_protocols_log
	// Auth is basic authentication unless told, where CouchDB tries a session first.
	Auth session.Settings
	// Allow and Deny are endpoint_allow and endpoint_deny.
	Allow, Deny reach.Rules
	Detours     reach.Detours // connect_to
}

var defaultClient = Client{
	IdleTimeout: 90 * time.Second,
	Auth: session.Settings{
		Plugins: []session.Plugin{session.Basic}, Refresh: 550 * time.Second, MinUpdate: 5 * time.Second,
	},
}

// TLS says how connections to endpoints are secured.
type TLS struct {
	Verify   bool        // verify_ssl_certificates; true, where CouchDB has false
	CAFile   string      // ssl_trusted_certificates_file; empty means the system's
	CertFile string      // cert_file; set if and only if KeyFile is
	KeyFile  string      // key_file
	Password spec.Secret // password of KeyFile
	Depth    int         // ssl_certificate_max_depth: certificates between an endpoint's and a trusted one at most
	// WarnInvalid has certificates that do not verify reported while Verify is false (verify_ssl_certificates_log).
	WarnInvalid bool
	ServerName  string        // that a server's certificate must have; empty for the host of the URL
	Reload      time.Duration // cacert_reload_interval_hours: after which the files are read again
}

var defaultTLS = TLS{Verify: true, Depth: 3, Reload: 24 * time.Hour}

// clientKeys are about requests to endpoints.
var clientKeys = Section[Settings]{
	{"endpoint_allow", "Where jobs may connect; without it everywhere but where endpoint_deny says.",
		rulesOf(func(s *Settings) *reach.Rules { return &s.Client.Allow })},
	{"endpoint_deny", "Where no job may connect, whatever endpoint_allow says.",
		rulesOf(func(s *Settings) *reach.Rules { return &s.Client.Deny })},
	{"connect_to", "Servers in whose place others are connected to, under the same name.",
		Kind[Settings]{
			Takes: reach.DetourForm(),
			Get:   func(s *Settings) string { return s.Client.Detours.String() },
			Set: func(s *Settings, v string) error {
				detours, err := reach.ParseDetours(v)
				if err == nil {
					s.Client.Detours = detours
				}
				return err
			},
		}},
	{"auth_plugins", "Which ways of authentication are tried at endpoints with a user, in this order.", authPlugins},
	{"session_refresh_interval_sec", "When the cookie of a session is renewed to which the server gave no Max-Age.",
		seconds(func(s *Settings) *time.Duration { return &s.Client.Auth.Refresh }, 1)},
	{"session_min_update_interval", "How old a cookie must be for a refusal (401 or 403) to renew it at once.",
		seconds(func(s *Settings) *time.Duration { return &s.Client.Auth.MinUpdate }, 1)},
	{"request_timeout", "How long a request to an endpoint may take as a whole, but for the changes feed.",
		requestTimeout},
	{"connection_close_interval", "How long a connection to an endpoint stays open while it is not used.",
		milliseconds(func(s *Settings) *time.Duration { return &s.Client.IdleTimeout }, 1)},
	{"missing_doc_retry_msec", "How long a source has for finding a revision that it announced.",
		milliseconds(func(s *Settings) *time.Duration { return &s.Node.MissingPause }, 1)},
	{"max_document_id_length", "The longest document id that is copied; here all are, as far as the target takes them.",
		only("infinity", "ids of any length are copied, and those that the target refuses are listed and left out; "+
			"to leave documents out by their ids, give the replication a selector or a filter")},
	{"ibrowse_options", "Options of CouchDB's HTTP client; here both families of addresses are tried.",
		Kind[Settings]{
			Takes: "[], [{prefer_ipv6, false}] or [{prefer_ipv6, true}]",
			Get:   func(*Settings) string { return "[]" },
			Set: func(_ *Settings, v string) error {
				switch strings.ReplaceAll(v, " ", "") {
				case "[]", "[{prefer_ipv6,false}]", "[{prefer_ipv6,true}]":
					return nil
				}
				return must("[], [{prefer_ipv6, false}] or [{prefer_ipv6, true}]")
			},
		}},
	{"valid_ibrowse_options", "The options in ibrowse_options that a replication document may set.",
		only("prefer_ipv6", "there is no other option")},
	{"valid_endpoint_protocols_log", "Whether each run with an endpoint that is not https is logged (plain_http).",
		Boolean(func(s *Settings) *bool { return &s.Client.WarnPlain })},
}

const pemFile = "the path of a PEM file"

// tlsKeys are about connections to endpoints with https.
var tlsKeys = Section[Settings]{
	{"verify_ssl_certificates", "Whether the TLS certificates of endpoints are verified (CouchDB's default is false).",
		Boolean(func(s *Settings) *bool { return &s.TLS.Verify })},
	{"verify_ssl_certificates_log", "Whether certificates that do not verify are logged while they are not verified.",
		Boolean(func(s *Settings) *bool { return &s.TLS.WarnInvalid })},
	{"ssl_trusted_certificates_file", "The certificate authorities to trust instead of the system's.",
		Text(func(s *Settings) *string { return &s.TLS.CAFile }, pemFile)},
	{"ssl_certificate_max_depth", "How many certificates may lie between that of an endpoint and a trusted one.",
		Integer(func(s *Settings) *int { return &s.TLS.Depth }, 0, 100)},
	{"cert_file", "The client certificate to show to endpoints; needs key_file.",
		Text(func(s *Settings) *string { return &s.TLS.CertFile }, pemFile)},
	{"key_file", "The private key of cert_file.",
		Text(func(s *Settings) *string { return &s.TLS.KeyFile }, pemFile)},
	{"password", "The password of key_file, if that is encrypted.",
		Password(func(s *Settings) *spec.Secret { return &s.TLS.Password })},
	{"cacert_reload_interval_hours", "How often the files of certificates and keys are read again.",
		Duration(func(s *Settings) *time.Duration { return &s.TLS.Reload }, time.Hour, 1)},
}

// only is the kind of a key of CouchDB that has one value here, since that is what happens anyway. why is the reason,
// and what to do instead.
func only(value, why string) Kind[Settings] {
	return Kind[Settings]{
		Takes: value,
		Get:   func(*Settings) string { return value },
		Set: func(_ *Settings, v string) error {
			if v != value {
				return fmt.Errorf("must be %s: %s", value, why)
			}
			return nil
		},
	}
}

// authPlugins are names of ways of authentication.
var authPlugins = func() Kind[Settings] {
	const takes = "one or both of " + string(session.Cookie) + " (sessions) and " + string(session.Basic) +
		" (basic authentication), with a comma between them"
	return Kind[Settings]{
		Takes: takes,
		Get: func(s *Settings) string {
			var names []string
			for _, p := range s.Client.Auth.Plugins {
				names = append(names, string(p))
			}
			return strings.Join(names, ",")
		},
		Set: func(s *Settings, v string) error {
			var plugins []session.Plugin
			for name := range strings.SplitSeq(v, ",") {
				p := session.Plugin(strings.TrimSpace(name))
				if p != session.Cookie && p != session.Basic || slices.Contains(plugins, p) {
					return must(takes)
				}
				plugins = append(plugins, p)
			}
			s.Client.Auth.Plugins = plugins
			return nil
		},
	}
}()

// rulesOf takes patterns for servers.
func rulesOf(field func(*Settings) *reach.Rules) Kind[Settings] {
	return Kind[Settings]{
		Takes: reach.Form(),
		Get:   func(s *Settings) string { return field(s).String() },
		Set: func(s *Settings, v string) error {
			rules, err := reach.ParseRules(v)
			if err == nil && rules == nil {
				err = must(reach.Form())
			}
			if err == nil {
				*field(s) = rules
			}
			return err
		},
	}
}

const forever = "infinity"

// requestTimeout is a time, or 0 for ever.
var requestTimeout = func() Kind[Settings] {
	kind := milliseconds(func(s *Settings) *time.Duration { return &s.Client.RequestTimeout }, 100)
	set, get, takes := kind.Set, kind.Get, forever+", or "+kind.Takes
	return Kind[Settings]{
		Takes: takes,
		Get: func(s *Settings) string {
			if s.Client.RequestTimeout == 0 {
				return forever
			}
			return get(s)
		},
		Set: func(s *Settings, v string) error {
			if v == forever {
				s.Client.RequestTimeout = 0
			} else if set(s, v) != nil {
				return must(takes)
			}
			return nil
		},
	}
}()
