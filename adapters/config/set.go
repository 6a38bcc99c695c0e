package config

import "fmt"

// Set sets one key, as a line of a file does: for whoever has such lines in another kind of file.
func (c *Config) Set(section, name, value string) error {
	keys, known := sections[section]
	if !known {
		return fmt.Errorf("[%s] has no keys", section)
	}
	return c.set(section, keys, name, value)
}

// Check looks at settings that depend on each other, after the last Set.
func (c *Config) Check() error { return c.check() }

// Keys are the names of a section's keys.
func Keys(section string) (names []string) {
	for _, k := range sections[section] {
		names = append(names, k.name)
	}
	return names
}
