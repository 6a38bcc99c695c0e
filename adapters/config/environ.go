package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/node"
)

// rolePrefix begins the names of variables of the environment that set roles, as in CouchDB's RFC 013.
const rolePrefix = "COUCHDB_NODE_TYPE_"

// foreignRoles are the roles that only CouchDB's nodes have.
var foreignRoles = []string{"view_indexing", "search_indexing"}

// docroot is the variable by which CouchDB is told where Fauxton is.
const docroot = "COUCHDB_FAUXTON_DOCROOT"

// Environ reads the environment, whose variables override files: COUCHDB_FAUXTON_DOCROOT, and
// COUCHDB_NODE_TYPE_API_FRONTEND and COUCHDB_NODE_TYPE_REPLICATION, true or false. CouchDB takes any value but
// false for true; here that is an error, since a misspelt false would give the node the role that it is to be kept
// from. A node without a role is an error too. COUCHDB_FAUXTON_DOCROOT that is empty counts as not set: no directory
// has that name, and a unit or a container may set it for all.
func (c *Config) Environ(environ []string) error {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if name == docroot && value != "" {
			c.Beside.Fauxton = value
		}
		label, is := strings.CutPrefix(name, rolePrefix)
		if !is {
			continue
		}
		if label = strings.ToLower(label); slices.Contains(foreignRoles, label) {
			c.Ignored = append(c.Ignored, name)
			continue
		}
		r, err := node.ParseRole(label)
		if err != nil {
			return fmt.Errorf("environment: %s: %w", name, err)
		}
		if err := role(r).Set(c, value); err != nil {
			return fmt.Errorf("environment: %s=%s: %w", name, value, err)
		}
	}
	if c.Roles == 0 {
		return errors.New("[node_types], " + rolePrefix +
			"*: a node needs at least one role, api_frontend or replication")
	}
	return nil
}
