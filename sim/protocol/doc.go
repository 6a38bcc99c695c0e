// Package protocol is the replication protocol as an executable specification: an automaton that is told what
// one run asks its two databases, and what it hears, and says which of that the protocol does not allow.
//
// It is written from CouchDB's replication protocol and from the promises in DESIGN.md, a second time and
// from the outside. It shares data with core/replication (events, effects, ends, operations), and no
// decision: it compares logs, follows revisions and computes pauses by itself.
//
// What it demands is in the rules (Rule), each of which has a file: begin.go; feed.go, copy.go, alone.go
// and list.go; save.go; wait.go; end.go. What the protocol leaves open stays open: how large batches are,
// how many requests are under way, in which order independent ones leave. It also counts which of its
// transitions were taken, so that a campaign can tell what no run ever did.
package protocol
