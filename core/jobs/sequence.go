package jobs

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Sequence orders the changes of a job's state: the later change has the greater sequence, also when the store
// was restored into another cluster, whose versions may be lower (RFC 002). All changes of a transaction have
// one. The zero value is before all, and is that of jobs which only earlier releases changed.
type Sequence struct {
	// Incarnation is the number of the store's life; see Keys.Incarnate.
	Incarnation int64
	// Version is the read version of the transaction of the change. A change has read the change before it, so
	// its read version is at least the version at which that was committed. The versionstamp of the commit would
	// do the same, but it is known to no one before the commit is done: what it is written into could not be read
	// in the same transaction, nor be cleared later without a read more.
	Version int64
}

// Compare returns -1, 0 or 1 as s is before o, the same, or after it.
func (s Sequence) Compare(o Sequence) int {
	return cmp.Or(cmp.Compare(s.Incarnation, o.Incarnation), cmp.Compare(s.Version, o.Version))
}

// String is the sequence in digits that sort as sequences do.
func (s Sequence) String() string { return fmt.Sprintf("%08x-%016x", s.Incarnation, s.Version) }

// next is the sequence of a change of a job in this transaction. It is never below the last one, even if the
// store's versions went back and the incarnation was not raised. Zero without an incarnation, which is so while
// releases that know no sequences may use the store.
func (s Sequence) next(tx kv.Tx, incarnation int64) Sequence {
	to := Sequence{Incarnation: max(incarnation, s.Incarnation)}
	if to.Incarnation == 0 {
		return to
	}
	to.Version, _ = tx.ReadVersion() // its failure is the commit's
	if to.Compare(s) < 0 {
		to.Version = s.Version + 1
	}
	return to
}

// sequence is that of a job, zero for none.
func (j *Job) sequence() Sequence {
	if j == nil {
		return Sequence{}
	}
	return j.Sequence
}

// changed moves the row of a job in the order of changes.
func (k Keys) changed(tx kv.Tx, old, to *Job) {
	oldKey, key := k.changeOf(old), k.changeOf(to)
	if bytes.Equal(oldKey, key) {
		return
	}
	if key != nil {
		tx.Set(key, nil)
	}
	if oldKey != nil {
		tx.Clear(oldKey)
	}
}

// changeOf is the row of a job's newest change, nil if there is none.
func (k Keys) changeOf(j *Job) []byte {
	if j == nil || j.Sequence == (Sequence{}) {
		return nil
	}
	return k.Changed.Pack(j.Sequence.Incarnation, j.Sequence.Version, j.ID)
}

// Incarnate returns the store's incarnation, which a process gives to its queues (Queue.Incarnation) before it
// changes jobs. It raises the number when the store's versions have gone back: then the store was restored into
// another cluster, and changes to come would sort before those that are stored. Every process that starts looks, so
// none changes a job with the old number afterwards.
func (k Keys) Incarnate(tx kv.Tx) (int64, error) {
	row, err := tx.Get(k.Incarnation)
	if err != nil {
		return 0, err
	}
	n, known, err := decodeIncarnation(row)
	if err != nil {
		return 0, err
	}
	now, err := tx.ReadVersion()
	if err != nil {
		return 0, err
	}
	change, err := k.newestChange(tx.Snapshot(), n)
	if err != nil {
		return 0, err
	}
	beat, err := k.newestBeat(tx.Snapshot())
	if err != nil {
		return 0, err
	}
	if n > 0 && change <= now && (beat <= now || beat == known) {
		return n, nil
	}
	// Reached: the versions of the store have gone back, or it is new
	tx.Set(k.Incarnation, tuple.AppendInt(tuple.AppendInt(nil, n+1), beat))
	return n + 1, nil
}

// Reincarnate raises the incarnation of a store that was restored from a backup: changes to come are after all that the
// store has, and after those that it had before it was lost, whatever clocks say. A backup that is restored twice has
// one incarnation both times, so of these two versions decide, which follow clocks. Reincarnate does nothing to a queue
// that has no incarnation.
func (k Keys) Reincarnate(tx kv.Tx) error {
	row, err := tx.Get(k.Incarnation)
	if err != nil || row == nil {
		return err
	}
	n, _, err := decodeIncarnation(row)
	if err != nil {
		return err
	}
	beat, err := k.newestBeat(tx)
	if err != nil {
		return err
	}
	tx.Set(k.Incarnation, tuple.AppendInt(tuple.AppendInt(nil, n+1), beat))
	return nil
}

// decodeIncarnation reads the row of the incarnation, which also has the version of the newest heartbeat when it was
// raised: that is of the cluster before, and no sign that the versions have gone back once more.
func decodeIncarnation(row []byte) (n, beat int64, err error) {
	if row == nil {
		return 0, 0, nil
	}
	if err := tuple.Subspace(nil).Scan(row, &n, &beat); err != nil {
		return 0, 0, fmt.Errorf("%w: incarnation: %w", ErrCorrupt, err)
	}
	return n, beat, nil
}

// newestChange is the version of the newest change in an incarnation, 0 if there is none.
func (k Keys) newestChange(r kv.Reader, incarnation int64) (version int64, err error) {
	last, err := r.GetRange(k.Changed.Sub(incarnation).Range(), kv.RangeOptions{Limit: 1, Reverse: true})
	if err != nil || len(last) == 0 {
		return 0, err
	}
	c, err := k.scanChange(last[0].Key)
	return c.Sequence.Version, err
}

// newestBeat is the version of the newest heartbeat, 0 if there is none.
func (k Keys) newestBeat(r kv.Reader) (version int64, err error) {
	beats, err := r.GetRange(k.Beat.Range(), kv.RangeOptions{})
	for _, row := range beats {
		if len(row.Value) >= 8 {
			version = max(version, int64(binary.BigEndian.Uint64(row.Value)))
		}
	}
	return version, err
}

// Change is a job and the sequence of its newest change.
type Change struct {
	ID       string
	Sequence Sequence
}

func (k Keys) scanChange(key []byte) (c Change, err error) {
	if err := k.Changed.Scan(key, &c.Sequence.Incarnation, &c.Sequence.Version, &c.ID); err != nil {
		return c, corrupt(err)
	}
	return c, nil
}

// Cursor is a place in the order of changes. The zero value is before all; Cursor{After: s} is behind the
// changes with sequence s.
type Cursor struct {
	After Sequence
	ID    string   // of the last job that was listed with sequence After; empty for all of them
	Safe  Sequence // where the next list begins, behind the end of this one; zero at the beginning of a list
}

// unsettled is for how many versions after its read version a transaction may still commit.
const unsettled = kv.MaxTxSeconds * 1_000_000

// ChangesSince lists up to limit jobs whose state changed after a cursor, in the order of their newest changes, each
// once. A job that was removed is not among them. next is where the list goes on while there is more, and where one
// begins later that is to have what changed since: a reader that goes on from next misses nothing. What changed in
// the last five seconds may come again then, for a transaction that began before it may still commit; sequences tell
// what is new.
func (k Keys) ChangesSince(tx kv.Tx, from Cursor, limit int) (list []Change, next Cursor, more bool, err error) {
	if from.Safe, err = k.safe(tx, from); err != nil {
		return nil, from, false, err
	}
	at := k.Changed.Range()
	switch {
	case from.ID != "":
		at.Begin = kv.KeyAfter(k.Changed.Pack(from.After.Incarnation, from.After.Version, from.ID))
	case from.After != (Sequence{}):
		at.Begin = k.Changed.Sub(from.After.Incarnation, from.After.Version).Range().End
	}
	limit = max(limit, 1)
	rows, err := tx.Snapshot().GetRange(at, kv.RangeOptions{Limit: limit})
	if err != nil {
		return nil, from, false, err
	}
	for _, row := range rows {
		c, err := k.scanChange(row.Key)
		if err != nil {
			return nil, from, false, err
		}
		list = append(list, c)
	}
	if len(list) < limit {
		return list, Cursor{After: from.Safe}, false, nil
	}
	last := list[limit-1]
	return list, Cursor{After: last.Sequence, ID: last.ID, Safe: from.Safe}, true, nil
}

// safe is where the next list may begin: what comes to stand before it is committed by now. It is that of the first
// page, since later pages do not see what is committed behind them.
func (k Keys) safe(tx kv.Tx, from Cursor) (Sequence, error) {
	if from.Safe != (Sequence{}) {
		return from.Safe, nil
	}
	now, err := tx.ReadVersion()
	if err != nil {
		return Sequence{}, err
	}
	row, err := tx.Snapshot().Get(k.Incarnation)
	if err != nil {
		return Sequence{}, err
	}
	n, _, err := decodeIncarnation(row)
	if err != nil {
		return Sequence{}, err
	}
	safe := Sequence{Incarnation: n, Version: now - unsettled}
	if safe.Compare(from.After) < 0 {
		safe = from.After
	}
	return safe, nil
}
