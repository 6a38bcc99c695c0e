// Package jobstore keeps replication jobs in the store: the records of jobs, how documents of
// replicator databases and requests to /_replicate become jobs, how the end of a job reaches its
// document, and which of several jobs may run as one replication. It follows CouchDB's RFC 016 on top
// of packages jobs and docs. All its functions work inside the caller's transaction, so that a document
// and its job, or a job's end and its document's terminal state, change together or not at all.
//
// # Keys, below the root (type Keys)
//
//	("jobs", "replication", ...)
//	                         package jobs: the queue
//	("docs", ...)            package docs: the databases
//	("schema")               version of this layout
//	("uuid")                 the service's UUID, which is a part of replication ids
//	("secret")               signs the cookies of users, if the configuration has no secret
//	("spec", job id, n)      the parsed replication with its credentials, split over values
//	("claim", replication)   the job that runs, or last ran, as that replication
//	("expire", time, job id) finished jobs of requests, by the time when they are forgotten
//	("dropped", instance)    deleted databases whose jobs are still to be removed, and how far that is
//	("hold", id)             JSON of Hold
//	("lifted", id)           a hold that was lifted and whose jobs have still to come back, or the lot of jobs that
//	                         wait for a replication which is free
//	("index", group, field, value, job id)
//	                         jobs by their labels, for lists; see type marks
//	("tally", instance, group, field, value)
//	                         number of rows of an index, of a database's jobs or of all
//	("reindex")              how far the index of a store of an earlier release is; no row once it is complete
//	("border", job id)       no rows, but ranges of conflicts; see Reindex
//	("refused", job id, document, revision)
//	                         a revision that the target refused, with its answer
//	("retry", job id)        when somebody asked last to try the job's refused documents
//	("order")                the policy in force with its parameters
//	("shares", account)      shares of the accounts that do not have the default
//	("usage", account, interval, worker)
//	                         microseconds of slots that the worker's jobs had in the interval
//	("swept", "usage" or "count")
//	                         the account, and what follows in its key, up to which a sweep of these rows came
//	("repairs")              how many sums were put right; see package check
//	("count", account)       number of the account's jobs that are not over
//	("weights", account)     by how much the weights of these jobs exceed the default each, all together
//	("tail", account)        the tag of the account's next job (policies that need it)
//	("virtual")              the greatest tag that got a slot (likewise)
//	("floor")                the greatest tag at which the tags of an account began (likewise)
//
// Times are microseconds since 1970. Counters, shares, usage and tags are 8 bytes, little-endian, as atomic
// additions and maxima need them; "order" is JSON.
package jobstore
