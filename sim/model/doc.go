// Package model is the job system as an executable specification: a plain value that has every job and every
// replication document, and says of each commit of the store which rows it must have changed, given the request that
// it carries out.
//
// It is written from RFC 007 and RFC 016, the sections on jobs, shares and documents of DESIGN.md and the manual, and
// the tables of keys in the comments of core/jobs, core/jobstore and core/docs, and shares no decision with these
// packages: it reads rows itself and computes by itself where a job stands, what is counted and what a document asks
// for. It has no list of promises. What it does not allow must not be.
//
// # The life of a job
//
// A job changes by transitions (transition.go), each a function from the job as it was to the job as it must be.
// What the specification leaves open, such as the place in the queue that a turn has earned or what a record says, a
// transition takes from the job as it is found. The request of a commit says which transitions it may make, in which
// order, and of which jobs (request.go):
//
//	users              add, add over, remove, park, come back, end a wait, write data, ask to stop
//	accept             take a ready job under a lock of its own, or park it
//	record, claim, ... write data under the lock, absolve
//	complete, crash, . finish or queue under the lock
//	promote            end a wait that is due, bring jobs of a lifted hold or of a free replication back
//	expire, retire     take jobs from the worker, whose lease is over
//	sweep              remove
//	all others         nothing
//
// An end that gives up a replication brings back one job that waits for it, whatever ends, or says that it is free.
//
// # Documents
//
// The documents of replicator databases are a part of the value, too (document.go). What one asks for is read from its
// body (content.go), by what the manual says of fields, and not by asking the parser of the service. A commit that
// writes a document must make of its job what the document asks for, and store what was sent; one that ends a job must
// say so in its document, and change nothing else there (replicator.go). No commit writes a document otherwise.
//
// # What a commit must write
//
// All rows of the queue follow from jobs and leases (rows.go): so a commit must write exactly the rows in which the
// jobs before it differ from those after it, and the counters must move by what the jobs moved. Nothing is read but
// what a commit writes, so the price of a commit does not depend on the number of jobs.
package model
