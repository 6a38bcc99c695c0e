// Package manual makes manual pages and completion scripts of shells from the model of a command line, and the
// reference of a configuration from its rows: what programs accept is described in one place, which also reads it.
package manual
