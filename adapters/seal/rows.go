package seal

import (
	"bytes"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/tuple"
)

// ServiceRows are the rows of the service below root that are sealed; the table in the package comment has them with
// the reasons.
func ServiceRows(root tuple.Subspace) Rows {
	k := jobstore.KeysBelow(root)
	return Rows{Root: root, Sealed: func(key []byte) bool {
		switch {
		case k.Docs.Contains(key):
			return docs.IsContent(k.Docs, key)
		case k.Jobs.Job.Contains(key):
			return len(afterText(key[len(k.Jobs.Job):])) > 0 // else it is the header
		}
		return k.Spec.Contains(key) || k.Refused.Contains(key) || bytes.Equal(key, k.Secret)
	}}
}

// afterText returns what follows the text at the beginning of a packed tuple.
func afterText(b []byte) []byte {
	for {
		i := bytes.IndexByte(b, 0)
		switch {
		case i < 0:
			return nil
		case i+1 == len(b) || b[i+1] != 0xff: // else it is a zero byte within the text
			return b[i+1:]
		}
		b = b[i+2:]
	}
}
