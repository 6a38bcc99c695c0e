package spec

import (
	"bytes"
	"errors"
	"fmt"

	"couchrelay/core/json"
)

// stored is a replication in the job store: the public part, which has ***** in place of secrets, and beside
// it the secrets in the order of Replication.secrets.
type stored struct {
	Replication *Replication `json:"replication"`
	Secrets     [][]byte     `json:"secrets,omitempty"`
}

// Encode returns the whole replication, with its secrets, for the job store.
func Encode(r *Replication) ([]byte, error) {
	s := stored{Replication: r}
	for _, secret := range r.secrets() {
		s.Secrets = append(s.Secrets, []byte(secret.Reveal()))
	}
	raw, err := json.EncodeVerbatim(s) // the user's JSON stays as it is
	if err != nil {
		return nil, fmt.Errorf("encode replication: %w", err)
	}
	return raw, nil
}

// Decode reads a replication that Encode wrote.
func Decode(raw []byte) (*Replication, error) {
	var s stored
	if err := json.Decode(raw, &s); err != nil {
		return nil, fmt.Errorf("decode replication: %w", err)
	}
	if s.Replication == nil {
		return nil, errors.New("decode replication: there is none")
	}
	places := s.Replication.secrets()
	if len(places) != len(s.Secrets) {
		return nil, fmt.Errorf("decode replication: %d secrets for %d places", len(s.Secrets), len(places))
	}
	for i, place := range places {
		*place = Hide(string(s.Secrets[i]))
	}
	return s.Replication, nil
}

// secrets returns the secrets that are set and are no references, always in the same order.
func (r *Replication) secrets() (set []*Secret) {
	for _, s := range r.places() {
		if s.text != nil {
			set = append(set, s)
		}
	}
	return set
}

// References are the names of the secrets that the replication needs and that are kept elsewhere.
func (r *Replication) References() (names []string) {
	for _, s := range r.places() {
		if s.name != "" {
			names = append(names, s.name)
		}
	}
	return names
}

// places are all secrets, set or not.
func (r *Replication) places() (all []*Secret) {
	for _, e := range []*Endpoint{&r.Source, &r.Target} {
		all = append(all, &e.Credentials.User, &e.Credentials.Password)
		for i := range e.Headers {
			all = append(all, &e.Headers[i].Value)
		}
		if e.Proxy != nil {
			all = append(all, &e.Proxy.Credentials.User, &e.Proxy.Credentials.Password)
		}
	}
	return append(all, &r.Source.Bearer, &r.Target.Bearer)
}

// Equal reports whether two replications are the same work: their endpoints, with credentials, and all
// options are equal. Their document, owner and user do not count, but for an admin's rights, nor whether they are
// paused.
func Equal(a, b *Replication) bool {
	x, errX := a.withoutOrigin()
	y, errY := b.withoutOrigin()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func (r *Replication) withoutOrigin() ([]byte, error) {
	c := *r
	c.DocID, c.Owner, c.User, c.Paused = "", "", UserCtx{Admin: c.User.Admin}, false
	return Encode(&c)
}
