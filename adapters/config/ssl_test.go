package config

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestErlangTerms: lists are read in the words of CouchDB's files, and without them.
func TestErlangTerms(t *testing.T) {
	for text, want := range map[string][2]uint16{
		"tlsv1.2": {tls.VersionTLS12, tls.VersionTLS12}, "['tlsv1.3']": {tls.VersionTLS13, tls.VersionTLS13},
		"['tlsv1.2', 'tlsv1.3']": {tls.VersionTLS12, tls.VersionTLS13},
		"tlsv1.3, tlsv1.2":       {tls.VersionTLS12, tls.VersionTLS13},
	} {
		c, err := load(t, "[ssl]\ntls_versions = "+text)
		if err != nil || c.SSL.MinVersion != want[0] || c.SSL.MaxVersion != want[1] || c.Skipped != nil {
			t.Errorf("%s: %+v, %v", text, c.SSL, err)
		}
	}
	c, err := load(t, `[ssl]
ciphers = ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"]
ecc_curves = [secp384r1, x25519]
secure_renegotiate = true`)
	if err != nil || !slices.Equal(c.SSL.Curves, []tls.CurveID{tls.CurveP384, tls.X25519}) ||
		!slices.Equal(c.SSL.Ciphers, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}) || c.Skipped != nil {
		t.Errorf("%+v, %v", c.SSL, err)
	}
	if got := c.Values()["ssl"]["ecc_curves"]; got != "secp384r1, x25519" {
		t.Errorf("ecc_curves = %s", got)
	}
}

// TestCiphersAreSafe: every suite that can be chosen is one that Go considers safe, and of TLS 1.2.
func TestCiphersAreSafe(t *testing.T) {
	safe := map[uint16]bool{}
	for _, suite := range tls.CipherSuites() {
		safe[suite.ID] = slices.Contains(suite.SupportedVersions, tls.VersionTLS12)
	}
	for name, id := range ciphers {
		if !safe[id] {
			t.Errorf("%s is not safe", name)
		}
	}
}

// TestUnsafeTLS: what cannot be had is skipped in files, with its value, and refused with what there is instead in
// requests. The defaults stay.
func TestUnsafeTLS(t *testing.T) {
	c, err := load(t, `[ssl]
tls_versions = [tlsv1, 'tlsv1.1', 'tlsv1.2']
ciphers = ["ECDHE-ECDSA-AES128-SHA256"]
verify_fun = {Module, VerifyFun}
secure_renegotiate = false`)
	want := []string{"[ssl] tls_versions = [tlsv1, 'tlsv1.1', 'tlsv1.2']",
		`[ssl] ciphers = ["ECDHE-ECDSA-AES128-SHA256"]`, "[ssl] verify_fun", "[ssl] secure_renegotiate = false"}
	if err != nil || !slices.Equal(c.Skipped, want) || c.SSL.MinVersion != tls.VersionTLS12 || c.SSL.Ciphers != nil {
		t.Errorf("%q, %v", c.Skipped, err)
	}
	for key, c := range map[string]struct{ value, says string }{
		"tls_versions":   {"tlsv1.1", "must be tlsv1.2, tlsv1.3 or both"},
		"ciphers":        {"RC4-SHA", "of TLS 1.3 cannot be chosen: ECDHE-ECDSA-AES128-GCM-SHA256,"},
		"ecc_curves":     {"secp160k1", "must be some of secp256r1, "},
		"verify_fun":     {"x", "cacert_file and ssl_certificate_max_depth say"},
		"signature_algs": {"x", "cannot be chosen"},
		"cert_file":      {"", "must not be empty"},
		"enable":         {"on", "must be true or false"},
	} {
		all := Default()
		if err := all.Set("ssl", key, c.value); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", key, err)
		}
	}
	all := Default()
	if err := all.Set("ssl", "verify_fun", "x"); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
}

// TestWholeTLS: settings that need others say so.
func TestWholeTLS(t *testing.T) {
	const pair = "[ssl]\nenable = true\ncert_file = c\nkey_file = k\n"
	for text, want := range map[string]string{
		"[ssl]\nenable = true\ncert_file = c":   "[ssl] enable = true: needs cert_file and key_file",
		pair + "verify_ssl_certificates = true": "[ssl] verify_ssl_certificates = true: needs cacert_file",
		pair + "fail_if_no_peer_cert = true":    "[ssl] fail_if_no_peer_cert = true: needs verify_ssl_certificates",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	c, err := load(t, pair+"password = planted\nbind_address = 10.0.0.1\n[chttpd]\nbind_address = 127.0.0.1")
	if err != nil || c.SecureAddress() != "10.0.0.1" || c.BindAddress != "127.0.0.1" ||
		c.Values()["ssl"]["password"] != Masked {
		t.Errorf("%+v, %v", c.SSL, err)
	}
	if c.SSL.BindAddress = ""; c.SecureAddress() != "127.0.0.1" {
		t.Error(c.SecureAddress())
	}
}

// TestPortsApart: two ports that cannot both be listened on are found before the start that would fail.
func TestPortsApart(t *testing.T) {
	const scrapes = "[prometheus]\nadditional_port = true\nport = 5980\n"
	const any = scrapes + "bind_address = 10.0.0.1\n[chttpd]\nbind_address = any"
	const tls = "[ssl]\nenable = true\ncert_file = c\nkey_file = k\n"
	for text, want := range map[string]string{
		scrapes:                                "[prometheus] port = 5980: is that of [chttpd]",
		any:                                    "[prometheus] port = 5980: is that of [chttpd]",
		tls + "port = 5980":                    "[ssl] port = 5980: is that of [chttpd]",
		tls + "port = 5980\nbind_address = ::": "[ssl] port = 5980: is that of [chttpd]",
		tls + "[prometheus]\nadditional_port = true\nport = 6984": "[prometheus] port = 6984: is that of [ssl]",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		scrapes + "bind_address = 10.0.0.1", "[prometheus]\nport = 5980", "[ssl]\nport = 5980",
		scrapes + "port = 0\n[chttpd]\nport = 0",
	} {
		if _, err := load(t, text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
