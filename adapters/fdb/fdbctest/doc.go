// Package fdbctest is a test double of FoundationDB's C client: with the build tag fdbctest it exports
// the functions of libfdb_c that the Go bindings call, from Go, over the store in memory of sim/fakefdb.
// A test binary that links it runs the real bindings and every line of package fdb without a client
// installed and without a cluster; `make test-fdb` gives the compiler the header in include and the
// linker an empty libfdb_c.a. The double has the functions that the bindings and package fdb use, and
// answers unsupported_operation (2108) to all others.
//
// Beyond the contract of core/kv it copies what adapters stumble over in the real client:
//
//   - reads are answered in the order of their calls and see only the writes before them;
//   - range reads come in batches;
//   - OnError and Reset forget all options but the size limit;
//   - a versionstamp has to be asked for before the commit;
//   - a future that is cancelled or destroyed ends with operation_cancelled (1101), one of a cancelled
//     transaction with transaction_cancelled (1025);
//   - while the cluster is away everything waits, or all reads, or whatever it does not answer.
//
// While the environment tells the client to inject faults (Buggify), the double does.
//
// Using a handle after it was destroyed panics.
package fdbctest
