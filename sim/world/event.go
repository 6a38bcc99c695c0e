package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CheckEvent returns an error that says why an event cannot happen in this world, or nil if it can.
func (c *Config) CheckEvent(e Event) error {
	var aim target
	takesTime := false
	if f := faultNamed(e.What); f != nil {
		aim, takesTime = f.target, f.span != nil
	} else if !slices.Contains(AllActions, e.What) {
		known := strings.Join(slices.Concat(NemesisFaults, AllActions), ", ")
		return fmt.Errorf("%s: no such event; known are %s", e.What, known)
	}
	if e.For > 0 && !takesTime {
		return fmt.Errorf("%s: takes no time; for must be left out", e.What)
	}
	if e.Whom == "" {
		return nil
	}
	ok := false
	switch aim {
	case nothing:
		return fmt.Errorf("%s %s: is aimed at nobody; %s must be left out", e.What, e.Whom, e.Whom)
	case aNode:
		ok = numbered(e.Whom, "n", c.Processes())
	case aServer:
		ok = numbered(e.Whom, "s", c.Servers)
	case aDatabase:
		server, db, _ := strings.Cut(e.Whom, "/")
		each := max(1, c.Databases/2)
		isDB := func(prefix string) bool { return numbered(db, prefix, each) }
		ok = numbered(server, "s", c.Servers) && (isDB("a") || isDB("b") || isDB("bb"))
	}
	if !ok {
		return fmt.Errorf("%s %s: no such %s; must be %s", e.What, e.Whom, aim, c.example(aim))
	}
	return nil
}

// numbered reports whether a name is the prefix and a number from 1 to most.
func numbered(name, prefix string, most int) bool {
	digits, found := strings.CutPrefix(name, prefix)
	n, err := strconv.Atoi(digits)
	return found && err == nil && n >= 1 && n <= most && digits == strconv.Itoa(n)
}

// example names the targets of a kind that there are.
func (c *Config) example(aim target) string {
	switch aim {
	case aNode:
		return fmt.Sprintf("one of n1 to n%d", c.Processes())
	case aServer:
		return fmt.Sprintf("one of s1 to s%d", c.Servers)
	}
	return fmt.Sprintf("a server and a database, from s1/a1 to s%d/b%d", c.Servers, max(1, c.Databases/2))
}
