package spec

import (
	"bytes"
	"errors"
	"fmt"

	"couchrelay/core/json"
)

// stored is how the job store keeps a replication: the public part as it marshals for everybody, and
// the secrets beside it, in the order of secrets.
type stored struct {
	Replication *Replication `json:"replication"`
	Secrets     [][]byte     `json:"secrets,omitempty"`
}

// Encode writes everything that is known of the replication, passwords too, for the job store.
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

// Decode reads what Encode wrote.
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

// secrets lists the secrets that are set.
func (r *Replication) secrets() (set []*Secret) {
	var all []*Secret
	for _, e := range []*Endpoint{&r.Source, &r.Target} {
		all = append(all, &e.Credentials.User, &e.Credentials.Password)
		for i := range e.Headers {
			all = append(all, &e.Headers[i].Value)
		}
		if e.Proxy != nil {
			all = append(all, &e.Proxy.Credentials.User, &e.Proxy.Credentials.Password)
		}
	}
	for _, s := range all {
		if s.IsSet() {
			set = append(set, s)
		}
	}
	return set
}

// Equal tells whether two replications do the same the same way: endpoints with their credentials and
// all options are equal. Which document they come from and whose they are is ignored.
func Equal(a, b *Replication) bool {
	x, errX := a.withoutOrigin()
	y, errY := b.withoutOrigin()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func (r *Replication) withoutOrigin() ([]byte, error) {
	c := *r
	c.DocID, c.Owner, c.User = "", "", UserCtx{}
	return Encode(&c)
}
