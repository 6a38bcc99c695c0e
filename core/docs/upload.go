package docs

import (
	"crypto/md5"
	"encoding/binary"
	"hash"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Upload brings an attachment's bytes into the store piece by piece, before the document that refers to
// them is written:
//
//	write some bytes; while Ready: StoreUpload in a transaction, then Stored; at the end Finish,
//	StoreUpload once more, Stored; then write the document with the upload as an attachment.
//
// An upload that no document took is removed by DiscardUpload, or else by SweepUploads.
type Upload struct {
	ID tuple.UUID // chosen by the caller, unique

	waiting  []byte // written and not stored
	pieces   int64  // stored
	length   int64
	digest   []byte // set by Finish
	md5      hash.Hash
	finished bool
}

// uploadBatch is the number of waiting bytes that are worth a transaction.
const uploadBatch = 16 * pieceSize

// NewUpload begins an upload under a unique id.
func NewUpload(id tuple.UUID) *Upload { return &Upload{ID: id, md5: md5.New()} }

// Write takes bytes; it never fails.
func (u *Upload) Write(p []byte) (int, error) {
	u.md5.Write(p)
	u.length += int64(len(p))
	u.waiting = append(u.waiting, p...)
	return len(p), nil
}

// Length is the number of bytes written.
func (u *Upload) Length() int64 { return u.length }

// Ready reports whether enough bytes wait for StoreUpload.
func (u *Upload) Ready() bool { return len(u.waiting) >= uploadBatch }

// Finish notes that all bytes were written.
func (u *Upload) Finish() { u.digest, u.finished = u.md5.Sum(nil), true }

// full returns the waiting bytes that can be stored now.
func (u *Upload) full() int {
	if u.finished {
		return len(u.waiting)
	}
	return len(u.waiting) / pieceSize * pieceSize
}

// StoreUpload stores the waiting bytes. It does not change u, so that the transaction can be repeated.
// It fails with ErrUploadGone when the upload was swept away.
func (db *Database) StoreUpload(u *Upload, now instant.Time) error {
	key := db.uploadKey(u.ID)
	if u.pieces > 0 {
		if row, err := db.tx.Get(key); err != nil || row == nil {
			return orGone(err)
		}
	}
	db.tx.Set(key, binary.BigEndian.AppendUint64(nil, uint64(now)))
	db.putPieces(u.ID, u.pieces, u.waiting[:u.full()])
	return nil
}

func orGone(err error) error {
	if err == nil {
		return ErrUploadGone
	}
	return err
}

// Stored notes that the transaction of StoreUpload was committed.
func (u *Upload) Stored() {
	n := u.full()
	u.pieces += int64(n) / pieceSize
	u.waiting = u.waiting[:copy(u.waiting, u.waiting[n:])]
}

// DiscardUpload removes the stored bytes, unless a document took them.
func (db *Database) DiscardUpload(u *Upload) error {
	row, err := db.tx.Get(db.uploadKey(u.ID))
	if err == nil && row != nil {
		db.tx.Clear(db.uploadKey(u.ID))
		db.clearBlob(u.ID)
	}
	return err
}

// SweepUploads removes up to limit uploads, of all databases, whose last piece is older than before. It
// returns their number; if it is below limit, none are left.
func (s *Store) SweepUploads(tx kv.Tx, before instant.Time, limit int) (int, error) {
	rows, err := tx.Snapshot().GetRange(s.uploads.Range(), kv.RangeOptions{})
	if err != nil {
		return 0, err
	}
	swept := 0
	for _, row := range rows {
		if swept == limit || !olderThan(row.Value, before) {
			continue
		}
		db := Database{tx: tx}
		var blob tuple.UUID
		if err := s.uploads.Scan(row.Key, &db.Instance, &blob); err != nil {
			return 0, err
		}
		tx.AddReadConflict(kv.KeyRange(row.Key)) // its writer may go on
		db.instance = s.instances.Sub(db.Instance)
		db.clearBlob(blob)
		tx.Clear(row.Key)
		swept++
	}
	return swept, nil
}

func olderThan(value []byte, t instant.Time) bool {
	return len(value) == 8 && instant.Time(binary.BigEndian.Uint64(value)) < t
}

func (db *Database) uploadKey(blob tuple.UUID) []byte {
	return db.store.uploads.Pack(db.Instance, blob)
}
