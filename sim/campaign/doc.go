// Package campaign plays many worlds on all cores, each in one goroutine, and adds up what they did: the
// invariants that broke, the faults that came up, the speed. It also proves that a seed always tells the
// same run. It knows nothing of what a world contains.
package campaign
