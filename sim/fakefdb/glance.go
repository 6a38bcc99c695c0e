package fakefdb

import "couchrelay/core/kv"

// Glance is a transaction that reads the present contents at once, for observers of a simulation. It is none
// of the store's transactions: it has no number and no version, takes no time and cannot fail, so that a run
// goes on as if nobody had looked. It cannot write either: a write is a fault of the observer, and panics.
func (db *Database) Glance() kv.Tx { return glance{present{db}} }

// Look is a Glance that takes a read version as transactions do: what is committed later has a higher version. Glance
// takes none, so that an observer changes no run.
func (db *Database) Look() kv.Tx {
	db.readVersion(Outcome{}, 0)
	return glance{present{db}}
}

type glance struct{ present }

const noWrites = "fakefdb: an observer writes"

// Snapshot is kv.Tx's.
func (g glance) Snapshot() kv.Reader { return g.present }

// ReadVersion is kv.Tx's.
func (g glance) ReadVersion() (int64, error) {
	g.db.mu.Lock()
	defer g.db.mu.Unlock()
	return g.db.present(), nil
}

// Watch is kv.Tx's. There is none.
func (glance) Watch(...[]byte) kv.Watch { panic("fakefdb: an observer waits") }

func (glance) Set(_, _ []byte)                    { panic(noWrites) }
func (glance) Clear([]byte)                       { panic(noWrites) }
func (glance) ClearRange(kv.Range)                { panic(noWrites) }
func (glance) Add([]byte, int64)                  { panic(noWrites) }
func (glance) Max([]byte, uint64)                 { panic(noWrites) }
func (glance) SetVersionstampedKey(_, _ []byte)   { panic(noWrites) }
func (glance) SetVersionstampedValue(_, _ []byte) { panic(noWrites) }
func (glance) AddReadConflict(kv.Range)           {}
func (glance) AddWriteConflict(kv.Range)          { panic(noWrites) }
