package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// ID names a key without telling anything of it.
type ID [4]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Key is a key that seals and opens. Printed it shows its id alone.
type Key struct {
	id     ID
	secret *[KeySize]byte // a pointer, which fmt does not follow
}

// NewKey draws a key at random.
func NewKey() Key {
	var secret [KeySize]byte
	_, _ = rand.Read(secret[:]) // it cannot fail
	return keyOf(secret)
}

func keyOf(secret [KeySize]byte) Key {
	k := Key{secret: &secret}
	copy(k.id[:], k.derive(nil, "couchrelay key id", len(k.id)))
	return k
}

// errKey says what a key is, and nothing of a text that is none.
var errKey = errors.New("must be a key of 32 bytes, as 64 hexadecimal digits or in base64 (44 characters)")

// parseKey reads a key as a key file has it.
func parseKey(text string) (Key, error) {
	raw, err := hex.DecodeString(text)
	if err != nil {
		raw, err = base64.StdEncoding.DecodeString(text)
	}
	switch {
	case err != nil:
		return Key{}, errKey
	case len(raw) != KeySize:
		return Key{}, fmt.Errorf("%w; this one has %d bytes", errKey, len(raw))
	}
	return keyOf([KeySize]byte(raw)), nil
}

// ID is the key's id, the same in every process.
func (k Key) ID() ID { return k.id }

func (k Key) String() string { return "key " + k.id.String() }

// GoString hides the key from %#v.
func (k Key) GoString() string { return k.String() }

// text is the key as a key file has it.
func (k Key) text() string { return hex.EncodeToString(k.secret[:]) }

func (k Key) derive(salt []byte, info string, size int) []byte {
	b, err := hkdf.Key(sha256.New, k.secret[:], salt, info, size)
	if err != nil {
		panic("seal: " + err.Error()) // sizes that are right never fail
	}
	return b
}

// subkey is the cipher of a process that drew this salt.
func (k Key) subkey(salt [saltSize]byte) cipher.AEAD {
	block, err := aes.NewCipher(k.derive(salt[:], "couchrelay seal 1", KeySize))
	if err == nil {
		var aead cipher.AEAD
		if aead, err = cipher.NewGCM(block); err == nil {
			return aead
		}
	}
	panic("seal: " + err.Error()) // keys of the right size never fail
}
