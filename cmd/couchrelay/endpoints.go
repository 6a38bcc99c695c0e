package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"couchrelay/adapters/certs"
	"couchrelay/adapters/couch"
	coreconfig "couchrelay/core/config"
	"couchrelay/core/spec"

	"github.com/alecthomas/kong"
	"github.com/benbjohnson/clock"
)

// choiceFlags say which documents of the source count.
type choiceFlags struct {
	DocIDs          []string   `name:"doc-ids" help:"${choice_doc_ids}" placeholder:"ID"`
	Selector        string     `help:"Only documents that match this Mango selector." placeholder:"JSON"`
	Filter          string     `help:"${filter}" placeholder:"NAME"`
	QueryParam      parameters `help:"${choice_query_param}" placeholder:"NAME=VALUE" mapsep:"none"`
	WinningRevsOnly bool       `help:"Leave conflicting revisions out."`
}

// parameters are those of a filter function.
type parameters map[string]string

// Decode is kong's. A name may be given once: of two values one would be lost.
func (p *parameters) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("NAME=VALUE", &text); err != nil {
		return err
	}
	name, value, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("must be NAME=VALUE, and is %q", text)
	}
	if was, twice := (*p)[name]; twice {
		return fmt.Errorf("%s has the values %q and %q, and can have one", name, was, value)
	}
	if *p == nil {
		*p = parameters{}
	}
	(*p)[name] = value
	return nil
}

// into puts the flags into a request to /_replicate.
func (c *choiceFlags) into(body map[string]any) error {
	if c.DocIDs != nil {
		ids := make([]string, len(c.DocIDs))
		for i, id := range c.DocIDs {
			ids[i] = url.QueryEscape(id) // requests have them percent-encoded
		}
		body["doc_ids"] = ids
	}
	if c.Filter != "" {
		body["filter"] = c.Filter
	}
	if c.QueryParam != nil {
		body["query_params"] = c.QueryParam
	}
	if c.WinningRevsOnly {
		body["winning_revs_only"] = true
	}
	if c.Selector == "" {
		return nil
	}
	if !json.Valid([]byte(c.Selector)) {
		return errors.New("--selector is not JSON")
	}
	body["selector"] = json.RawMessage(c.Selector)
	return nil
}

// networkFlags say how to talk to the two servers. Those that are nil are not given: a document may say so, too.
type networkFlags struct {
	Timeout     *time.Duration `help:"${network_timeout}" placeholder:"TIME"`
	Retries     *int           `help:"How often a failed request is repeated; by default 5." placeholder:"N"`
	Connections *int           `help:"How many connections there are to each server; by default 20." placeholder:"N"`
	Proxy       string         `help:"${network_proxy}" placeholder:"URL"`
	Insecure    bool           `help:"Do not verify the certificates of the servers."`
	CAFile      string         `name:"ca-file" help:"${ca_file}" type:"existingfile" placeholder:"FILE"`
}

// into puts the flags into a request to /_replicate.
func (f *networkFlags) into(body map[string]any) {
	if f.Timeout != nil {
		body["connection_timeout"] = f.Timeout.Milliseconds()
	}
	if f.Retries != nil {
		body["retries_per_request"] = *f.Retries
	}
	if f.Connections != nil {
		body["http_connections"] = *f.Connections
	}
	if f.Proxy != "" {
		body["proxy"] = f.Proxy
	}
}

// networkFields are the fields that networkFlags set, with the flags where these have other names.
var networkFields = map[string]string{
	"connection_timeout": "--timeout", "retries_per_request": "--retries", "http_connections": "--connections",
}

// parseRequest reads a request in which flags have set fields. An error of one of these names the flag. No error names
// the setting by which a service finds databases by their names: here is no configuration.
func parseRequest(raw []byte, c spec.Config, flags map[string]string) (*spec.Replication, error) {
	rep, err := spec.ParseRequest(raw, c)
	if mistake, is := errors.AsType[*spec.Error](err); is {
		mistake.Detail, _, _ = strings.Cut(mistake.Detail, "; names of databases need")
	}
	for field, flag := range flags {
		if err != nil && strings.Contains(err.Error(), "`"+field+"`") {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
	}
	return rep, err
}

// client returns a client for both servers. The caller closes it.
func (f *networkFlags) client(wall clock.Clock) (*couch.Client, error) {
	trust := coreconfig.Default().TLS
	trust.Verify, trust.CAFile = !f.Insecure, f.CAFile
	if _, err := certs.Client(certs.Keys{CA: "--ca-file"}, trust, nil); err != nil {
		return nil, misused(err)
	}
	tlsOf, err := certs.NewSource(map[string]coreconfig.TLS{"": trust}, wall, func(string, error) {})
	if err != nil {
		return nil, err
	}
	return couch.New(couch.Options{Version: version, Clock: wall, TLS: tlsOf.Config}), nil
}
