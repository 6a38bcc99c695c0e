package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"couchrelay/adapters/durable"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// Listening says how a service is reached with TLS.
type Listening struct {
	CertFile, KeyFile string // of the service
	Password          spec.Secret
	CAFile            string // of clients; needed if they are verified
	// VerifyClients has the server ask clients for certificates and verify each certificate that a client shows;
	// RequireClients has it close the connections of clients without one.
	VerifyClients, RequireClients bool
	Depth                         int // how many certificates may lie between a client's and a trusted one

	MinVersion, MaxVersion uint16        // 0 for those of crypto/tls
	Ciphers                []uint16      // of TLS 1.2; nil for those of crypto/tls
	Curves                 []tls.CurveID // likewise
}

// files are the paths of the certificate, its key and, if they are read, the CA certificates.
func (l *Listening) files() []string {
	files := []string{l.CertFile, l.KeyFile}
	if l.VerifyClients {
		files = append(files, l.CAFile)
	}
	return files
}

// Read reads the files of a listener.
func (l *Listening) Read() (*tls.Config, error) {
	pair, err := readPair(l.CertFile, l.KeyFile, l.Password)
	if err != nil {
		return nil, fmt.Errorf("[ssl] cert_file, key_file: %w", err)
	}
	t := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: l.MinVersion, MaxVersion: l.MaxVersion,
		CipherSuites: l.Ciphers, CurvePreferences: l.Curves, NextProtos: []string{"http/1.1"},
	}
	if !l.VerifyClients {
		return t, nil
	}
	pem, err := durable.ReadFile(l.CAFile)
	if err != nil {
		return nil, fmt.Errorf("[ssl] cacert_file: %w", err)
	}
	t.ClientCAs, t.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("[ssl] cacert_file %s holds no PEM certificate", l.CAFile)
	}
	if l.RequireClients {
		t.ClientAuth = tls.RequireAndVerifyClientCert
	}
	depth := l.Depth
	t.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		return checkDepth(s.VerifiedChains, depth)
	}
	return t, nil
}

// Server has the TLS configuration of a listener, and reads its files again when they change. It is safe for
// concurrent use.
type Server struct {
	// Failed is told of files that could not be read again. It may be nil, and is not changed once connections come.
	Failed func()

	clock  clock.Clock
	logger *slog.Logger

	mu       sync.Mutex // guards the fields below
	settings Listening
	current  *tls.Config
	looked   time.Time     // when it was last seen whether the files have changed
	seen     []os.FileInfo // of the files that were read; nil if they could not be
	failed   string        // the last error that was logged
}

// NewServer reads the files of a listener.
func NewServer(l Listening, c clock.Clock, logger *slog.Logger) (*Server, error) {
	s := &Server{clock: c, logger: logger}
	return s, s.Configure(l)
}

// Configure has the listener go on with other settings. If their files cannot be read everything stays as it is.
func (s *Server) Configure(l Listening) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := look(l.files()) // before they are read: what changes meanwhile is read again
	t, err := l.Read()
	if err != nil {
		return err
	}
	s.settings, s.current, s.seen, s.looked, s.failed = l, t, seen, s.clock.Now(), ""
	return nil
}

// Config is for tls.NewListener.
func (s *Server) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12, // as the others have at least
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.now(), nil },
	}
}

// Expires returns when the certificate in use expires.
func (s *Server) Expires() time.Time {
	leaf := s.now().Certificates[0].Leaf
	if leaf == nil {
		return time.Time{}
	}
	return leaf.NotAfter
}

// lookEach is how often it is seen whether the files have changed, at most.
const lookEach = time.Second

// now returns what holds for the next connection.
func (s *Server) now() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clock.Since(s.looked) < lookEach {
		return s.current
	}
	s.looked = s.clock.Now()
	seen := look(s.settings.files())
	if s.seen != nil && same(s.seen, seen) {
		return s.current
	}
	t, err := s.settings.Read()
	if err != nil {
		s.seen = nil // a certificate may be there before its key
		if s.failed != err.Error() {
			s.failed = err.Error()
			if s.Failed != nil {
				s.Failed()
			}
			s.logger.Warn("certificate", "of", "the listener, of which the last one stays in use", "error", err)
		}
		return s.current
	}
	s.current, s.seen, s.failed = t, seen, ""
	leaf := t.Certificates[0].Leaf
	s.logger.Info("certificate_read", "subject", leaf.Subject, "names", leaf.DNSNames, "expires", leaf.NotAfter)
	return s.current
}

// look returns the states of files, by which a change is noticed; nil for a file that does not exist.
func look(files []string) []os.FileInfo {
	found := make([]os.FileInfo, len(files))
	for i, name := range files {
		if info, err := os.Stat(name); err == nil {
			found[i] = info
		}
	}
	return found
}

func same(a, b []os.FileInfo) bool {
	for i := range a {
		if a[i] == nil || b[i] == nil || !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) ||
			a[i].Size() != b[i].Size() {
			return false
		}
	}
	return true
}
