package seal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"couchrelay/adapters/durable"
)

// A key file has a key a line, the first of which seals and all of which open. Lines that begin with # are comments.
const (
	maxFile = 64 << 10 // bytes
	maxKeys = 100
)

const fileHeader = `# Written by couchrelay: the keys of its store, one a line. The first seals, all open.
# Without them the credentials in the store are lost. Keep a copy apart from copies of the store.
`

// ReadFile reads a key file. Its errors name the file and the line, and show nothing of a key.
func ReadFile(path string) ([]Key, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return nil, fmt.Errorf("key file %s: must be a file", path)
	case mode.Perm()&0o027 != 0: // platforms that mount secrets give them to a group
		return nil, fmt.Errorf("key file %s: others can read or write it (mode %04o): chmod 600 it; 0640 is accepted "+
			"too", path, mode.Perm())
	case info.Size() > maxFile:
		return nil, fmt.Errorf("key file %s: has %d bytes, and may have %d", path, info.Size(), maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	keys, err := parseFile(string(text))
	if err != nil {
		return nil, fmt.Errorf("key file %s%w", path, err)
	}
	return keys, nil
}

// parseFile reads the lines of a key file. Its errors begin where the name of the file ends.
func parseFile(text string) (keys []Key, err error) {
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		k, err := parseKey(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf(", line %d: %w", i+1, err)
		case slices.ContainsFunc(keys, func(other Key) bool { return other.id == k.id }):
			return nil, fmt.Errorf(", line %d: key %s is there twice", i+1, k.id)
		}
		keys = append(keys, k)
	}
	switch {
	case len(keys) == 0:
		return nil, fmt.Errorf(": has no key; a line %w", errKey)
	case len(keys) > maxKeys:
		return nil, fmt.Errorf(": has %d keys, and may have %d", len(keys), maxKeys)
	}
	return keys, nil
}

// WriteFile puts keys into a key file that only its owner may read, at once as a whole. When it returns the file is
// sure to stay: a key must not be used before.
func WriteFile(path string, keys []Key) error {
	text := fileHeader
	for _, k := range keys {
		text += k.text() + "\n"
	}
	err := durable.Replace(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		return fmt.Errorf("key file %s: %w", path, err)
	}
	return nil
}

// isAbsent reports whether a key file is not there, as opposed to one that cannot be read.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
