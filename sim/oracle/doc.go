// Package oracle judges runs of the simulator: their invariants are defined here, a second time and from the
// outside, and never by asking the code under test.
//
// # How it hears
//
// A world (package world) tells an Oracle every fact at the moment at which it happens. The chronicle
// (chronicle.go) keeps the knowledge of jobs, nodes and runs from all facts so far, and tells topics
// (hearing.go) to checkers: a job that a commit changed, a request that is about to leave, a run that says
// that it is over. Checkers read the world through its View. They change nothing in it, so that a run goes on
// as if it were not judged.
//
// # Where an invariant is
//
// A file holds a subject: its invariants, each an id with a sentence; its checker, with the state that it
// remembers; and the functions that judge. An id means one thing; a letter behind the number tells promises
// of one family apart. Exceptions stand where they are made: most promises hold only while a node did not
// stand still, its clocks were not set, or a database was not restored, and a comment says why.
//
// # What it must not do
//
// The oracle imports the core for its data: records, requests, settings, formats of keys. It does not call
// the core's decisions (policies, back-off, comparison of checkpoints), whose mistakes it would share.
package oracle
