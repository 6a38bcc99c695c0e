// Package integration holds tests of the whole program against independent implementations: pouchdb-server,
// whose executable the environment variable POUCHDB_SERVER names, and CouchDB, if COUCHDB_URL is the URL of
// one, with an admin's name and password. A misunderstanding of the protocol that client, simulator and own
// server share would go unnoticed without them.
//
// The tests of clients of CouchDB (clients, kivik) are written for CouchDB, and run against it too where there is one.
// Those of prometheus have Prometheus evaluate the alert rules.
package integration
