package jobstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// schemaVersion is the version of the key layout of everything below the root.
//
//	1  the first
//	2  with indexes of jobs for lists; see Store.Reindex, which makes it of 1
//	3  the same, in a store that encrypts values; see Sealed, which makes it of 1 and 2
const (
	schemaVersion = 2
	sealedSchema  = 3

	// NewestSchema is the highest version that this release knows.
	NewestSchema = sealedSchema
)

var (
	// ErrSchema means that a newer release wrote the store.
	ErrSchema = errors.New("the store was written by a newer release")
	// ErrForeign means that another program's keys lie where the store is to be.
	ErrForeign = errors.New("there are keys below this prefix that are not couchrelay's; choose another prefix")
)

// Init prepares a store, and returns the server's UUID: the one in the store, which is newUUID when there
// was none. It refuses a schema that it does not know, and a place that is neither a store nor empty. made reports
// that the place was empty.
func Init(tx kv.Tx, root tuple.Subspace, newUUID string) (uuid string, made bool, err error) {
	keys := KeysBelow(root)
	values, err := tx.GetAll([][]byte{keys.Schema, keys.UUID})
	if err != nil {
		return "", false, err
	}
	schema := make([]byte, 8)
	binary.LittleEndian.PutUint64(schema, schemaVersion)
	switch {
	case values[0] == nil:
		if rows, err := tx.GetRange(kv.PrefixRange(root), kv.RangeOptions{Limit: 1}); err != nil {
			return "", false, err
		} else if len(rows) > 0 {
			return "", false, fmt.Errorf("%w: the first is %q", ErrForeign, rows[0].Key)
		}
		made = true
		tx.Set(keys.Schema, schema)
		if _, err := keys.Jobs.Incarnate(tx); err != nil {
			return "", false, err
		}
	case len(values[0]) == 8 && binary.LittleEndian.Uint64(values[0]) == 1:
		if err := keys.awaitReindex(tx); err != nil {
			return "", false, err
		}
	case len(values[0]) != 8 || binary.LittleEndian.Uint64(values[0]) > sealedSchema:
		return "", false, fmt.Errorf("%w: schema %x, this release knows %d", ErrSchema, values[0], sealedSchema)
	}
	if values[1] != nil {
		return string(values[1]), made, nil
	}
	tx.Set(keys.UUID, []byte(newUUID))
	return newUUID, made, nil
}

// Identity reads what a backup is told apart by: the server's UUID, and the version of the layout.
func Identity(r kv.Reader, k Keys) (uuid string, schema int64, err error) {
	values, err := r.GetAll([][]byte{k.UUID, k.Schema})
	if err != nil {
		return "", 0, err
	}
	return string(values[0]), kv.Counter(values[1]), nil
}

// Rename has the store keep another UUID of the server.
func (k Keys) Rename(tx kv.Tx, uuid string) { tx.Set(k.UUID, []byte(uuid)) }

// Sealed notes that the store encrypts values from now on, so that releases do not start which cannot read them.
func Sealed(tx kv.Tx, k Keys) { tx.Max(k.Schema, sealedSchema) }

// Incarnate returns the incarnation of the store, for jobs.Queue.Incarnation; see jobs.Keys.Incarnate. It is 0 while a
// store has none and releases may use it that know no sequences: they could not read jobs that have one.
func Incarnate(tx kv.Tx, k Keys) (int64, error) {
	values, err := tx.GetAll([][]byte{k.Schema, k.Jobs.Incarnation})
	if err != nil {
		return 0, err
	}
	const known = 2 // the first schema that no release without sequences opens
	if values[1] == nil && (len(values[0]) != 8 || binary.LittleEndian.Uint64(values[0]) < known) {
		return 0, nil
	}
	return k.Jobs.Incarnate(tx)
}

// awaitReindex notes that the store has no index yet.
func (k Keys) awaitReindex(tx kv.Tx) error {
	complete, err := k.complete(tx)
	if complete {
		tx.Set(k.Reindex, []byte{})
	}
	return err
}
