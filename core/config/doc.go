// Package config knows the keys of the section [replicator] of a configuration: what each sets, which values it takes,
// and what must agree with what. It reads no files: package adapters/config does, for production, and scenarios of the
// simulator have such a section too.
//
// A key is a row of a table (replicator.go) with one of the kinds in kinds.go. Times have the units that CouchDB gave
// them: seconds where the name ends in _sec or is health_threshold, else milliseconds.
package config
