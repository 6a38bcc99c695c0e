// Package couch carries out the operations of core/peer over HTTP on servers that speak CouchDB's
// protocol. One operation is one attempt and gives one reply: what is retried, in which batches
// documents travel and what an error means for a replication is decided by the core. What is decided
// here is how to say it on the wire, and that nothing a server does can hang, crash or flood the
// process, or make it show a password.
//
// Connections are HTTP/1.1: CouchDB speaks nothing else, and one stream per connection is what gives
// back-pressure between a source and a target.
package couch
