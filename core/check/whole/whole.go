// Package whole puts together what a check of the service's whole store looks at. It is apart from package check since
// the packages that know their rows import that.
package whole

import (
	"crypto/sha256"
	"encoding/binary"

	"couchrelay/core/check"
	"couchrelay/core/docs"
	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// maxLook bounds how many rows of a kind Mark reads.
const maxLook = 10_000

// Mark returns a mark of a store that has changed when a job, or a document, has come, changed or gone since: two
// equal marks, one from before and one from after a check, say that all pages of the check were of one store. It is
// empty for a store that is too large for that, or that has no order of changes yet.
func Mark(r kv.Reader, root tuple.Subspace) (string, error) {
	k, f := jobstore.KeysBelow(root), follow.NewStore(root, nil).Keys.Jobs
	keys, ranges := [][]byte{k.Jobs.Incarnation, k.Reindex}, []kv.Range{
		k.Jobs.Count.Range(), k.Weights.Range(), f.Job.Range(), f.Count.Range(), // few jobs follow databases
	}
	last, err := r.GetRange(k.Jobs.Changed.Range(), kv.RangeOptions{Limit: 1, Reverse: true})
	if err != nil {
		return "", err
	}
	names, err := r.GetRange(docs.Named(k.Docs), kv.RangeOptions{Limit: maxLook})
	if err != nil {
		return "", err
	}
	seen := append(last, names...)
	full := len(names) == maxLook
	for _, at := range ranges {
		rows, err := r.GetRange(at, kv.RangeOptions{Limit: maxLook})
		if err != nil {
			return "", err
		}
		seen, full = append(seen, rows...), full || len(rows) == maxLook
	}
	for _, row := range names {
		keys = append(keys, docs.UpdateSeqOf(k.Docs, row.Value))
	}
	values, err := r.GetAll(keys)
	if err != nil || full || values[0] == nil {
		return "", err
	}
	for i, value := range values {
		seen = append(seen, kv.KeyValue{Key: keys[i], Value: value})
	}
	h := sha256.New()
	for _, row := range seen {
		h.Write(binary.AppendUvarint(nil, uint64(len(row.Key))))
		h.Write(row.Key)
		h.Write(binary.AppendUvarint(nil, uint64(len(row.Value))))
		h.Write(row.Value)
	}
	return string(h.Sum(nil)), nil
}

// New returns the check of a store below a root; beside are rows of adapters. See check.Options for the others.
func New(root tuple.Subspace, open func(key, value []byte) ([]byte, error), atOnce bool,
	beside ...check.Section) *check.Checker {
	list := append(jobstore.Sections(root), follow.Sections(root)...)
	return check.New(check.Options{Root: root, Sections: append(list, beside...), Open: open, AtOnce: atOnce})
}
