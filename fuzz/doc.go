// Package fuzz has the fuzz targets: one for every parser, with a property beyond not crashing. `make fuzz` searches;
// what it found once, and the seeds, are ordinary tests.
package fuzz
