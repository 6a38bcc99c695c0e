package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// TestKeys reads keys that openssl has written.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		file, password string
		want           error
	}{
		{"clear", "", nil}, {"clear", "s3cret", nil}, {"legacy", "s3cret", nil}, {"pkcs8", "s3cret", nil},
		{"pkcs8-128", "s3cret", nil}, {"pkcs8", "", errNoPassword}, {"legacy", "", errNoPassword},
		{"pkcs8", "s3cre", errWrongPassword}, {"legacy", "s3cre", errWrongPassword}, {"des3", "s3cret", errCipher},
	} {
		password := spec.Secret{}
		if c.password != "" {
			password = spec.Hide(c.password)
		}
		_, err := readPair("testdata/cert.pem", "testdata/"+c.file+".pem", password)
		// A wrong key may end in a right padding, once in 256 times; these keys and passwords stay the same.
		if !errors.Is(err, c.want) || err != nil && strings.Contains(err.Error(), "s3cre") {
			t.Errorf("%s with %q: %v, want %v", c.file, c.password, err, c.want)
		}
	}
	if _, err := readPair("testdata/none.pem", "testdata/clear.pem", spec.Secret{}); err == nil {
		t.Error("read a file that does not exist")
	}
}

func FuzzKey(f *testing.F) {
	for _, name := range []string{"pkcs8", "legacy", "clear"} {
		file, err := os.ReadFile("testdata/" + name + ".pem")
		if err != nil {
			f.Fatal(err)
		}
		block, _ := pem.Decode(file)
		f.Add(block.Bytes)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		if len(der) < 300 { // what a file asks for is bounded, but takes seconds
			_, err := decryptPKCS8(der, "x")
			if err != nil && !errors.Is(err, errCipher) && !errors.Is(err, errWrongPassword) {
				t.Fatal(err)
			}
		}
	})
}

func TestMistakes(t *testing.T) {
	for want, c := range map[string]config.TLS{
		"[replicator] ssl_trusted_certificates_file: open":              {CAFile: "testdata/none"},
		"ssl_trusted_certificates_file testdata/clear.pem holds no PEM": {CAFile: "testdata/clear.pem"},
		"[replicator] cert_file, key_file: open":                        {CertFile: "testdata/none", KeyFile: "x"},
		"testdata/pkcs8.pem: the key is encrypted, and password is not": {
			CertFile: "testdata/cert.pem", KeyFile: "testdata/pkcs8.pem"},
	} {
		if _, err := Client(keysOf(""), c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, c := range map[string]config.TLS{
		"[tls a] ca_file: open":             {CAFile: "testdata/none"},
		"[tls a] cert_file, key_file: open": {CertFile: "testdata/none", KeyFile: "x"},
	} {
		_, err := NewSource(map[string]config.TLS{"a": c}, clock.NewMock(), nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// chain makes a root certificate, n intermediate ones and a server's. Each is signed by the one before it.
func chain(t *testing.T, n int) (roots string, server tls.Certificate) {
	t.Helper()
	var parent *x509.Certificate
	var parentKey *ecdsa.PrivateKey
	for i := range n + 2 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: fmt.Sprint(i)},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: i <= n, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
		if i > n {
			c.DNSNames, c.KeyUsage = []string{"db.test"}, x509.KeyUsageDigitalSignature
		}
		if parent == nil {
			parent, parentKey = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			roots = filepath.Join(t.TempDir(), "roots.pem")
			file := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
			if err := os.WriteFile(roots, file, 0o600); err != nil {
				t.Fatal(err)
			}
		} else {
			server.Certificate = append([][]byte{der}, server.Certificate...)
		}
		server.PrivateKey = key
		if parent, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		parentKey = key
	}
	return roots, server
}

// shake connects a client to a server that calls itself db.test.
func shake(t *testing.T, client *tls.Config, server tls.Certificate, name string) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	go func() {
		theirs, err := l.Accept()
		if err != nil {
			return
		}
		defer theirs.Close()
		_ = tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{server}}).Handshake()
	}()
	client = client.Clone()
	client.ServerName = name
	return tls.Client(ours, client).Handshake()
}

// TestDepth counts the certificates between the server's and the trusted one.
func TestDepth(t *testing.T) {
	for between := range 3 {
		roots, server := chain(t, between)
		for depth := range 4 {
			c, err := Client(Keys{}, config.TLS{Verify: true, CAFile: roots, Depth: depth}, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = shake(t, c, server, "db.test")
			if short := between <= depth; (err == nil) != short || !short && !errors.Is(err, errDepth) {
				t.Errorf("%d between, depth %d: %v", between, depth, err)
			}
			if err := shake(t, c, server, "other.test"); err == nil {
				t.Error("a certificate of another name was accepted")
			}
		}
	}
}

// TestProblemsAreTold: without verification every certificate does, and one that does not verify is told of.
func TestProblemsAreTold(t *testing.T) {
	roots, server := chain(t, 1)
	for _, c := range []struct {
		settings config.TLS
		name     string
		want     bool
	}{
		{config.TLS{WarnInvalid: true, CAFile: roots, Depth: 3}, "db.test", false},
		{config.TLS{WarnInvalid: true, CAFile: roots, Depth: 0}, "db.test", true},
		{config.TLS{WarnInvalid: true, CAFile: roots, Depth: 3}, "other.test", true},
		{config.TLS{WarnInvalid: true, CAFile: "testdata/cert.pem", Depth: 3}, "db.test", true},
		{config.TLS{CAFile: "testdata/cert.pem"}, "db.test", false},
	} {
		told := ""
		client, err := Client(Keys{}, c.settings, func(server string, err error) { told = server + ": " + err.Error() })
		if err != nil {
			t.Fatal(err)
		}
		if err := shake(t, client, server, c.name); err != nil || (told != "") != c.want {
			t.Errorf("%+v: told %q, %v", c, told, err)
		}
	}
}
