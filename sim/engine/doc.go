// Package engine is the time of a simulation: a queue of events in virtual time, coroutines of which one runs
// at a time, processes that can be paused and killed, and a hash over all that happened. It has no chance of
// its own and knows nothing of stores or replications.
package engine
