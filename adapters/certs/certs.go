// Package certs reads the certificates and keys with which connections are secured: those to endpoints, and those of
// clients.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"couchrelay/adapters/durable"
	"couchrelay/core/config"
)

// Keys are the settings that errors name: of the file of trusted certificates, and of the client's own with its key.
type Keys struct{ CA, Pair string }

// Client returns how a client connects with TLS. problem is told of certificates that do not verify while they are not
// verified, if the settings ask for that; it may be nil.
func Client(keys Keys, c config.TLS, problem func(server string, err error)) (*tls.Config, error) {
	t := &tls.Config{InsecureSkipVerify: !c.Verify, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := durable.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keys.CA, err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s %s holds no PEM certificate", keys.CA, c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := readPair(c.CertFile, c.KeyFile, c.Password)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keys.Pair, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	switch {
	case c.Verify:
		t.VerifyConnection = func(s tls.ConnectionState) error { return checkDepth(s.VerifiedChains, c.Depth) }
	case c.WarnInvalid && problem != nil:
		t.VerifyConnection = func(s tls.ConnectionState) error {
			if err := verify(s, t.RootCAs, c.Depth); err != nil {
				problem(s.ServerName, err)
			}
			return nil
		}
	}
	return t, nil
}

var errDepth = errors.New("between the certificate that is shown and a trusted one lie more than " +
	"ssl_certificate_max_depth allows")

// checkDepth returns an error unless one of the chains, each from the certificate that is shown to a trusted one, is
// short enough.
func checkDepth(chains [][]*x509.Certificate, depth int) error {
	for _, chain := range chains {
		if len(chain)-2 <= depth {
			return nil
		}
	}
	return fmt.Errorf("%w (%d)", errDepth, depth)
}

// verify does what a connection that is verified has done already. The state has no name of a server that is called by
// its IP address.
func verify(s tls.ConnectionState, roots *x509.CertPool, depth int) error {
	o := x509.VerifyOptions{Roots: roots, DNSName: s.ServerName, Intermediates: x509.NewCertPool()}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	chains, err := s.PeerCertificates[0].Verify(o)
	if err != nil {
		return err
	}
	return checkDepth(chains, depth)
}
