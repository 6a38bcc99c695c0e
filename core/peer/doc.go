// Package peer is the language between a replication and its two databases: the operations that a replication
// asks for, their results, and the description of failures. It is plain data. The HTTP client and the
// simulator's model servers carry the operations out, one attempt each. Neither decides anything about
// retries, batches or checkpoints.
//
// Recorded logs hold operations and results under the names of their types and fields, so these must not
// change.
package peer
