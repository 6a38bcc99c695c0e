// Package seal encrypts what a store keeps of credentials. A Database lies around another kv.Database and seals
// the values of the rows that may hold any, on their way down, and opens them on their way up. Keys, atomic
// operands, conflicts, ranges, watches and versionstamps are those of the store below.
//
// # Which rows
//
// Rows says it: what clients wrote and what servers answered. Sealed are
//
//	docs: bodies, local documents,      replication documents hold passwords in URLs, auth and headers; also
//	pieces of attachments, security     their conflicts, and what clients write beside them
//	spec                                the parsed replication of each job, with its credentials
//	job data                            URLs with query parameters, and reasons that quote what servers answer
//	refused                             reasons that quote what servers answer
//	secret                              what signs the service's cookies
//
// All other rows stay plain, since the store itself computes with them or since nothing of an endpoint is in them:
//
//	docs: records, entries, feed,       revision trees, sequences and counters: versionstamps and atomic
//	sequences, counters, names          additions work on the stored bytes
//	job headers, queue indexes,         states, times, priorities, names of nodes, classes of errors
//	workers, beats, calls, signals
//	claim, expire, dropped, reindex     ids of jobs, times
//	index, tally                        keys alone: state, class of error, host, user
//	hold, lifted                        hosts and databases, and what operators gave as a reason
//	order, shares, usage, count, tail,  settings and numbers of accounts
//	weights, virtual, retry
//	schema, uuid, incarnation, seal     needed to open the store
//
// # A sealed value
//
//	magic (4), version 1 (1), key id (4), salt (16), count (8), ciphertext, tag (16)
//
// It is AES-256-GCM. A process draws a salt at random, derives a subkey of the first key with HKDF-SHA-256, and
// counts its values: so no nonce comes twice, whatever the number of processes, and no limit of random nonces is
// reached. After 2^32 values it draws another salt. The key of the row, below the root, is the additional data: a
// value does not open in another row. Plain values pass, those of stores that are older than this package; one
// that begins with the magic by chance is kept behind magic and version 0.
//
// # Keys
//
// A Ring has the keys of a key file: the first seals, all open. Before a key seals its first value in a store it is
// registered there, and it stays registered until no row needs it (Keeper.Drop). A process that lacks a
// registered key does not start. One that still seals with a key that another process has dropped registers it
// again (Keeper.Affirm).
package seal
