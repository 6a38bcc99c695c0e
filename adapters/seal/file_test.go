package seal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeyFileBounds: a key file with maxKeys keys is read. One with more keys, or with more than maxFile bytes, is
// refused, and the error says which bound it exceeds.
func TestKeyFileBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.key")
	var keys []Key
	for range maxKeys {
		keys = append(keys, NewKey())
	}
	if err := WriteFile(path, keys); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(path); err != nil || len(got) != maxKeys {
		t.Errorf("%d keys, %v", len(got), err)
	}
	if err := WriteFile(path, append(keys, NewKey())); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "keys, and may have") {
		t.Errorf("too many keys: %v", err)
	}
	large := append(bytes.Repeat([]byte("#"), maxFile-2*KeySize), "\n"+keys[0].text()...)
	if err := os.WriteFile(path, large, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "bytes, and may have") {
		t.Errorf("too many bytes: %v", err)
	}
}
