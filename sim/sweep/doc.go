// Package sweep plays the worlds of package lab many times under other settings, and compares what they do: which
// points of the space of settings there are, the runs on all cores, the results as files, intervals, differences.
//
// An experiment is a file, made to be read: it says at its top what it shows.
//
//	# How exactly shares are kept, by how fast priorities are forgotten and how many jobs give way.
//	duration = 7d
//	warm-up = 1d
//	seeds = 1..10
//	[replicator]
//	max_jobs = 500
//	[replicator.shares]
//	tenant1/_replicator = 400
//	[workload]
//	preset = steady
//	[sweep]
//	method = grid
//	priority_coeff = 0.9, 0.98, 0.995
//	max_churn = 5..100 log 4
//
// "#" begins a comment. The sections [replicator] and [replicator.shares] have production's keys, values and
// meaning, [workload] those of workload.Recipe. An axis of [sweep] is a key of any section: by its name alone, or
// with the section where two have that name, as in workload/jobs; shares are replicator.shares/NAME. Its values
// are a list, or a range: LOW..HIGH COUNT has COUNT values from LOW to HIGH, evenly or (LOW..HIGH log COUNT) with
// equal ratios; random designs draw from LOW..HIGH. A range of whole numbers has whole numbers.
//
// The method grid has every combination of values; one-at-a-time changes one axis at a time from the values that
// the sections above give; random N draws N points; lhs N draws a Latin hypercube, in which every axis has a point
// in each N-th part of its range.
//
// All points are played with the same seeds, and a seed makes the same workload at all points whose [workload] is
// the same: so a difference between two points is taken seed by seed, and what seeds have in common drops out.
// Nothing in a result depends on when, where or on how many cores it was computed.
package sweep
