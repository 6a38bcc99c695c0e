// Package explain tells why a replication runs or does not: as fields, and as sentences that are made of the
// fields alone. It reads one snapshot of the store and guesses nothing: a field that the store does not tell is nil,
// and Unknown has it with the reason.
//
// The servers of a job are not asked; numbers and checkpoints are those that its run told last, with the time when it
// did.
package explain
