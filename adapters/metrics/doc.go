// Package metrics counts what a process does, and tells it in Prometheus' text format and as CouchDB's _stats.
//
// Nothing is decided here. What nodes and runs do comes from their events and effects (Engine), from tallies of runs
// and of transactions that have committed (Store), and from requests that are over (Attempted, Answered). Counters
// begin at 0 with the process. Gauges are read when they are asked for (State), from the counters that the store keeps,
// so they are right at once and cost the same whatever the number of jobs.
//
// Labels have few values. Where these come from users, as hosts and names of databases do, only the first maxNames have
// a series of their own, and the others share one. No label is a secret or the name of a user.
package metrics
