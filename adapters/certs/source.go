package certs

import (
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"couchrelay/core/config"

	"github.com/benbjohnson/clock"
)

// Source has the TLS configuration of connections to endpoints, and reads its files again as they age. It is safe for
// concurrent use.
type Source struct {
	clock   clock.Clock
	problem func(what string, err error)

	mu       sync.Mutex // guards the fields below
	profiles map[string]*profile
}

// profile is a named way to connect.
type profile struct {
	settings config.TLS
	read     time.Time     // when the files were read last, successfully or not
	rest     time.Duration // from then until they are read again
	failed   string        // the error that was told last, empty once they could be read
	current  *tls.Config
}

// tryAgain is how long after files could not be read they are read again: a certificate may be there before its key.
const tryAgain = time.Minute

// NewSource returns a source that is configured. problem is told of servers whose certificates do not verify, if a
// profile asks for that, and of files that cannot be read any more, in whose place their old contents stay.
func NewSource(profiles map[string]config.TLS, c clock.Clock, problem func(what string, err error)) (*Source, error) {
	s := &Source{clock: c, problem: problem}
	return s, s.Configure(profiles)
}

// Configure replaces the profiles, by their names; that without a name is for all endpoints that name none. It reads
// the files of profiles that are new or have other settings. If it returns an error, the profiles stay as they were.
func (s *Source) Configure(profiles map[string]config.TLS) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]*profile{}
	for name, settings := range profiles {
		if old := s.profiles[name]; old != nil && old.settings == settings {
			all[name] = old
			continue
		}
		t, err := Client(keysOf(name), settings, s.problem)
		if err != nil {
			return err
		}
		all[name] = &profile{settings: settings, read: s.clock.Now(), rest: settings.Reload, current: t}
	}
	s.profiles = all
	return nil
}

// keysOf are the keys of a profile.
func keysOf(name string) Keys {
	if name == "" {
		return Keys{"[replicator] ssl_trusted_certificates_file", "[replicator] cert_file, key_file"}
	}
	section := "[tls " + name + "] "
	return Keys{section + "ca_file", section + "cert_file, key_file"}
}

// Config returns a profile's configuration: the same one until its files were read again.
func (s *Source) Config(name string) (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.profiles[name]
	if p == nil {
		return nil, fmt.Errorf("no [tls %s] is configured", name)
	}
	if p.settings.Reload > 0 && s.clock.Since(p.read) >= p.rest {
		p.readAgain(s, name)
	}
	return p.current, nil
}

// readAgain reads the files of a profile, of which the last contents stay if they cannot be read.
func (p *profile) readAgain(s *Source, name string) {
	t, err := Client(keysOf(name), p.settings, s.problem)
	p.read = s.clock.Now()
	if err == nil {
		p.current, p.rest, p.failed = t, p.settings.Reload, ""
		return
	}
	p.rest = min(tryAgain, p.settings.Reload)
	if p.failed != err.Error() {
		p.failed = err.Error()
		s.problem("the files of certificates and keys, of which the last contents stay", err)
	}
}
