package main

import (
	"slices"
	"strings"

	"couchrelay/core/ejson"
)

// rekeyCommand changes the key that encrypts credentials in the store.
type rekeyCommand struct {
	remote
	Status bool `help:"Only say which keys there are, and how many rows need each." xor:"what"`
	Drop   bool `help:"Forget the keys that no row needs any more." xor:"what"`
}

// Help is kong's.
func (rekeyCommand) Help() string {
	return "Has a new key encrypt credentials in the store from now on. What is stored is encrypted again in the " +
		"background; --status shows how far that is. Then --drop forgets the old key, which copies of the store from " +
		"before still need." + examples(
		"Begin with a new key:", "couchrelay rekey", "See how far that is:", "couchrelay rekey --status",
		"Forget the old key, when all is done:", "couchrelay rekey --drop")
}

func (c *rekeyCommand) Run(w *window) error {
	path, err := c.node()
	if err != nil {
		return c.refused(w, err)
	}
	path += "/_rekey"
	switch {
	case c.Drop:
		return c.show(w, "DELETE", path, nil, nil, func(s *screen, v ejson.Value) {
			s.line("dropped: %s", ids(s.need(v, "dropped")))
			if needed := member(v, "needed"); len(needed.Elems) > 0 {
				s.line("still needed: %s; try again when --status says done", ids(needed))
			}
		})
	case c.Status:
		return c.show(w, "GET", path, nil, nil, keysOn)
	}
	return c.show(w, "POST", path, nil, nil, keysOn)
}

func ids(list ejson.Value) string {
	var names []string
	for _, id := range list.Elems {
		names = append(names, id.Text)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// keysOn prints the keys with the rows that need them.
func keysOn(s *screen, v ejson.Value) {
	s.list(s.need(v, "keys"), "id!", "rows", "seals", "file in_file", "needed")
	s.line("rows in clear: %s", plain(member(v, "rows_in_clear")))
	switch {
	case member(v, "done").Kind != ejson.True:
		s.line("under way: %s rows have been rewritten", plain(member(v, "rows_rewritten")))
	case needsOther(member(v, "keys")):
		s.line("done, and rows have another key since, as of a node that was not reloaded: reload it, and have the " +
			"rows rewritten with --drop")
	default:
		s.line("done: all rows have the first key")
	}
}

// needsOther reports whether rows have another key than the one that seals.
func needsOther(keys ejson.Value) bool {
	return slices.ContainsFunc(keys.Elems, func(k ejson.Value) bool {
		return member(k, "seals").Kind != ejson.True && plain(member(k, "rows")) != "0"
	})
}
