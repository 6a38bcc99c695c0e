// Package door is where clients come in: it bounds what they can take before any of their requests is looked at, and
// finds out from where they come.
package door
