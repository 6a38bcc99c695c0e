// Package kivik holds tests of the Go client kivik with a server that keeps replicator databases and users. SERVER is
// the URL of the server with an admin's name and password, DATABASES that of a server with databases to replicate;
// TestKivik of the package above sets them.
package kivik
