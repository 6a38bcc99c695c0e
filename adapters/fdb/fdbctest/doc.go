// Package fdbctest is a test double of FoundationDB's C client: with the build tag fdbctest it exports
// the functions of libfdb_c that the Go bindings call, from Go, over the store in memory of sim/fakefdb.
// A test binary that links it runs the real bindings and every line of package fdb without a client
// installed and without a cluster; `make test-fdb` gives the compiler the header in include and the
// linker an empty libfdb_c.a. It knows what the bindings and package fdb use and answers
// unsupported_operation (2108) to the rest.
//
// What it copies of the real client beyond the contract of core/kv, since adapters stumble over it:
// reads are answered in the order of their calls and see only the writes before them; range reads come
// in batches; options are forgotten when OnError or Reset start again, but for the size limit; a
// versionstamp has to be asked for before the commit; futures end with operation_cancelled (1101) when
// they are cancelled or destroyed, and those of a cancelled transaction with transaction_cancelled
// (1025); while the cluster is away everything waits. Using a handle after it was destroyed panics.
package fdbctest
