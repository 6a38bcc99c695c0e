// Package whole puts together what a check of the service's whole store looks at. It is apart from package check since
// the packages that know their rows import that.
package whole

import (
	"couchrelay/core/check"
	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/tuple"
)

// New returns the check of a store below a root; beside are rows of adapters. See check.Options for the others.
func New(root tuple.Subspace, open func(key, value []byte) ([]byte, error), atOnce bool,
	beside ...check.Section) *check.Checker {
	list := append(jobstore.Sections(root), follow.Sections(root)...)
	return check.New(check.Options{Root: root, Sections: append(list, beside...), Open: open, AtOnce: atOnce})
}
