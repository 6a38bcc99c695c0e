// Package web has the parts that servers of CouchDB's HTTP interface share: one router over a table of
// endpoints, one Request, and one way to answer. Package couchdb below it serves databases, package relay the
// replication service.
package web
