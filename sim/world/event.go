package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// aims are what events of the nemesis are aimed at.
var aims = map[string]string{
	NodeCrash: "node", NodePause: "node", NodeStall: "node", NodeSuspend: "node", NodeDrain: "node", NodeSkew: "node", NodeJump: "node", NodeOtherSpeed: "node", NodeMaxJobs: "node", NodeTimeout: "node", NodeMaintenance: "node",
	NetPartition: "node", NetIsolated: "node",
	ServerDown: "server", ServerSlow: "server", ServerThrottles: "server", ServerLocksOut: "server", ServerBreaks: "server", ServerRestarts: "server",
	DBRecreated: "database", DBSnared: "database", DBLateLogs: "database", DBDeleted: "database", DBRestored: "database", FilterEdit: "database",
}

// lasting are the events that have a duration.
var lasting = []string{StoreDown, NodeCrash, NodePause, NodeStall, NodeSuspend, NodeStorm, NodeJump, NodeMaxJobs, NodeTimeout, NodeMaintenance, NetPartition, NetIsolated, ServerDown, ServerSlow,
	ServerThrottles, ServerLocksOut, DBDeleted, DBRestored}

// CheckEvent says what is wrong with an event of this world.
func (c *Config) CheckEvent(e Event) error {
	if !slices.Contains(NemesisFaults, e.What) && !slices.Contains(AllActions, e.What) {
		return fmt.Errorf("%s: no such event; known are %s", e.What, strings.Join(slices.Concat(NemesisFaults, AllActions), ", "))
	}
	if e.For > 0 && !slices.Contains(lasting, e.What) {
		return fmt.Errorf("%s: takes no time; for must be left out", e.What)
	}
	if e.Whom == "" {
		return nil
	}
	aim := aims[e.What]
	ok := false
	switch aim {
	case "":
		return fmt.Errorf("%s %s: is aimed at nobody; %s must be left out", e.What, e.Whom, e.Whom)
	case "node":
		ok = numbered(e.Whom, "n", c.Processes())
	case "server":
		ok = numbered(e.Whom, "s", c.Servers)
	case "database":
		server, db, _ := strings.Cut(e.Whom, "/")
		each := max(1, c.Databases/2)
		ok = numbered(server, "s", c.Servers) && (numbered(db, "a", each) || numbered(db, "b", each) || numbered(db, "bb", each))
	}
	if !ok {
		return fmt.Errorf("%s %s: no such %s; must be %s", e.What, e.Whom, aim, c.example(aim))
	}
	return nil
}

// numbered says whether a name is the prefix and a number from 1 to most.
func numbered(name, prefix string, most int) bool {
	digits, found := strings.CutPrefix(name, prefix)
	n, err := strconv.Atoi(digits)
	return found && err == nil && n >= 1 && n <= most && digits == strconv.Itoa(n)
}

func (c *Config) example(aim string) string {
	switch aim {
	case "node":
		return fmt.Sprintf("one of n1 to n%d", c.Processes())
	case "server":
		return fmt.Sprintf("one of s1 to s%d", c.Servers)
	}
	return fmt.Sprintf("a server and a database, from s1/a1 to s%d/b%d", c.Servers, max(1, c.Databases/2))
}
