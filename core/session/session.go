// Package session decides how requests to an endpoint are authenticated: by the cookie of a session, which is
// asked for, renewed in time and replaced when the server does so, or by basic authentication. The rules are those
// of CouchDB's plugins couch_replicator_auth_session and couch_replicator_auth_noop. The package sends nothing: its
// caller asks before each request, and tells what was answered.
package session

import (
	"time"

	"couchrelay/core/instant"
)

// Plugin is a way of authenticating, by the name that CouchDB gives it.
type Plugin string

// The plugins.
const (
	Cookie Plugin = "couch_replicator_auth_session" // a session; needs a user and a server that has sessions
	Basic  Plugin = "couch_replicator_auth_noop"    // basic authentication, or none without a user
)

// Settings say how to authenticate.
type Settings struct {
	Plugins   []Plugin      // to try, in this order
	Refresh   time.Duration // of a cookie without Max-Age (session_refresh_interval_sec)
	MinUpdate time.Duration // age of a cookie below which a refusal does not renew it (session_min_update_interval)
}

// Action is what comes before a request.
type Action uint8

// The actions.
const (
	Send   Action = iota // the request, with what the Pass says
	Ask                  // for a session, and tell Asked; then call Next again
	Wait                 // until another caller has told Asked; then call Next again
	Refuse               // the request: no plugin is left
)

// Pass is the decision about a request.
type Pass struct {
	Action Action
	Cookie string // to send; empty for none
	Basic  bool   // send the user and password, with the request or with what asks for a session
	Epoch  uint64 // of the cookie
}

// Answer is that to the request for a session. Status is 0 if there was none.
type Answer struct {
	Status     int
	Challenged bool // it has the header WWW-Authenticate
	Worded     bool // it has a word for the error, as CouchDB's answers have
	Cookie     *SetCookie
}

// SetCookie is a cookie AuthSession that a server sets.
type SetCookie struct {
	Value  string
	MaxAge int // seconds; 0 or less if the server does not say
}

// Machine authenticates the requests of one run to one endpoint. Only its methods change it.
type Machine struct {
	settings Settings
	plugin   int  // index of the plugin that is in use or being tried
	user     bool // there is a user with a password
	asking   bool // an Ask was handed out and not answered yet
	proving  bool // the server wants basic authentication of those who ask for a session

	cookie string       // empty before the first one
	epoch  uint64       // counts cookies
	since  instant.Time // when the cookie came
	renew  instant.Time // when it is to be renewed
}

// New returns a machine for an endpoint with or without a user. Without plugins it is Basic.
func New(s Settings, user bool) *Machine {
	if len(s.Plugins) == 0 {
		s.Plugins = []Plugin{Basic}
	}
	m := &Machine{settings: s, user: user}
	if !user {
		m.skip(Cookie)
	}
	return m
}

// skip gives up a plugin that cannot do it.
func (m *Machine) skip(p Plugin) {
	for m.plugin < len(m.settings.Plugins) && m.settings.Plugins[m.plugin] == p {
		m.plugin++
	}
}

// Next decides about a request that is about to be sent.
func (m *Machine) Next(now instant.Time) Pass {
	switch {
	case m.plugin == len(m.settings.Plugins):
		return Pass{Action: Refuse}
	case m.settings.Plugins[m.plugin] == Basic:
		return Pass{Basic: m.user}
	case m.asking:
		return Pass{Action: Wait}
	case m.cookie == "" || now >= m.renew:
		m.asking = true
		return Pass{Action: Ask, Basic: m.proving}
	}
	return Pass{Cookie: m.cookie, Epoch: m.epoch}
}

// Result says what an answer to a request for a session means.
type Result uint8

// The results.
const (
	Done         Result = iota // Next knows more now
	NoCookie                   // success without a cookie
	Unauthorized               // the server knows no such user, or another password
	Forbidden                  // the server refuses the user
	Unexpected                 // another status
	Lost                       // no answer
)

// Asked notes the answer to an Ask. Of a request that failed the next one asks again.
func (m *Machine) Asked(now instant.Time, a Answer) Result {
	m.asking = false
	switch {
	case a.Status == 0:
		return Lost
	case a.Status == 200 && a.Cookie == nil:
		return NoCookie
	case a.Status == 200:
		m.take(now, *a.Cookie)
		return Done
	case a.Status == 404, a.Status == 405, a.Status == 501: // the server has no sessions
		m.skip(Cookie)
		return Done
	case a.Status == 401 && a.Challenged && !m.proving:
		m.proving = true
		return Done
	case a.Status == 401:
		return Unauthorized
	case a.Status == 403 && a.Worded:
		return Forbidden
	case a.Status == 403: // a proxy in front of the server refuses all requests for sessions
		m.skip(Cookie)
		return Done
	}
	return Unexpected
}

// take replaces the cookie.
func (m *Machine) take(now instant.Time, c SetCookie) {
	life := m.settings.Refresh
	if c.MaxAge > 0 {
		life = time.Duration(int64(min(c.MaxAge, maxAge))*9/10) * time.Second
	}
	m.cookie, m.since, m.renew = c.Value, now, now.Add(max(life, time.Second))
	m.epoch++
}

// maxAge bounds the seconds that a cookie is taken to last: a year.
const maxAge = 365 * 24 * 60 * 60

// maxAgain is how often a request is sent again. Its cookie may have been replaced while it was on its way, and the
// cookie after that may be old.
const maxAgain = 2

// Answered notes the answer to a request that was sent with a pass, and reports whether the request is to be sent again
// at once. again is how often it was sent again before; set is the cookie that the answer sets.
func (m *Machine) Answered(now instant.Time, p Pass, status int, set *SetCookie, again int) bool {
	if p.Cookie == "" {
		return false
	}
	switch {
	case status >= 200 && status < 300:
		if set != nil && set.Value != m.cookie && p.Epoch == m.epoch {
			m.take(now, *set)
		}
		return false
	case status != 401 && status != 403:
		return false
	case p.Epoch != m.epoch:
		// The cookie that was refused has been replaced meanwhile.
	case now.Sub(m.since) < m.settings.MinUpdate:
		m.renew = min(m.renew, now.Add(m.settings.MinUpdate))
		return false
	default:
		m.renew = min(m.renew, now)
	}
	return again < maxAgain
}
