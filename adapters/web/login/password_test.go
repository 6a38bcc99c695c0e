package login

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"testing"
)

// TestSecretsOfCouchDB: every form that couch_passwords.erl writes is a hash of the password. The keys are of
// OpenSSL: openssl kdf -keylen N -kdfopt digest:D -kdfopt pass:secret -kdfopt salt:salt -kdfopt iter:10 PBKDF2
func TestSecretsOfCouchDB(t *testing.T) {
	hashed := sha1.Sum([]byte("secretsalt"))
	for _, secret := range []string{
		"secret",
		"-hashed-" + hex.EncodeToString(hashed[:]) + ",salt",
		"-pbkdf2-e248fb6b13365146f8ac6307cc2228127872da6d,salt,10",
		"-pbkdf2:sha-e248fb6b13365146f8ac6307cc2228127872da6d,salt,10",
		"-pbkdf2:sha224-558b1df33582c668faba8801e3ffdc11ce79e0f33fc33a2fe49c0cc5,salt,10",
		"-pbkdf2:sha256-2fb151da5bf7a44c5470345b6ff0716d7279bbc9137299d5f1a5f62bb101ab9d,salt,10",
		"-pbkdf2:sha384-8dbf198016e452223da9fc9675b09bcf013461a03505de1f" +
			"b82873756c6cdc87b72a2bf3006dccf60db9c346be2bc170,salt,10",
		"-pbkdf2:sha512-f1ef276cc97c4e43e6940dca96b9dd3dbf03c314e92a9e0d985bf99e612b1faa" +
			"95a1404dcb10ba96d58e0bac3e32e31ba9cfc57e8e9e109f9bd896ea48bf57a6,salt,10",
	} {
		a, err := parseAdmins(map[string]string{"adm": secret})
		if err != nil {
			t.Error(err)
			continue
		}
		for password, right := range map[string]bool{"secret": true, "Secret": false, secret: secret == "secret"} {
			if a["adm"].matches(password) != right {
				t.Errorf("%s: password %q is right: %t", secret, password, !right)
			}
		}
	}
}

// TestSecretsThatCannotBeRead: what looks hashed is never taken for a password in clear, and is not shown.
func TestSecretsThatCannotBeRead(t *testing.T) {
	key := strings.Repeat("5ec4", 10) // as long as SHA-1 makes it
	for _, secret := range []string{
		"-pbkdf2:sha3_256-" + key + ",salt,10", "-pbkdf2:SHA-" + key + ",salt,10", "-pbkdf2:-" + key + ",salt,10",
		"-pbkdf2sha-" + key + ",salt,10",
		"-pbkdf2:" + key, "-pbkdf2" + key, "-pbkdf2", "-pbkdf2-", "-pbkdf2-" + key, "-pbkdf2-" + key + ",salt",
		"-pbkdf2-" + key + ",,10",
		"-pbkdf2-" + key + ",salt,0", "-pbkdf2-" + key + ",salt,10,1", "-pbkdf2-" + key + ",salt,10000001",
		"-pbkdf2-" + key + ",salt,x",
		"-pbkdf2-" + key[:38] + ",salt,10", "-pbkdf2-" + key + "00,salt,10", "-pbkdf2-,salt,10",
		"-pbkdf2-x" + key[1:] + ",salt,10",
		"-pbkdf2:sha512-" + key + ",salt,10", "-hashed-" + key, "-hashed-" + key[:2] + ",salt",
		"-hashed-" + key + ",salt,10", "-hashed-", "",
	} {
		_, err := parseAdmins(map[string]string{"adm": secret})
		if err == nil || !strings.HasPrefix(err.Error(), "[admins] adm: ") || strings.Contains(err.Error(), "5ec4") ||
			strings.Contains(err.Error(), "salt") {
			t.Errorf("%q: %v", secret, err)
		}
	}
}
