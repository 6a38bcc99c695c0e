package seal

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	magic      = "\xffcrs"
	plainMark  = magic + "\x00" // before a plain value that begins with the magic
	sealedMark = magic + "\x01" // before a sealed value

	saltSize   = 16
	countSize  = 8
	headerSize = len(sealedMark) + len(ID{}) + saltSize + countSize
	tagSize    = 16

	// Overhead is the number of bytes by which a sealed value is longer than its text.
	Overhead = headerSize + tagSize

	// maxCount is the number of values of one salt. It keeps the amount of data under one subkey far below the
	// bounds of GCM.
	maxCount = 1 << 32
	// maxOpeners bounds the subkeys that are kept, one for each process that ever wrote to the store.
	maxOpeners = 4096
)

// ErrForged is the error of a value that was changed, cut short, or moved to another row, since it was sealed.
var ErrForged = errors.New("a sealed value does not open: it was changed or moved to another row")

// ErrUnknownKey is in the chain of errors of what was sealed with a key that is not in the ring.
var ErrUnknownKey = errors.New("sealed with a key that is missing")

// Ring is a set of keys: the first seals, all open. It may be used by many callers at once. The zero Ring is empty: it
// seals nothing, and opens plain values.
type Ring struct {
	mu      sync.RWMutex
	name    string // of the file, for errors
	keys    []Key
	current *session // nil: values are written plain
	openers map[opener]cipher.AEAD
}

// opener names the subkey of a process.
type opener struct {
	key  ID
	salt [saltSize]byte
}

// session is what one process seals with.
type session struct {
	opener
	aead  cipher.AEAD
	count atomic.Uint64
}

func newSession(k Key) *session {
	s := &session{opener: opener{key: k.id}}
	_, _ = rand.Read(s.salt[:]) // it cannot fail
	s.aead = k.subkey(s.salt)
	return s
}

// Set gives the ring other keys. Without seals they only open, and values are written plain. name is that of the file
// from which they are, for errors.
func (r *Ring) Set(name string, keys []Key, seals bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name, r.keys, r.openers = name, keys, map[opener]cipher.AEAD{}
	switch {
	case len(keys) == 0 || !seals:
		r.current = nil
	case r.current == nil || r.current.key != keys[0].id:
		r.current = newSession(keys[0])
	}
}

// First returns the id of the key that seals, and reports whether there is one.
func (r *Ring) First() (ID, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.current == nil {
		return ID{}, false
	}
	return r.current.key, true
}

// ids are the ids of all keys, the first one first.
func (r *Ring) ids() (list []ID) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, k := range r.keys {
		list = append(list, k.id)
	}
	return list
}

func (r *Ring) key(id ID) (Key, bool) {
	for _, k := range r.keys {
		if k.id == id {
			return k, true
		}
	}
	return Key{}, false
}

// missing is the error for a key that the ring lacks. It names the file, and what there is.
func (r *Ring) missing(id ID) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	has := make([]string, len(r.keys))
	for i, k := range r.keys {
		has[i] = k.id.String()
	}
	there := "which has no keys"
	if len(has) > 0 {
		there = "which has " + strings.Join(has, ", ")
	}
	name := r.name
	if name == "" {
		name = "no key file ([secrets] key_file)"
	}
	return fmt.Errorf("%w: key %s is not in %s, %s; put it back as a further line", ErrUnknownKey, id, name, there)
}

// session returns what seals the next value, nil if values are written plain.
func (r *Ring) session() (s *session, count uint64) {
	r.mu.RLock()
	s = r.current
	r.mu.RUnlock()
	if s == nil {
		return nil, 0
	}
	if count = s.count.Add(1); count < maxCount {
		return s, count
	}
	r.mu.Lock()
	if r.current == s {
		if k, has := r.key(s.key); has {
			r.current = newSession(k)
		}
	}
	r.mu.Unlock()
	return r.session()
}

// seal returns a value as the store keeps it in a row.
func (r *Ring) seal(row, value []byte) []byte {
	s, count := r.session()
	if s == nil {
		if bytes.HasPrefix(value, []byte(magic)) {
			return append([]byte(plainMark), value...)
		}
		return value
	}
	b := append(make([]byte, 0, len(value)+Overhead), sealedMark...)
	b = append(append(b, s.key[:]...), s.salt[:]...)
	b = binary.BigEndian.AppendUint64(b, count)
	return s.aead.Seal(b, nonce(s.aead, count), value, row)
}

func nonce(aead cipher.AEAD, count uint64) []byte {
	b := make([]byte, aead.NonceSize())
	binary.BigEndian.PutUint64(b[len(b)-countSize:], count)
	return b
}

// sealedWith returns the id of the key that a stored value was sealed with, and reports whether it was.
func sealedWith(value []byte) (id ID, is bool) {
	rest, is := bytes.CutPrefix(value, []byte(sealedMark))
	copy(id[:], rest)
	return id, is
}

// open returns what was sealed in a row, or a plain value as it is.
func (r *Ring) open(row, value []byte) ([]byte, error) {
	if !bytes.HasPrefix(value, []byte(magic)) {
		return value, nil
	}
	if plain, is := bytes.CutPrefix(value, []byte(plainMark)); is {
		return plain, nil
	}
	rest, is := bytes.CutPrefix(value, []byte(sealedMark))
	if !is || len(value) < Overhead {
		return nil, ErrForged
	}
	var o opener
	rest = rest[copy(o.key[:], rest):]
	rest = rest[copy(o.salt[:], rest):]
	aead, err := r.opener(o)
	if err != nil {
		return nil, err
	}
	count := binary.BigEndian.Uint64(rest)
	rest = rest[countSize:]
	plain, err := aead.Open(make([]byte, 0, len(rest)), nonce(aead, count), rest, row)
	if err != nil {
		return nil, ErrForged
	}
	return slices.Clip(plain), nil
}

// opener returns the cipher of a process.
func (r *Ring) opener(o opener) (cipher.AEAD, error) {
	r.mu.RLock()
	aead := r.openers[o]
	k, has := r.key(o.key)
	r.mu.RUnlock()
	switch {
	case aead != nil:
		return aead, nil
	case !has:
		return nil, r.missing(o.key)
	}
	aead = k.subkey(o.salt)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.openers) >= maxOpeners {
		clear(r.openers)
	}
	r.openers[o] = aead
	return aead, nil
}
