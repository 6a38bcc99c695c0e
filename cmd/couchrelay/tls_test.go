package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
	coreconfig "couchrelay/core/config"
	"couchrelay/core/spec"
)

// newPair makes a certificate that signs itself, for 127.0.0.1 and for clients, with its key.
func newPair(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{{127, 0, 0, 1}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for name, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// TestTLS: a service has both ports. Over TLS cookies and locations say so, the audit log names a client's
// certificate, which is no login, and settings of certificates change by requests, but not to wrong ones.
func TestTLS(t *testing.T) {
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Admins["adm"] = "secret"
	c.SSL.Enable, c.SSL.Port = true, 0
	c.SSL.CertFile, c.SSL.KeyFile = newPair(t, "service")
	clientCert, clientKey := newPair(t, "client")
	c.SSL.CAFile, c.SSL.VerifyClients, c.SSL.RequireClients = clientCert, true, true
	r.start(c)
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(c.SSL.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	pool.AppendCertsFromPEM(pem)
	show, err := tls.LoadX509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	client := func(shown ...tls.Certificate) *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: shown},
			ForceAttemptHTTP2: true}}
	}
	known := client(show)
	ask := func(c *http.Client, method, path, body string, login bool) (*http.Response, error) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, r.secureURL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		if login {
			q.SetBasicAuth("adm", "secret")
		}
		answer, err := c.Do(q)
		if err == nil {
			_ = answer.Body.Close()
		}
		return answer, err
	}
	want := func(status int, method, path, body string, login bool) *http.Response {
		t.Helper()
		answer, err := ask(known, method, path, body, login)
		if err != nil || answer.StatusCode != status || answer.ProtoMajor != 1 {
			t.Fatalf("%s %s: %v, %v", method, path, answer, err)
		}
		return answer
	}
	if _, err := ask(client(), "GET", "", "", false); err == nil {
		t.Error("a client without a certificate is answered")
	}
	want(401, "GET", "_all_dbs", "", false)
	cookie := want(200, "POST", "_session", `{"name":"adm","password":"secret"}`, false).Header.Get("Set-Cookie")
	if !strings.Contains(cookie, "; Secure") || !strings.Contains(cookie, "; HttpOnly") {
		t.Errorf("cookie %s", cookie)
	}
	made := want(201, "PUT", "_replicator/doc", r.body(`,"continuous":true`), true)
	if at := made.Header.Get("Location"); !strings.HasPrefix(at, r.secureURL) {
		t.Errorf("Location %s", at)
	}
	if !strings.Contains(r.log.String(), `status=201 from=127.0.0.1 certificate="CN=client" request=`) {
		t.Errorf("%s", r.log)
	}
	const keys = "_node/_local/_config/ssl"
	want(400, "PUT", keys+"/cert_file", `"/none"`, true)
	otherCert, otherKey := newPair(t, "other")
	want(400, "PUT", keys+"/cert_file", fmt.Sprintf("%q", otherCert), true)
	both := fmt.Sprintf(`{"cert_file":%q,"key_file":%q}`, otherCert, otherKey)
	if restart := want(200, "PUT", keys, both, true).Header.Get("X-Couchrelay-Restart"); restart != "" {
		t.Error("certificates wait for a restart")
	}
	known.CloseIdleConnections()
	if _, err := ask(known, "GET", "", "", false); err == nil {
		t.Error("the service shows its old certificate")
	}
	r.url = strings.Replace(r.secureURL, "https", "http", 1)
	if status, _ := r.call("GET", "", ""); status != 400 {
		t.Errorf("a plain request to the port with TLS: %d", status)
	}
}

// TestNewProfile: a reload that adds a section [tls NAME] and what uses it puts both in force, as does one that
// corrects the section.
func TestNewProfile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := httptest.NewTLSServer(r.source.server.Handler)
	defer server.Close()
	defer r.stop() // or a long poll would keep the server open
	r.fill(3)
	if err := request("PUT", r.source.url+"jobs", nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := request("PUT", r.source.url+"jobs/bad", object{"source": 1}, nil); err != nil {
		t.Fatal(err)
	}
	right := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(right, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong, _ := newPair(t, "other")
	reload := func(file string) {
		t.Helper()
		c := r.svc.started.Clone()
		c.Profiles["new"] = coreconfig.TLS{Verify: true, CAFile: file}
		c.Follow["couch"] = config.Follow{URL: spec.Hide(server.URL), Databases: []string{"jobs"}, TLS: "new"}
		r.svc.read = func() (layers, error) { return layers{files: c}, nil }
		if err := r.svc.ReloadConfig(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reload(wrong)
	r.await("the failure", func() bool { return strings.Contains(r.log.String(), "error=tls_failed") })
	reload(right)
	r.await("the document", func() bool { return r.source.read(t, "jobs/bad")["_replication_state"] == "failed" })
	body := fmt.Sprintf(`{"source":{"url":"%s/db","tls":"new"},"target":%q,"create_target":true}`, server.URL,
		r.target.url+"copy")
	r.want(200, "POST", "_replicate", body)
	r.same()
	if log := r.log.String(); strings.Count(log, "msg=reloaded local=[] restart=[]") != 2 {
		t.Errorf("%s", log)
	}
}
