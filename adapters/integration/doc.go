// Package integration holds tests of the whole program against servers that nobody here wrote:
// pouchdb-server, whose executable the environment variable POUCHDB_SERVER names, and CouchDB, when
// COUCHDB_URL names one with an admin's name and password. A fault that engine and model share would
// otherwise cancel out.
package integration
