package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// write writes a certificate and its key into files; each may have no name.
func write(t *testing.T, c tls.Certificate, certFile, keyFile string) {
	t.Helper()
	var chain []byte
	for _, der := range c.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for name, text := range map[string][]byte{certFile: chain, keyFile: key} {
		if name != "" {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// greet connects a client to a listener of a server, and returns the certificate that the client was shown. The error
// is the client's, or that of its first read.
func greet(t *testing.T, s *Server, client *tls.Config) (
	shown *x509.Certificate, state tls.ConnectionState, err error,
) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go func() {
		c, err := tls.NewListener(plain, s.Config()).Accept()
		if err == nil {
			_, _ = io.WriteString(c, "x")
			_ = c.Close()
		}
	}()
	c, err := tls.Dial("tcp", plain.Addr().String(), client)
	if err != nil {
		return nil, state, err
	}
	defer c.Close()
	if n, err := c.Read(make([]byte, 1)); n == 0 {
		return nil, state, err
	}
	return c.ConnectionState().PeerCertificates[0], c.ConnectionState(), nil
}

// TestServerReadsAgain: a certificate that changes is shown by the next connection but a second, never with another
// one's key. While files cannot be read the last ones stay, and the log says so once.
func TestServerReadsAgain(t *testing.T) {
	dir := t.TempDir()
	l := Listening{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	_, first := chain(t, 0)
	_, second := chain(t, 0)
	write(t, first, l.CertFile, l.KeyFile)
	var log strings.Builder
	wall := clock.NewMock()
	s, err := NewServer(l, wall, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	s.Failed = func() { failed++ }
	client := &tls.Config{InsecureSkipVerify: true}
	shows := func(when string, want tls.Certificate) {
		t.Helper()
		cert, state, err := greet(t, s, client)
		if err != nil || string(cert.Raw) != string(want.Certificate[0]) || state.NegotiatedProtocol == "h2" {
			t.Errorf("%s: another certificate, %v", when, err)
		}
	}
	shows("at first", first)
	write(t, second, l.CertFile, "")
	shows("at once", first)
	for range 3 {
		wall.Add(time.Second)
		shows("with the key of the first", first)
	}
	if n := strings.Count(log.String(), "msg=certificate "); n != 1 {
		t.Errorf("%d warnings: %s", n, &log)
	}
	write(t, second, "", l.KeyFile)
	wall.Add(time.Second)
	shows("when both are there", second)
	if err := os.Remove(l.CertFile); err != nil {
		t.Fatal(err)
	}
	wall.Add(time.Second)
	shows("without the file", second)
	if err := syscall.Mkfifo(l.CertFile, 0o600); err != nil {
		t.Fatal(err)
	}
	wall.Add(time.Second)
	shows("with a pipe", second)
	for event, n := range map[string]int{"certificate_read": 1, "certificate": 3} {
		if strings.Count(log.String(), "msg="+event+" ") != n {
			t.Errorf("not %d of %s: %s", n, event, &log)
		}
	}
	shown, err := x509.ParseCertificate(second.Certificate[0])
	if expires := s.Expires(); err != nil || failed != 3 || !expires.Equal(shown.NotAfter) {
		t.Errorf("it told of %d failures, and expires at %s; want 3 and %s, %v", failed, expires, shown.NotAfter, err)
	}
	if err := s.Configure(Listening{CertFile: "none", KeyFile: "none"}); err == nil {
		t.Error("took files that are not there")
	}
	shows("after wrong settings", second)
}

// TestFilesThatAreNotNeeded: a listener that does not verify clients does not read its files again and again for
// authorities that are not there.
func TestFilesThatAreNotNeeded(t *testing.T) {
	l := Listening{CertFile: "testdata/cert.pem", KeyFile: "testdata/clear.pem", CAFile: "testdata/none"}
	wall := clock.NewMock()
	s, err := NewServer(l, wall, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first := s.now()
	if wall.Add(lookEach); s.now() != first {
		t.Error("files that have not changed are read again")
	}
}

// TestClientCertificates: who may connect, with which certificate.
func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	l := Listening{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	_, own := chain(t, 0)
	write(t, own, l.CertFile, l.KeyFile)
	roots, direct := chain(t, 0)
	_, stranger := chain(t, 0)
	deepRoots, deep := chain(t, 2)
	for name, c := range map[string]struct {
		verify, require bool
		ca              string
		show            []tls.Certificate
		in              bool
	}{
		"not asked":               {false, false, roots, []tls.Certificate{stranger}, true},
		"optional, none":          {true, false, roots, nil, true},
		"optional, right":         {true, false, roots, []tls.Certificate{direct}, true},
		"optional, a stranger's":  {true, false, roots, []tls.Certificate{stranger}, false},
		"required, none":          {true, true, roots, nil, false},
		"required, right":         {true, true, roots, []tls.Certificate{direct}, true},
		"required, a stranger's":  {true, true, roots, []tls.Certificate{stranger}, false},
		"required, from too deep": {true, true, deepRoots, []tls.Certificate{deep}, false},
	} {
		l.VerifyClients, l.RequireClients, l.CAFile, l.Depth = c.verify, c.require, c.ca, 1
		s, err := NewServer(l, clock.NewMock(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(c.show) == 0 {
				return &tls.Certificate{}, nil
			}
			return &c.show[0], nil
		}
		_, _, err = greet(t, s, &tls.Config{InsecureSkipVerify: true, GetClientCertificate: show})
		if (err == nil) != c.in {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestVersions: no connection has a version that is not configured.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	l := Listening{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	_, own := chain(t, 0)
	write(t, own, l.CertFile, l.KeyFile)
	for _, c := range []struct {
		least, most, client uint16
		in                  bool
	}{
		{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS11, false},
		{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS12, true},
		{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS13, true},
		{tls.VersionTLS13, tls.VersionTLS13, tls.VersionTLS12, false},
		{tls.VersionTLS12, tls.VersionTLS12, tls.VersionTLS13, false},
	} {
		l.MinVersion, l.MaxVersion = c.least, c.most
		s, err := NewServer(l, clock.NewMock(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = greet(t, s, &tls.Config{InsecureSkipVerify: true, MinVersion: c.client, MaxVersion: c.client})
		if (err == nil) != c.in {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestMistakesOfListeners: errors name the key, and no password.
func TestMistakesOfListeners(t *testing.T) {
	good := Listening{CertFile: "testdata/cert.pem", KeyFile: "testdata/clear.pem"}
	if _, err := good.Read(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(l *Listening){
		"[ssl] cert_file, key_file: open testdata/none": func(l *Listening) { l.CertFile = "testdata/none" },
		"[ssl] cert_file, key_file: testdata/pkcs8.pem: the key cannot be decrypted": func(l *Listening) {
			l.KeyFile, l.Password = "testdata/pkcs8.pem", spec.Hide("planted")
		},
		"[ssl] cacert_file: open testdata/none": func(l *Listening) {
			l.VerifyClients, l.CAFile = true, "testdata/none"
		},
		"[ssl] cacert_file testdata/clear.pem holds no PEM certificate": func(l *Listening) {
			l.VerifyClients, l.CAFile = true, "testdata/clear.pem"
		},
	} {
		l := good
		change(&l)
		if _, err := l.Read(); err == nil || !strings.HasPrefix(err.Error(), want) ||
			strings.Contains(err.Error(), "planted") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
