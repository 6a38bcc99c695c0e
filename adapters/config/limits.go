package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/docs"
)

// Limits bound what clients can take.
type Limits struct {
	Request    int // bytes of a body that has to be in memory: all but attachments
	Document   int // bytes of a document without attachments
	Attachment int // bytes of an attachment
	Memory     int // bytes of all bodies in memory at a time
	Depth      int // of JSON

	URL         int // bytes
	Headers     int // number
	HeaderBytes int

	HeaderTime time.Duration // for the headers to come
	BodyTime   time.Duration // for the body, and a second more for each kilobyte
	WriteTime  time.Duration // for the client to take 16 KiB of an answer
	IdleTime   time.Duration // between two requests of a connection

	Connections, PerAddress int
	// Proxies have no limit of their own, and are believed when they say from where a request comes.
	Proxies []netip.Prefix
}

func defaultLimits() Limits {
	return Limits{
		Request: 64 << 20, Document: docs.MaxBody, Attachment: 1 << 30, Memory: 512 << 20, Depth: 1000,
		URL: 16_000, Headers: 200, HeaderBytes: 64 << 10,
		HeaderTime: 10 * time.Second, BodyTime: time.Minute, WriteTime: 2 * time.Minute, IdleTime: 2 * time.Minute,
		Connections: 2048, PerAddress: 1024,
	}
}

// huge is more than any machine has.
const huge = 1 << 50

// sizeKeys are the keys of [chttpd] about limits.
var sizeKeys = config.Section[Config]{
	{
		Name: "max_http_request_size",
		Says: "The largest body of a request in bytes, but for attachments, which are not read into memory.",
		Kind: config.Integer(func(c *Config) *int { return &c.Limits.Request }, 1, huge),
	},
	{
		Name: "max_uri_length", Says: "The longest URL of a request in bytes.",
		Kind: config.Integer(func(c *Config) *int { return &c.Limits.URL }, 100, 1<<20),
	},
	{
		Name: "max_connections", Says: "The most connections of clients at a time; further ones are answered 503.",
		Kind: config.Integer(func(c *Config) *int { return &c.Limits.Connections }, 1, 1_000_000),
	},
}

// documentKeys are those of [couchdb].
var documentKeys = config.Section[Config]{
	{
		Name: "max_document_size", Says: "The largest document in bytes, without attachments.",
		Kind: atMost(func(c *Config) *int { return &c.Limits.Document }, docs.MaxBody,
			"the store takes no larger ones"),
	},
	{
		Name: "max_attachment_size", Says: "The largest attachment in bytes.",
		Kind: atMost(func(c *Config) *int { return &c.Limits.Attachment }, 1<<40, "an attachment must have an end"),
	},
}

var limitKeys = config.Section[Config]{
	{
		Name: "max_body_memory",
		Says: "The most bytes of requests' bodies in memory at a time, and of documents for answers as many again; " +
			"requests beyond that are answered 503, and bodies 413 if they need more alone.",
		Kind: config.Integer(func(c *Config) *int { return &c.Limits.Memory }, 1<<20, huge),
	},
	{
		Name: "max_json_depth", Says: "How deep the JSON of a request may be nested.",
		Kind: config.Integer(func(c *Config) *int { return &c.Limits.Depth }, 10, 1000),
	},
	{
		Name: "max_headers", Says: "The most headers of a request.",
		Kind: config.Integer(func(c *Config) *int { return &c.Limits.Headers }, 10, 10_000),
	},
	{
		Name: "max_header_bytes", Says: "The most bytes of a request's first line and headers.",
		Kind: config.Integer(func(c *Config) *int { return &c.Limits.HeaderBytes }, 4096, 1<<24),
	},
	{
		Name: "max_connections_per_address",
		Says: "The most connections of one address, of IPv6 of a network of 64 bits; not for trusted_proxies.",
		Kind: config.Integer(func(c *Config) *int { return &c.Limits.PerAddress }, 1, 1_000_000),
	},
	{
		Name: "header_timeout_sec", Says: "The time that a request's headers, and a TLS handshake, may take.",
		Kind: config.Duration(func(c *Config) *time.Duration { return &c.Limits.HeaderTime }, time.Second, 1),
	},
	{
		Name: "body_timeout_sec",
		Says: "The time that a body may take to come, besides a second for each 1000 bytes.",
		Kind: config.Duration(func(c *Config) *time.Duration { return &c.Limits.BodyTime }, time.Second, 1),
	},
	{
		Name: "write_timeout_sec",
		Says: "The time that a client may take for the next 16 KiB of an answer before its connection is cut.",
		Kind: config.Duration(func(c *Config) *time.Duration { return &c.Limits.WriteTime }, time.Second, 1),
	},
	{
		Name: "idle_timeout_sec", Says: "The time that a connection may stay open without a request.",
		Kind: config.Duration(func(c *Config) *time.Duration { return &c.Limits.IdleTime }, time.Second, 1),
	},
}

// atMost takes a number up to a limit of ours, which CouchDB does not have: a file of CouchDB's may be above it.
func atMost(field func(*Config) *int, most int, why string) config.Kind[Config] {
	kind := config.Integer(field, 1, most)
	set := kind.Set
	kind.Set = func(c *Config, v string) error {
		err := set(c, v)
		if n, bad := strconv.ParseFloat(v, 64); v == "infinity" || bad == nil && n > float64(most) {
			return refusal(fmt.Sprintf("must be at most %d, since %s", most, why))
		}
		return err
	}
	return kind
}

// refusal is why a value that CouchDB takes is not taken here. In files it is skipped, and listed.
type refusal string

func (r refusal) Error() string { return string(r) }

// Is reports whether target is ErrForeign, which each refused value is.
func (r refusal) Is(target error) bool { return target == ErrForeign }
