package main

import (
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"couchrelay/adapters/certs"
	"couchrelay/adapters/config"
	"couchrelay/adapters/descriptors"
	"couchrelay/core/reach"
)

// outside is what a service needs to connect to endpoints.
type outside struct {
	trust *certs.Source
	files *descriptors.Budget
	gates atomic.Pointer[gates] // of the configuration in force
}

// gates say where jobs may connect, by the user who has made them. They do not change.
type gates struct {
	admins        map[string]string
	open, guarded reach.Policy
}

// newGates returns the gates of a configuration.
func newGates(c config.Config) *gates {
	p := reach.Policy{Allow: c.Client.Allow, Deny: c.Client.Deny, Detours: c.Client.Detours}
	g := &gates{admins: c.Admins, open: p, guarded: p}
	g.guarded.Guarded, g.guarded.Own = c.Guarded(), ownServer(c.Replicator.Parse.Local)
	return g
}

// ownServer returns the server that the operator has named for sources and targets without a URL.
func ownServer(address string) reach.Server {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return reach.Server{}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return reach.Server{}
	}
	return reach.Server{Host: strings.ToLower(u.Hostname()), Port: uint16(n)}
}

// of returns the policy for the jobs of a user. Without logins the service answers its own machine only, whose users
// may do everything. Otherwise the jobs of all but admins stay away from the machine: it trusts itself. Admins are
// those of [admins], and users who were admins as they wrote the job, by a token or the CouchDB that knows them.
func (g *gates) of(user string, wasAdmin bool) *reach.Policy {
	if _, admin := g.admins[user]; admin || wasAdmin {
		return &g.open
	}
	return &g.guarded
}
