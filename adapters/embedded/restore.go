package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// unfinished is a file that is in the directory before anything else of a store that is restored, and goes last. A row
// would come too late: a crash before it would leave what passes for a new store.
const unfinished = "RESTORING"

// Errors of stores that are restored.
var (
	// ErrUnfinished means that a restore was broken off. The store is of no use.
	ErrUnfinished = errors.New("a restore into this directory did not come to its end: remove all files in it but " +
		"secret.key, and restore again")
	// ErrNotEmpty means that there is something where a store is to be restored.
	ErrNotEmpty = errors.New("the directory is not empty; a store is restored into an empty one")
)

// beside are files that may be in the directory of a store that is restored.
var beside = map[string]bool{"lost+found": true, "secret.key": true}

// restoreBytes is about how many bytes of rows are written at once.
const restoreBytes = 4 << 20

// Restore makes a store in an empty directory, of the rows that fill puts in ascending order, and of what finish does
// with the store then. Versions go on above the one that is given. Until all has succeeded nothing opens the store,
// also after a crash; after an error no file is left.
func Restore(dir string, o Options, version int64, fill func(put func(key, value []byte) error) error,
	finish func(*Database) error) error {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	err := restore(dir, o, version, fill, finish)
	if err != nil && !errors.Is(err, ErrNotEmpty) && !errors.Is(err, ErrInUse) && !errors.Is(err, ErrUnfinished) {
		err = errors.Join(err, clean(dir, o.FS))
	}
	if err != nil {
		return fmt.Errorf("restore into %s: %w", dir, err)
	}
	return nil
}

func restore(dir string, o Options, version int64, fill func(put func(key, value []byte) error) error,
	finish func(*Database) error) error {
	if err := makeDirectory(dir, o.FS); err != nil {
		return err
	}
	names, err := o.FS.List(dir)
	if err != nil {
		return err
	}
	if slices.Contains(names, unfinished) {
		return brokenOff(dir, o.FS)
	}
	for _, name := range names {
		if !beside[name] {
			return fmt.Errorf("%w: there is %q", ErrNotEmpty, name)
		}
	}
	if err := markUnfinished(dir, o.FS); err != nil {
		return err
	}
	o.restored = func(db *Database) error { return db.fill(version, fill) }
	db, err := open(dir, o)
	if err != nil {
		return err
	}
	if err := finish(db); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := db.Close(); err != nil {
		return err
	}
	return unmark(dir, o.FS)
}

// brokenOff is ErrUnfinished, unless the restore that has begun there is under way.
func brokenOff(dir string, files vfs.FS) error {
	lock, err := pebble.LockDirectory(dir, files)
	if err != nil {
		return lockError(err)
	}
	return errors.Join(ErrUnfinished, lock.Close())
}

// markUnfinished has the directory hold no store until unmark.
func markUnfinished(dir string, files vfs.FS) error {
	mark, err := files.Create(files.PathJoin(dir, unfinished), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return errors.Join(mark.Close(), syncDirectory(dir, files))
}

// unmark takes the mark away, once all else in the directory is durable.
func unmark(dir string, files vfs.FS) error {
	return errors.Join(files.Remove(files.PathJoin(dir, unfinished)), syncDirectory(dir, files))
}

// clean removes the files of a store that was not restored, the mark last: a part of them must not pass for a store.
// Without the mark there is nothing of it.
func clean(dir string, files vfs.FS) error {
	names, err := files.List(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it could not be made
		return nil
	case err != nil || !slices.Contains(names, unfinished):
		return err
	}
	for _, name := range names {
		if !beside[name] && name != unfinished {
			err = errors.Join(err, files.RemoveAll(files.PathJoin(dir, name)))
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(syncDirectory(dir, files), unmark(dir, files))
}

// fill writes the rows of a restored store, and its own.
func (db *Database) fill(version int64, rows func(put func(key, value []byte) error) error) error {
	batch := db.pebble.NewBatch()
	flush := func(o *pebble.WriteOptions) error {
		err := batch.Commit(o)
		batch.Reset()
		return err
	}
	err := rows(func(key, value []byte) error {
		if len(key) == 0 || key[0] == 0xff {
			return fmt.Errorf("the row %q is none of a store", key)
		}
		if err := batch.Set(key, value, nil); err != nil {
			return err
		}
		if batch.Len() < restoreBytes {
			return nil
		}
		return flush(pebble.NoSync)
	})
	if err != nil {
		return err
	}
	if err := flush(pebble.NoSync); err != nil {
		return err
	}
	if err := db.pebble.Flush(); err != nil { // all rows are on the disk
		return err
	}
	own := binary.BigEndian.AppendUint64(nil, uint64(version))
	if err := batch.Set(versionKey, own, nil); err != nil {
		return err
	}
	if err := batch.Set(formatKey, fmt.Appendf(nil, "%s%d", formatName, format), nil); err != nil {
		return err
	}
	return flush(pebble.Sync)
}
