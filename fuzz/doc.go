// Package fuzz has the fuzz targets: one for every parser, with a property beyond not crashing. `make fuzz`
// searches for new failures. The seeds, and the inputs that once failed, are run by ordinary tests.
package fuzz
