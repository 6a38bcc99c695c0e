package seal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func ringOf(keys ...Key) *Ring {
	r := &Ring{}
	r.Set("the.key", keys, true)
	return r
}

func TestRoundTrip(t *testing.T) {
	k := NewKey()
	row := []byte("row")
	for _, value := range []string{
		"", "v", magic, plainMark, sealedMark + strings.Repeat("x", 100), strings.Repeat("v", 99_000),
	} {
		stored := ringOf(k).seal(row, []byte(value))
		if len(stored) != len(value)+Overhead {
			t.Errorf("%d bytes are stored as %d, want %d more", len(value), len(stored), Overhead)
		}
		got, err := ringOf(k).open(row, stored) // another process
		if err != nil || string(got) != value || got == nil {
			t.Errorf("%.20q came back as %.20q, %v", value, got, err)
		}
	}
}

func TestPlainValuesPass(t *testing.T) {
	plain, keyed := &Ring{}, ringOf(NewKey())
	for _, value := range []string{
		"", "v", magic, magic + "\x02x", plainMark, sealedMark, sealedMark + strings.Repeat("x", 100),
	} {
		stored := plain.seal(nil, []byte(value))
		for _, r := range []*Ring{plain, keyed} {
			if got, err := r.open(nil, stored); err != nil || string(got) != value {
				t.Errorf("%q came back as %q, %v", value, got, err)
			}
		}
	}
	if stored := plain.seal(nil, []byte("v")); string(stored) != "v" {
		t.Errorf("a ring without keys stores %q", stored)
	}
}

func TestForged(t *testing.T) {
	r := ringOf(NewKey())
	row := []byte("row")
	stored := r.seal(row, []byte("secret"))
	if _, err := r.open([]byte("other"), stored); !errors.Is(err, ErrForged) {
		t.Errorf("in another row it opens with %v", err)
	}
	for i := len(magic); i < len(stored); i++ {
		forged := bytes.Clone(stored)
		forged[i] ^= 0x40
		if got, err := r.open(row, forged); err == nil {
			t.Errorf("with byte %d changed it opens as %q", i, got)
		}
	}
	for n := len(magic); n < len(stored); n++ {
		if got, err := r.open(row, stored[:n]); err == nil {
			t.Errorf("cut to %d bytes it opens as %q", n, got)
		}
	}
}

func TestUnknownKey(t *testing.T) {
	mine, other := NewKey(), NewKey()
	stored := ringOf(other).seal(nil, []byte("secret"))
	_, err := ringOf(mine).open(nil, stored)
	if !errors.Is(err, ErrUnknownKey) {
		t.Fatal(err)
	}
	for _, want := range []string{"the.key", other.ID().String(), mine.ID().String()} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if got, err := ringOf(mine, other).open(nil, stored); err != nil || string(got) != "secret" {
		t.Errorf("as the second key it opens with %q, %v", got, err)
	}
	if id, is := sealedWith(stored); !is || id != other.ID() {
		t.Errorf("sealedWith says %s, %v", id, is)
	}
}

// TestNonces checks that no two values of a ring, nor of two rings with one key, have salt and count in common, also
// across the change of a salt, which comes before the count is too high; and that the count makes a nonce of its own,
// which the tag of an empty text tells.
func TestNonces(t *testing.T) {
	k := NewKey()
	seen, salts := map[string]bool{}, map[string]bool{}
	for range 3 {
		r := ringOf(k)
		for i := range 100 {
			if i == 50 {
				r.current.count.Store(maxCount - 2)
			}
			stored := r.seal(nil, nil)
			used := string(stored[len(sealedMark) : len(stored)-tagSize])
			tag := string(stored[len(stored)-tagSize:])
			if seen[used] || seen[tag] {
				t.Fatal("a nonce comes twice")
			}
			seen[used], seen[tag], salts[used[:len(used)-countSize]] = true, true, true
			if _, err := r.open(nil, stored); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(salts) != 6 {
		t.Errorf("three rings, each of which came to the last count once, had %d salts", len(salts))
	}
}

func TestKeysDoNotPrint(t *testing.T) {
	k := NewKey()
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v %s %x", k, k, k, k, k),
		fmt.Sprintf("%v %+v %#v", []Key{k}, struct{ k Key }{k}, ringOf(k)),
	} {
		if strings.Contains(text, k.text()) || strings.Contains(text, fmt.Sprint(k.secret[:])) {
			t.Errorf("a key shows in %s", text)
		}
	}
}

func TestParseKey(t *testing.T) {
	k := NewKey()
	for _, bad := range []string{"", "00", k.text() + "00", k.text()[:62], "geheim", strings.Repeat("z", 64)} {
		if _, err := parseKey(bad); !errors.Is(err, errKey) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{k.text(), strings.ToUpper(k.text()), "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="} {
		if _, err := parseKey(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	again, err := parseKey(k.text())
	if err != nil || again.ID() != k.ID() || *again.secret != *k.secret {
		t.Error("a key does not come back as it was", err)
	}
}

func FuzzOpen(f *testing.F) {
	k := NewKey()
	row := []byte("row")
	stored := ringOf(k).seal(row, []byte("value"))
	f.Add([]byte("row"), stored)
	f.Add([]byte("row"), stored[:len(stored)-1])
	f.Add([]byte("other"), stored)
	f.Add([]byte("row"), []byte(plainMark+"v"))
	f.Add([]byte("row"), []byte(magic))
	f.Fuzz(func(t *testing.T, name, value []byte) {
		r := ringOf(k)
		got, err := r.open(name, value)
		switch {
		case err != nil && !errors.Is(err, ErrForged) && !errors.Is(err, ErrUnknownKey):
			t.Fatalf("open fails with %v", err)
		case err != nil:
		case bytes.HasPrefix(value, []byte(plainMark)):
			if !bytes.Equal(got, value[len(plainMark):]) {
				t.Fatalf("%q is read as %q", value, got)
			}
		case bytes.HasPrefix(value, []byte(magic)):
			if !bytes.Equal(value, stored) || !bytes.Equal(name, row) {
				t.Fatalf("a value that was never sealed opens as %q", got)
			}
		case !bytes.Equal(got, value):
			t.Fatalf("a plain value is read as %q", got)
		}
		if back, err := r.open(name, r.seal(name, value)); err != nil || !bytes.Equal(back, value) {
			t.Fatalf("%q comes back as %q, %v", value, back, err)
		}
	})
}
