package docs

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/json"
	"couchrelay/core/kv/tuple"
)

// newRev names the revision that d is when it replaces parent. Equal edits have equal names, as in
// CouchDB: an MD5 over everything that makes the revision, each part led by its length.
func newRev(parent revtree.Rev, d *Document) revtree.Rev {
	h := md5.New()
	part := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	part([]byte{boolByte(d.Deleted)})
	part([]byte(parent.String()))
	part(d.Body)
	for i := range d.Attachments {
		a := &d.Attachments[i]
		part([]byte(a.Name))
		part([]byte(a.Type))
		part(a.Digest)
	}
	return revtree.Rev{Gen: parent.Gen + 1, ID: hex.EncodeToString(h.Sum(nil))}
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// The value of a body: for a leaf with attachments the length of their list, the list, then the JSON
// text. Empty bodies without attachments have no value.
func bodyValue(d *Document) []byte {
	if len(d.Attachments) == 0 {
		if string(d.Body) == "{}" {
			return nil
		}
		return d.Body
	}
	list, err := json.Encode(d.Attachments)
	if err != nil {
		panic("docs: attachments cannot be encoded: " + err.Error())
	}
	value := binary.AppendUvarint(make([]byte, 0, len(list)+len(d.Body)+4), uint64(len(list)))
	return append(append(value, list...), d.Body...)
}

func (db *Database) bodyKey(id string, rev revtree.Rev) []byte {
	key := tuple.AppendString(db.start(keyBody, len(id)+len(rev.ID)+14), id)
	return tuple.AppendString(tuple.AppendInt(key, rev.Gen), rev.ID)
}
