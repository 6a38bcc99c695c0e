// Package couch carries out the operations of core/peer over HTTP, on servers that speak CouchDB's protocol.
// One operation is one attempt and gives one reply. The core decides what is retried, in which batches
// documents travel and what a failure means for a replication; this package decides how an operation looks on
// the wire.
//
// It must not trust a server. Every read has a limit in bytes and in time, so that no answer can hang the
// process, crash it or use up its memory. Credentials go to the configured server only, never to one that a
// redirect names (see stranger in redirect.go), and texts of failures are redacted before they leave the
// package.
//
// Connections are HTTP/1.1. CouchDB speaks nothing else, and one stream per connection gives backpressure
// between a source and a target.
//
// A Client belongs to the process and a Pair to one replication; both are safe for concurrent use. The caller
// owes them this:
//
//  1. Pair.Release for the id of each FetchDocs, once its documents are written or given up: the bodies stay
//     in memory until then.
//  2. Pair.Close after the last operation has returned, also on failure.
//  3. Client.Close last.
package couch
