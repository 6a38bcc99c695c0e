package config

import (
	"slices"
	"strings"
	"testing"

	"couchrelay/core/node"
)

func TestRoles(t *testing.T) {
	const frontendOnly = "[node_types]\nreplication = false\n"
	for _, c := range []struct {
		file    string
		environ []string
		want    node.Roles
		wrong   string
	}{
		{"", nil, node.AllRoles, ""},
		{frontendOnly, nil, node.APIFrontend, ""},
		{frontendOnly, []string{"COUCHDB_NODE_TYPE_REPLICATION=true"}, node.AllRoles, ""},
		{"", []string{"PATH=/bin", "COUCHDB_NODE_TYPE_API_FRONTEND=FALSE"}, node.Replication, ""},
		{frontendOnly, []string{"COUCHDB_NODE_TYPE_API_FRONTEND=false"}, 0, "at least one role"},
		{frontendOnly, []string{"COUCHDB_NODE_TYPE_API_FRONTEND=false", "COUCHDB_NODE_TYPE_REPLICATION=true"},
			node.Replication, ""},
		{"", []string{"COUCHDB_NODE_TYPE_REPLICATION=no"}, 0,
			"COUCHDB_NODE_TYPE_REPLICATION=no: must be true or false"},
		{"", []string{"COUCHDB_NODE_TYPE_REPLICATION="}, 0, "must be true or false"},
		{"", []string{"COUCHDB_NODE_TYPE_REPLICATOR=false"}, 0,
			"COUCHDB_NODE_TYPE_REPLICATOR: no such role; known are api_frontend, replication"},
	} {
		got, err := load(t, c.file)
		if err != nil {
			t.Fatal(err)
		}
		err = got.Environ(c.environ)
		switch {
		case c.wrong == "" && (err != nil || got.Roles != c.want):
			t.Errorf("%q %v: %v, %v", c.file, c.environ, got.Roles, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%q %v: %v, want %q", c.file, c.environ, err, c.wrong)
		}
	}
	c := Default()
	if err := c.Environ([]string{"COUCHDB_FAUXTON_DOCROOT=/www"}); err != nil || c.Beside.Fauxton != "/www" {
		t.Errorf("%q, %v", c.Beside.Fauxton, err)
	}
	if err := c.Environ([]string{"COUCHDB_FAUXTON_DOCROOT="}); err != nil || c.Beside.Fauxton != "/www" {
		t.Errorf("an empty variable makes %q of the file's value, %v", c.Beside.Fauxton, err)
	}
	if err := c.Environ([]string{"COUCHDB_NODE_TYPE_VIEW_INDEXING=true"}); err != nil ||
		!slices.Contains(c.Ignored, "COUCHDB_NODE_TYPE_VIEW_INDEXING") {
		t.Errorf("%v, %v", c.Ignored, err)
	}
}

func TestMaintenance(t *testing.T) {
	for text, jobs := range map[string]bool{"true": true, "nolb": false, "false": false} {
		c, err := load(t, "[couchdb]\nmaintenance_mode = "+text)
		if err != nil || c.Maintenance != text || c.Node.Maintenance != jobs {
			t.Errorf("%s: %q, %v, %v", text, c.Maintenance, c.Node.Maintenance, err)
		}
	}
}
