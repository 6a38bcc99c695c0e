package main

import (
	"sync/atomic"

	"couchrelay/adapters/certs"
	"couchrelay/adapters/config"
	"couchrelay/core/reach"
)

// outside is what a service needs to connect to endpoints.
type outside struct {
	trust *certs.Source
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
	g.guarded.Guarded = true
	return g
}

// of returns the policy for the jobs of a user. Without admins the service answers its own machine only, whose users
// may do everything. Otherwise the jobs of those who are not among them stay away from the machine: it trusts itself.
func (g *gates) of(user string) *reach.Policy {
	if _, admin := g.admins[user]; admin || len(g.admins) == 0 {
		return &g.open
	}
	return &g.guarded
}
