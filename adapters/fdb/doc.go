// Package fdb is the store for many machines: the contract of core/kv on FoundationDB, through its own Go
// bindings. It makes no decision of its own. The bindings need FoundationDB's C client to be compiled and
// run, so all but the options is behind the build tag fdb; without the tag Open fails with ErrNotBuilt.
//
// # Division of labour
//
// The cluster provides isolation, conflicts, versionstamps and limits; FoundationDB's client backs off
// between attempts. This package adds the rest of the contract:
//
//   - the end of a context ends every wait;
//   - codes become kv.Errors, with a hint for the operator;
//   - the options of a transaction hold for all its attempts, though the client forgets them;
//   - a transaction that has ended does nothing any more.
//
// # Retries and unknown results
//
// The retry loop is kv.RunWith, the same for all stores. The bindings' own loop (Transact) must not be used:
// it ignores contexts, and hides commits with unknown results from callers for whom these matter.
//
// When a connection breaks during a commit, the client cannot tell whether the commit happened. It then fails
// with commit_unknown_result (1021), after it has made sure that the commit is not in flight any more. Commit
// returns that error, OnError allows another attempt, and kv.RunWith repeats its function, which has to be
// idempotent. Three more ends of a commit leave its result open, and it may even happen later:
// transaction_timed_out (1031), cluster_version_changed (1039) and the end of the context. None of them is
// retryable; kv.MaybeCommitted reports all of them.
//
// # Outages
//
// FoundationDB's client waits for an unreachable cluster for ever, so the only end of such a wait is the
// context's. A monitor asks for a read version and reads a key every few seconds. It logs when the cluster
// stops answering (fdb_away) and when it answers again (fdb_back); Err has the reason in between. Available
// lets requests, which should not wait, end with the cluster.
//
// A cluster can also come back with other data, or be emptied. A process that went on would take these data for its
// own, and an empty store for one without jobs. So the service names a row that only its own store has (Expect). Each
// transaction that writes also reads this row, and fails if it has changed.
package fdb
