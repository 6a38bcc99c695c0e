// Package core has no code. The packages below it decide what couchrelay does, and leave the doing to others:
// production and the simulator drive the very same ones.
//
// So that one seed means one run, they have no clock, no randomness but what they are given, no goroutines, channels
// or locks, no I/O, and nothing that depends on the order of a map or on floating point. Package internal/lint proves
// that.
package core
