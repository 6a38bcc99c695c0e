// Package peers models the servers that a simulation replicates between: databases on core/docs, which are
// reached over a network that loses, delays and breaks what it carries. An operation takes effect at one
// moment of virtual time, whatever happens to its answer.
//
// The package decides nothing by chance: a Network, which the world implements, says what goes wrong with
// each request.
package peers
