// Package verify compares two databases: has the target all leaf revisions that the source has, and the other way
// round? It reads both changes feeds once, as fast as they come, into two small tables of sums. Only where the sums
// differ does it read again and ask about revisions, so its memory does not grow with the databases.
//
// It reads, and writes nothing: the caller may repair what it tells of.
package verify
