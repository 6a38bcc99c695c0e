package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"couchrelay/adapters/descriptors"
	"couchrelay/core/instant"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// The store's own keys. No transaction can write keys that begin with 0xff.
var (
	formatKey  = []byte("\xffformat")  // value: formatName and a number in decimal
	versionKey = []byte("\xffversion") // value: the version of the last group, 8 bytes big-endian
)

const (
	formatName = "couchrelay "
	format     = 1 // the format that this release writes, and the highest that it reads
)

// openPebble opens Pebble, with few resources, since it shares the machine with the service. When a write
// fails, the goroutine that opens it may wait for ever, and is left behind.
func (db *Database) openPebble(o Options) error {
	options := &pebble.Options{
		FS:                         files{o.FS, db.failure},
		Lock:                       db.lock,
		Cache:                      db.cache,
		Logger:                     pebbleLog{db.failure},
		EventListener:              db.failure.listener(),
		FormatMajorVersion:         pebble.FormatNewest,
		MemTableSize:               16 << 20,
		MaxOpenFiles:               descriptors.StoreFiles(descriptors.Limit()),
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	// The default scheduler also wakes up ten times a second to see whether more compactions may run. This
	// one only checks when a flush or a compaction ends, which is enough, and lets an idle store sleep.
	scheduler := pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	options.Experimental.CompactionScheduler = scheduler
	return db.whileGood(func() (err error) {
		db.pebble, err = pebble.Open(db.dir, options)
		if err != nil && strings.Contains(err.Error(), "unknown format major version") {
			err = fmt.Errorf("%w (%w)", ErrNewer, err)
		}
		if pebble.IsCorruptionError(err) {
			err = fmt.Errorf("%w (%w)", ErrDamaged, err)
		}
		return err
	})
}

// load reads, or in a new store writes, the store's own keys.
func (db *Database) load() error {
	stored, err := db.stored(formatKey)
	if err != nil {
		return err
	}
	if stored == nil {
		return db.initialize()
	}
	number, isOurs := bytes.CutPrefix(stored, []byte(formatName))
	n, err := strconv.Atoi(string(number))
	switch {
	case !isOurs || err != nil || n < 1:
		return fmt.Errorf("the format marker is %q, not one of couchrelay", stored)
	case n > format:
		return fmt.Errorf("%w: it has format %d and this one knows up to %d", ErrNewer, n, format)
	}
	version, err := db.stored(versionKey)
	if err != nil {
		return err
	}
	if len(version) != 8 {
		return errors.New("the version of the last commit is missing")
	}
	db.begin(int64(binary.BigEndian.Uint64(version)))
	return nil
}

// stored returns the value of one of the store's own keys, nil if there is none.
func (db *Database) stored(key []byte) ([]byte, error) {
	v, closer, err := db.pebble.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return bytes.Clone(v), nil
}

// initialize writes the store's own keys into a new store. It refuses a Pebble database that has other keys.
func (db *Database) initialize() error {
	it, err := db.pebble.NewIter(nil)
	if err != nil {
		return err
	}
	foreign := it.First()
	if err := it.Close(); err != nil {
		return err
	}
	if foreign {
		return errors.New("the directory holds the database of another program")
	}
	batch := db.pebble.NewBatch()
	defer batch.Close()
	const version = 1
	if err := batch.Set(formatKey, fmt.Appendf(nil, "%s%d", formatName, format), nil); err != nil {
		return err
	}
	if err := setVersion(batch, version); err != nil {
		return err
	}
	if err := batch.Commit(pebble.Sync); err != nil {
		return err
	}
	db.begin(version)
	return nil
}

// setVersion stores the version of the group that a batch is. After a crash the store continues above it.
func setVersion(batch *pebble.Batch, version int64) error {
	return batch.Set(versionKey, binary.BigEndian.AppendUint64(nil, uint64(version)), nil)
}

// begin sets the store's time and takes the first view. The time starts above the stored version even if the
// clock is behind it, so versions never go back.
func (db *Database) begin(version int64) {
	db.start = db.clock.Now()
	db.base = max(instant.Of(db.start), instant.Time(version+1))
	db.view = db.newView(version)
}
