package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
)

// account is the name by which servers know replications, in worlds where passwords change.
const account = "replicator"

// changesPasswords reports whether replications have passwords.
func (c *Config) changesPasswords() bool {
	changes := func(e Event) bool { return e.What == PasswordChanged }
	return c.Rates[PasswordChanged] > 0 || slices.ContainsFunc(c.Events, changes)
}

// sign gives a replication the present passwords of its servers.
func sign(w *World, body map[string]any) {
	if !w.Config.changesPasswords() {
		return
	}
	for _, side := range []string{"source", "target"} {
		url, _ := body[side].(string)
		host, _ := peers.Find(url)
		if s := w.net.Server(host); s != nil {
			userinfo := account + ":" + w.net.states[s].password()
			body[side] = strings.Replace(url, "://", "://"+userinfo+"@", 1)
		}
	}
}

func (s *serverState) password() string { return fmt.Sprint("secret", s.passwords) }

// locksOut is the answer to who comes with another password than the present one; nil for all others, and for all
// since the healing, when users write no documents any more.
func (n *network) locksOut(s *peers.Server, c spec.Credentials) *peer.Failure {
	if n.w.healed || !c.IsSet() || c.Password.Reveal() == n.states[s].password() {
		return nil
	}
	why := "Name or password is incorrect."
	return &peer.Failure{Kind: peer.Status, Status: 401, Error: "unauthorized", Reason: why}
}

// learnedWithin is how long users need to hear of another password.
const learnedWithin = 10 * time.Minute

// changePassword has the server know replications by another password. Users write it into their documents when they
// hear of it; who writes for another reason meanwhile, or writes a new one, has it already.
func changePassword(d *deed) {
	d.tell(d.server.Name, "", 0)
	d.w.net.states[d.server].passwords++
	u := d.w.users
	for _, j := range u.jobs {
		if !j.present || !j.names(d.server) {
			continue
		}
		d.w.Engine.After(u.passwords.Duration(0, learnedWithin), nil, "password known", func() {
			if j.present && !d.w.healed {
				u.write(j, u.passwords, false)
			}
		})
	}
}

// names reports whether a document's replication has a database of a server.
func (j *JobDoc) names(s *peers.Server) bool {
	return slices.ContainsFunc([]string{"source", "target"}, func(side string) bool {
		url, _ := j.body[side].(string)
		host, _ := peers.Find(url)
		return host == s.Name
	})
}
