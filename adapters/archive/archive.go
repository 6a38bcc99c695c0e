// Package archive is the format of backups: the rows of a store as of one moment, in one stream that can be checked.
//
//	"couchrelay backup\n"
//	frame*
//
// A frame is its kind (a byte), the length of its content (4 bytes, big-endian), the content, and a CRC-32C of the
// checksum before it, kind, length and content. So a frame that was changed, left out, doubled or moved is noticed.
// The first frame has kind 'h' and a Head as JSON, the last one kind 'e' and a Tail as JSON: without that a backup is
// not whole. Between them are frames of kind 'r' with rows in ascending order. A row has three numbers as unsigned
// varints: how many bytes its key has in common with the key before it in the frame, how many more it has, and the
// length of the value; then the rest of the key and the value.
//
// The number of rows is in the tail, since it is known at the end only: a store is not read twice for it. Values are as
// the store has them: those that are sealed there are sealed in the backup.
package archive

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

const (
	magic = "couchrelay backup\n"
	// format is the version that this release writes, and the highest that it reads.
	format = 1

	headFrame, rowsFrame, tailFrame = 'h', 'r', 'e'

	// frameSize is about how long a frame of rows is.
	frameSize = 256 << 10
	// maxFrame is the longest frame that is read. The largest row fits into it many times.
	maxFrame = 4 << 20

	frameHeader, checksumSize = 5, 4
)

// Errors of backups that cannot be used.
var (
	ErrForeign = errors.New("this is no backup of couchrelay")
	ErrNewer   = errors.New("the backup was written by a newer release")
	ErrDamaged = errors.New("the backup is damaged")
)

// Head says what a backup is of.
type Head struct {
	Format    int       `json:"format"`
	Release   string    `json:"release"`
	Made      time.Time `json:"made"`
	UUID      string    `json:"uuid"` // of the server
	KeyPrefix string    `json:"key_prefix"`
	Schema    int64     `json:"schema"`  // of the store
	Version   int64     `json:"version"` // of the store's last commit
}

// Tail says how much a backup has.
type Tail struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"` // of keys and values
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chain is the checksum of a frame behind another one.
func chain(before uint32, header, content []byte) uint32 {
	return crc32.Update(crc32.Update(before, castagnoli, header), castagnoli, content)
}

// Writer writes a backup.
type Writer struct {
	w     io.Writer
	frame []byte // with room for its header
	last  []byte // key in the frame
	sum   uint32
	tail  Tail
}

// NewWriter begins a backup. It writes a frame at a time, so a buffer before w is of no use.
func NewWriter(w io.Writer, h Head) (*Writer, error) {
	h.Format = format
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	a := &Writer{w: w, frame: make([]byte, frameHeader, frameSize+frameSize/4)}
	if _, err := io.WriteString(w, magic); err != nil {
		return nil, err
	}
	a.frame = append(a.frame, text...)
	return a, a.flush(headFrame)
}

// Row adds a row. Keys come in ascending order.
func (a *Writer) Row(key, value []byte) error {
	common := 0
	for common < min(len(key), len(a.last)) && key[common] == a.last[common] {
		common++
	}
	a.frame = binary.AppendUvarint(a.frame, uint64(common))
	a.frame = binary.AppendUvarint(a.frame, uint64(len(key)-common))
	a.frame = binary.AppendUvarint(a.frame, uint64(len(value)))
	a.frame = append(append(a.frame, key[common:]...), value...)
	a.last = append(a.last[:0], key...)
	a.tail.Rows++
	a.tail.Bytes += int64(len(key) + len(value))
	if len(a.frame) < frameSize {
		return nil
	}
	return a.flush(rowsFrame)
}

// flush writes a frame.
func (a *Writer) flush(kind byte) error {
	a.frame[0] = kind
	binary.BigEndian.PutUint32(a.frame[1:], uint32(len(a.frame)-frameHeader))
	a.sum = chain(a.sum, a.frame[:frameHeader], a.frame[frameHeader:])
	_, err := a.w.Write(binary.BigEndian.AppendUint32(a.frame, a.sum))
	a.frame, a.last = a.frame[:frameHeader], a.last[:0]
	return err
}

// Close ends the backup, which is whole then.
func (a *Writer) Close() (Tail, error) {
	if len(a.frame) > frameHeader {
		if err := a.flush(rowsFrame); err != nil {
			return a.tail, err
		}
	}
	text, err := json.Marshal(a.tail)
	if err != nil {
		return a.tail, err
	}
	a.frame = append(a.frame, text...)
	return a.tail, a.flush(tailFrame)
}

// Reader reads a backup.
type Reader struct {
	Head Head

	r     io.Reader
	at    int64 // bytes read
	sum   uint32
	frame []byte // what is left of the frame of rows
	key   []byte
	space []byte // of frames
	ended bool
	tail  Tail
	seen  Tail
}

// NewReader reads the head of a backup.
func NewReader(r io.Reader) (*Reader, error) {
	a := &Reader{r: r}
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(r, start); err != nil || string(start) != magic {
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		return nil, ErrForeign
	}
	a.at = int64(len(magic))
	kind, text, err := a.next()
	switch {
	case err != nil:
		return nil, err
	case kind != headFrame || json.Unmarshal(text, &a.Head) != nil:
		return nil, a.damaged("the head cannot be read")
	case a.Head.Format > format:
		return nil, fmt.Errorf("%w: it has format %d, and this one knows up to %d", ErrNewer, a.Head.Format, format)
	}
	return a, nil
}

func (a *Reader) damaged(what string) error {
	return fmt.Errorf("%w at byte %d: %s", ErrDamaged, a.at, what)
}

// next reads a frame, whose content is good until the next one.
func (a *Reader) next() (kind byte, content []byte, err error) {
	var header [frameHeader]byte
	if err := a.fill(header[:]); err != nil {
		return 0, nil, err
	}
	size := int(binary.BigEndian.Uint32(header[1:]))
	if size > maxFrame {
		return 0, nil, a.damaged("a part of it is too long")
	}
	if cap(a.space) < size+checksumSize {
		a.space = make([]byte, max(size+checksumSize, frameSize+frameSize/2))
	}
	all := a.space[:size+checksumSize]
	if err := a.fill(all); err != nil {
		return 0, nil, err
	}
	content = all[:size]
	if a.sum = chain(a.sum, header[:], content); binary.BigEndian.Uint32(all[size:]) != a.sum {
		return 0, nil, a.damaged("the checksum is wrong")
	}
	a.at += int64(frameHeader + len(all))
	return header[0], content, nil
}

// fill reads all of b.
func (a *Reader) fill(b []byte) error {
	_, err := io.ReadFull(a.r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return a.damaged("it ends there, and should go on")
	}
	return err
}

// Next returns the next row, whose key and value are good until the next call. After the last one it returns io.EOF;
// then the backup is whole.
func (a *Reader) Next() (key, value []byte, err error) {
	for len(a.frame) == 0 {
		if a.ended {
			return nil, nil, io.EOF
		}
		kind, content, err := a.next()
		switch {
		case err != nil:
			return nil, nil, err
		case kind == rowsFrame:
			a.frame, a.key = content, a.key[:0]
		case kind != tailFrame || json.Unmarshal(content, &a.tail) != nil || a.tail != a.seen:
			return nil, nil, a.damaged("the end does not fit what was before it")
		default:
			if n, _ := io.ReadFull(a.r, make([]byte, 1)); n > 0 {
				return nil, nil, a.damaged("there is something behind its end")
			}
			a.ended = true
		}
	}
	return a.row()
}

// row takes a row from the frame.
func (a *Reader) row() (key, value []byte, err error) {
	var sizes [3]uint64
	rest := a.frame
	for i := range sizes {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > maxFrame {
			return nil, nil, a.damaged("a row cannot be read")
		}
		sizes[i], rest = n, rest[used:]
	}
	common, more, size := int(sizes[0]), int(sizes[1]), int(sizes[2])
	if common > len(a.key) || more+size > len(rest) {
		return nil, nil, a.damaged("a row cannot be read")
	}
	a.key = append(a.key[:common], rest[:more]...)
	value, a.frame = rest[more:more+size:more+size], rest[more+size:]
	a.seen.Rows++
	a.seen.Bytes += int64(len(a.key) + size)
	return a.key, value, nil
}

// Tail is what the whole backup has, once Next has returned io.EOF.
func (a *Reader) Tail() Tail { return a.tail }
