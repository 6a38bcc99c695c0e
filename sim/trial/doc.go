// Package trial joins a world with the oracle that judges it, and plays both to the end: the time of trouble,
// the healing, the settling, and then experiments on a world at rest (probe.go), such as a document whose job
// must start at once. It decides when something is done and when it is checked. What must hold is the
// oracle's alone.
package trial
