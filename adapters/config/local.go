package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"couchrelay/adapters/durable"
)

// Name names a key of the configuration.
type Name struct{ Section, Key string }

func (n Name) String() string { return "[" + n.Section + "] " + n.Key }

// Local are settings that requests have made. They win over those of files, which requests never change, and lie in
// a file of their own.
type Local map[Name]string

// Bounds of what a local file holds.
const (
	maxKey   = 256     // bytes of a section or key
	maxValue = 8192    // bytes of a value
	maxLocal = 1 << 20 // bytes of the file
)

const localHeader = "; Written by couchrelay: settings that were made by requests to /_node/NAME/_config.\n" +
	"; They win over the files of --config. To change one here, send SIGHUP afterwards.\n"

// ReadLocal reads a local file. It returns nil for one that does not exist.
func ReadLocal(path string) (Local, error) {
	raw, err := durable.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("local configuration: %w", err)
	}
	l, err := parseLocal(string(raw))
	if err != nil {
		return nil, fmt.Errorf("local configuration %s: %w", path, err)
	}
	return l, nil
}

func parseLocal(text string) (Local, error) {
	sections, err := parseINI(text)
	l := Local{}
	for _, s := range sections {
		for _, k := range s.keys {
			l[Name{s.name, k.key}] = k.value
		}
	}
	return l, err
}

// Names are the names of the settings, in order.
func (l Local) Names() []Name {
	return slices.SortedFunc(maps.Keys(l), func(a, b Name) int {
		return cmp.Or(cmp.Compare(a.Section, b.Section), cmp.Compare(a.Key, b.Key))
	})
}

// edit returns the text of a file with its settings replaced by these. Comments stay, and so do the lines of settings
// that are the same. It fails where parseINI does.
func (l Local) edit(text string) (string, error) {
	sections, err := parseINI(text)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	holds, ends := map[Name]int{}, map[string]int{} // the last line of each key, which wins, and of each section
	for _, s := range sections {
		ends[s.name] = s.line
		for _, k := range s.keys {
			holds[Name{s.name, k.key}] = k.line
			ends[s.name] = slices.Max(append(k.more, k.line))
		}
	}
	gone := map[int]bool{}
	for _, s := range sections {
		for _, k := range s.keys {
			n := Name{s.name, k.key}
			value, is := l[n]
			gone[k.line] = !is || k.line != holds[n]
			if value != k.value {
				lines[k.line-1] = n.Key + " = " + value
			}
			for _, line := range k.more {
				gone[line] = gone[k.line] || value != k.value
			}
		}
	}
	added := map[int][]string{} // behind each line
	for _, n := range l.Names() {
		if holds[n] > 0 {
			continue
		}
		if ends[n.Section] == 0 {
			lines = append(lines, "", "["+n.Section+"]")
			ends[n.Section] = len(lines)
		}
		added[ends[n.Section]] = append(added[ends[n.Section]], n.Key+" = "+l[n])
	}
	var kept []string
	for i, line := range lines {
		if !gone[i+1] {
			kept = append(kept, line)
		}
		kept = append(kept, added[i+1]...)
	}
	return strings.Join(kept, "\n") + "\n", nil
}

// Storable returns an error for a setting that a file cannot hold as it is.
func Storable(n Name, value string) error {
	switch {
	case len(n.Section) > maxKey || len(n.Key) > maxKey:
		return fmt.Errorf("%.50q: the name of a section or key must be 1 to %d bytes", n, maxKey)
	case len(value) > maxValue:
		return fmt.Errorf("%s: must be at most %d bytes, has %d", n, maxValue, len(value))
	}
	for _, part := range []string{n.Section, n.Key, value} {
		if !utf8.ValidString(part) || strings.ContainsFunc(part, unicode.IsControl) {
			return fmt.Errorf("[%s] %.*q: must be UTF-8 without line breaks and other control characters, key and "+
				"value both", n.Section, maxKey, n.Key)
		}
	}
	text, _ := Local{n: value}.edit("")
	read, err := parseLocal(text)
	if err != nil || !maps.Equal(read, Local{n: value}) {
		return fmt.Errorf("%s: must be as a line \"key = value\" of a file can hold it: no space at either end, "+
			"no ; behind a space or at the start, no = in the key", n)
	}
	return nil
}

// Draft is a local file that is written and synced, but not in place. The zero Draft changes nothing.
type Draft struct{ temporary, path string }

// Draft writes the settings beside the file at path, or what that links to, so that putting them in place needs no more
// space. Comments of the file stay. The caller has to Place or Discard it.
func (l Local) Draft(path string) (d Draft, err error) {
	if path, err = durable.Target(path); err != nil {
		return d, fmt.Errorf("local configuration: %w", err)
	}
	now, err := durable.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		now, err = []byte(localHeader), nil
	}
	if err != nil {
		return d, fmt.Errorf("local configuration: %w", err)
	}
	text, err := l.edit(string(now))
	if err != nil {
		return d, fmt.Errorf("local configuration %s: %w", path, err)
	}
	if len(text) > maxLocal {
		return d, fmt.Errorf("local configuration %s: would have %d bytes, and may have %d", path, len(text), maxLocal)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return d, fmt.Errorf("local configuration: %w", err)
	}
	d = Draft{file.Name(), path}
	_, err = file.WriteString(text)
	if err == nil {
		err = file.Sync()
	}
	if err = cmp.Or(err, file.Close()); err != nil {
		d.Discard()
		return Draft{}, fmt.Errorf("local configuration: %w", err)
	}
	return d, nil
}

// Place puts the file in its place, at once as a whole. Its error means that the old file is still there.
func (d Draft) Place() error {
	if d == (Draft{}) {
		return nil
	}
	dir, err := os.Open(filepath.Dir(d.path))
	if err == nil {
		defer dir.Close()
		err = os.Rename(d.temporary, d.path)
	}
	if err != nil {
		d.Discard()
		return fmt.Errorf("local configuration: %w", err)
	}
	_ = dir.Sync() // the new file is there; without the sync, a machine that crashes may still bring the old one back
	return nil
}

// Discard removes a draft that is not in place.
func (d Draft) Discard() {
	if d != (Draft{}) {
		_ = os.Remove(d.temporary)
	}
}

// Clone returns a copy that shares nothing that Set changes.
func (c Config) Clone() Config {
	c.Admins = maps.Clone(c.Admins)
	c.Profiles, c.Follow = maps.Clone(c.Profiles), maps.Clone(c.Follow)
	c.Empty, c.Skipped, c.Ignored = slices.Clone(c.Empty), slices.Clone(c.Skipped), slices.Clone(c.Ignored)
	c.Auth.JWT.Keys = maps.Clone(c.Auth.JWT.Keys)
	c.Replicator.Sharing.Shares = maps.Clone(c.Replicator.Sharing.Shares)
	return c
}

// Apply sets local settings.
func (c *Config) Apply(l Local) error {
	for _, n := range l.Names() {
		if err := Known(n); err != nil {
			return err
		}
		if err := c.Set(n.Section, n.Key, l[n]); err != nil {
			return err
		}
	}
	return nil
}

// Known returns an error for a section that there is not.
func Known(n Name) error {
	if isSection(n.Section) {
		return nil
	}
	if err := misnamed(n.Section); err != nil {
		return err
	}
	all := append(Sections(), tlsPrefix+"NAME", followPrefix+"NAME")
	return fmt.Errorf("[%s]: no such section; known are %s", n.Section, strings.Join(all, ", "))
}
