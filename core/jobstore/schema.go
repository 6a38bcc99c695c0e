package jobstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// schemaVersion is the version of the key layout of everything below the root.
const schemaVersion = 1

var (
	// ErrSchema means that a newer release wrote the store.
	ErrSchema = errors.New("the store was written by a newer release")
	// ErrForeign means that another program's keys lie where the store is to be.
	ErrForeign = errors.New("there are keys below this prefix that are not couchrelay's; choose another prefix")
)

// Init prepares a store, and returns the server's UUID: the one in the store, which is newUUID when there
// was none. It refuses a schema that it does not know, and a place that is neither a store nor empty.
func Init(tx kv.Tx, root tuple.Subspace, newUUID string) (uuid string, err error) {
	keys := KeysBelow(root)
	values, err := tx.GetAll([][]byte{keys.Schema, keys.UUID})
	if err != nil {
		return "", err
	}
	schema := make([]byte, 8)
	binary.LittleEndian.PutUint64(schema, schemaVersion)
	switch {
	case values[0] == nil:
		if rows, err := tx.GetRange(kv.PrefixRange(root), kv.RangeOptions{Limit: 1}); err != nil {
			return "", err
		} else if len(rows) > 0 {
			return "", fmt.Errorf("%w: the first is %q", ErrForeign, rows[0].Key)
		}
		tx.Set(keys.Schema, schema)
	case len(values[0]) != 8 || binary.LittleEndian.Uint64(values[0]) > schemaVersion:
		return "", fmt.Errorf("%w: schema %x, this release knows %d", ErrSchema, values[0], schemaVersion)
	}
	if values[1] != nil {
		return string(values[1]), nil
	}
	tx.Set(keys.UUID, []byte(newUUID))
	return newUUID, nil
}
