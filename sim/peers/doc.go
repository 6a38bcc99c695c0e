// Package peers models the servers that a simulation replicates between: databases on core/docs, reached
// over a network that can do everything networks do. An operation takes effect at one moment of virtual
// time, whatever happens to its answer.
package peers
