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
	read     time.Time // when the files were read last, successfully or not
	current  *tls.Config
}

// NewSource reads the files of profiles, by their names; that without a name is for all endpoints that name none.
// problem is told of servers whose certificates do not verify, if a profile asks for that, and of files that cannot be
// read any more, in whose place their old contents stay.
func NewSource(profiles map[string]config.TLS, c clock.Clock, problem func(what string, err error)) (*Source, error) {
	s := &Source{clock: c, problem: problem, profiles: map[string]*profile{}}
	for name, settings := range profiles {
		t, err := Client(settings, problem)
		if err != nil && name != "" {
			err = fmt.Errorf("[tls %s] %w", name, err)
		}
		if err != nil {
			return nil, err
		}
		s.profiles[name] = &profile{settings, c.Now(), t}
	}
	return s, nil
}

// Config returns a profile's configuration: the same one until its files were read again.
func (s *Source) Config(name string) (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.profiles[name]
	if p == nil {
		return nil, fmt.Errorf("no [tls %s] is configured", name)
	}
	if p.settings.Reload > 0 && s.clock.Since(p.read) >= p.settings.Reload {
		p.read = s.clock.Now()
		if t, err := Client(p.settings, s.problem); err != nil {
			s.problem("the files of certificates and keys, of which the last contents stay", err)
		} else {
			p.current = t
		}
	}
	return p.current, nil
}
