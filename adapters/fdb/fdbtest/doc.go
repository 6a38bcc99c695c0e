// Package fdbtest opens FoundationDB stores for tests: over the test double of the client in builds with
// the tag fdbctest, otherwise on the cluster that the environment's FDB_CLUSTER_FILE names.
package fdbtest
