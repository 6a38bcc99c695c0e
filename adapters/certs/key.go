package certs

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"strings"

	"couchrelay/adapters/durable"
	"couchrelay/core/spec"
)

// readPair reads a certificate and its key, which may be encrypted.
func readPair(certFile, keyFile string, password spec.Secret) (tls.Certificate, error) {
	cert, err := durable.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := durable.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if key, err = decrypted(key, password); err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", keyFile, err)
	}
	return tls.X509KeyPair(cert, key)
}

var (
	errNoPassword    = errors.New("the key is encrypted, and password is not set")
	errWrongPassword = errors.New("the key cannot be decrypted: the password is another one, or the file is damaged")
	errCipher        = errors.New("the key is encrypted in a way that is not known here; " +
		"openssl pkcs8 -topk8 -v2 aes-256-cbc writes one that is")
)

// decrypted returns a PEM file with its key in clear. It leaves a file without an encrypted key as it is.
func decrypted(file []byte, password spec.Secret) ([]byte, error) {
	for rest := file; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return file, nil
		}
		legacy := strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
		if !legacy && block.Type != "ENCRYPTED PRIVATE KEY" {
			continue
		}
		if !password.IsSet() {
			return nil, errNoPassword
		}
		clear := pem.Block{Type: "PRIVATE KEY"}
		var err error
		if legacy {
			clear.Type = block.Type
			clear.Bytes, err = decryptLegacy(block, password.Reveal())
		} else {
			clear.Bytes, err = decryptPKCS8(block.Bytes, password.Reveal())
		}
		return pem.EncodeToMemory(&clear), err
	}
}

func decryptLegacy(block *pem.Block, password string) ([]byte, error) {
	//lint:ignore SA1019 CouchDB's files have such keys; who can alter them has no need of a padding oracle
	der, err := x509.DecryptPEMBlock(block, []byte(password))
	if err != nil {
		return nil, errWrongPassword
	}
	return der, nil
}

// These follow RFC 8018, appendices A.2 and A.4, and RFC 5208.
type (
	encryptedKey struct {
		Algorithm struct {
			ID     asn1.ObjectIdentifier
			Params struct{ KDF, Cipher pkix.AlgorithmIdentifier }
		}
		Data []byte
	}
	kdfParams struct {
		Salt       []byte
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

// maxIterations bounds the work that a file can ask for; a million is what cautious people choose.
const maxIterations = 10_000_000

// keySizes are the bytes of keys of AES in CBC mode, by the names of the ciphers.
var keySizes = map[string]int{
	"2.16.840.1.101.3.4.1.2": 16, "2.16.840.1.101.3.4.1.22": 24, "2.16.840.1.101.3.4.1.42": 32,
}

// hashes are those of the functions HMAC; without a name it is SHA-1.
var hashes = map[string]func() hash.Hash{
	"": sha1.New, "1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New,
	"1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New,
}

// decryptPKCS8 decrypts a key with PBES2: PBKDF2 and AES, as openssl writes them.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var key encryptedKey
	var kdf kdfParams
	var iv []byte
	if _, err := asn1.Unmarshal(der, &key); err != nil {
		return nil, errCipher
	}
	p := key.Algorithm.Params
	if _, err := asn1.Unmarshal(p.KDF.Parameters.FullBytes, &kdf); err != nil {
		return nil, errCipher
	}
	if _, err := asn1.Unmarshal(p.Cipher.Parameters.FullBytes, &iv); err != nil {
		return nil, errCipher
	}
	size, prf := keySizes[p.Cipher.Algorithm.String()], hashes[kdf.PRF.Algorithm.String()]
	if size == 0 || prf == nil || len(iv) != aes.BlockSize || kdf.Iterations < 1 || kdf.Iterations > maxIterations {
		return nil, errCipher
	}
	derived, err := pbkdf2.Key(prf, password, kdf.Salt, kdf.Iterations, size)
	if err != nil {
		return nil, errCipher
	}
	block, err := aes.NewCipher(derived)
	if err != nil || len(key.Data) == 0 || len(key.Data)%aes.BlockSize != 0 {
		return nil, errCipher
	}
	clear := make([]byte, len(key.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(clear, key.Data)
	padding := int(clear[len(clear)-1])
	if padding == 0 || padding > aes.BlockSize {
		return nil, errWrongPassword
	}
	return clear[:len(clear)-padding], nil
}
