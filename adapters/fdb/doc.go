// Package fdb is the store for many machines: the contract of core/kv on FoundationDB, through its own
// Go bindings. It holds no decision of its own. Since the bindings need FoundationDB's C client to be
// compiled and run, all but the options is behind the build tag fdb; without it Open says so.
//
// # What comes from where
//
// Isolation, conflicts, versionstamps and limits are the cluster's; back-off between attempts is the
// client's. Here is the rest of the contract: contexts end whatever waits, codes become kv.Errors with
// a hint for the operator, options outlast an attempt, and nothing happens after the end of a
// transaction. The loop is that of kv.RunWith, never the bindings' Transact, which repeats commits with
// unknown results without a word.
//
// # Outages
//
// FoundationDB's client waits for an unreachable cluster for ever, so every operation ends with its
// context and with nothing else. A monitor asks for a read version every few seconds, says in the log
// when the cluster stops to answer and when it does again, and Err has the reason in between.
package fdb
