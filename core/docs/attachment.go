package docs

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Attachment describes an attachment of a document, and where its bytes are.
type Attachment struct {
	Name          string     `json:"name"`
	Type          string     `json:"type"`
	RevPos        int64      `json:"revpos"` // generation in which it was added; 0 if the writer gave none
	Digest        []byte     `json:"digest"` // MD5 of the stored bytes; nil if the writer gave none
	Length        int64      `json:"length"` // bytes after decoding, or stored bytes if that is not known
	Encoding      string     `json:"encoding,omitempty"`
	EncodedLength int64      `json:"encoded_length,omitempty"` // stored bytes, if there is an encoding
	Blob          tuple.UUID `json:"blob"`                     // the stored bytes; set by this package

	Content Content `json:"-"`
	Data    []byte  `json:"-"` // the bytes, if Inline
	Upload  *Upload `json:"-"` // the bytes, if Uploaded
}

// Content is the place of an attachment's bytes.
type Content uint8

// Places of an attachment's bytes.
const (
	Stub     Content = iota // in the store: those of the same name in the revision that is replaced
	Inline                  // in Data
	Uploaded                // in the store, put there by an Upload
	Follows                 // behind the document; the code that reads them there makes them Inline or Uploaded
)

// Size returns the number of stored bytes.
func (a *Attachment) Size() int64 {
	if a.Encoding != "" {
		return a.EncodedLength
	}
	return a.Length
}

// DigestText returns the digest as clients see it: md5- and base64.
func (a *Attachment) DigestText() string { return "md5-" + base64.StdEncoding.EncodeToString(a.Digest) }

// ValidAttachmentName checks a name by CouchDB's rules.
func ValidAttachmentName(name string) error {
	if strings.HasPrefix(name, "_") {
		return BadRequest("Attachment name '%s' starts with prohibited character '_'", name)
	}
	if name == "" {
		return BadRequest("Attachment name must not be empty")
	}
	if !utf8.ValidString(name) {
		return BadRequest("Attachment name is not UTF-8 encoded")
	}
	return nil
}

// parseAttachments reads the value of _attachments.
func parseAttachments(value []byte) ([]Attachment, error) {
	if value[0] != '{' {
		return nil, invalidDocument("Bad special document member: _attachments")
	}
	var list []Attachment
	seen := map[string]bool{}
	for rawName, val := range members(value) {
		name := unquote(rawName)
		if err := ValidAttachmentName(name); err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, BadRequest("Duplicate attachments")
		}
		seen[name] = true
		a, err := parseAttachment(name, val)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

func parseAttachment(name string, value []byte) (Attachment, error) {
	var v struct {
		Type          string `json:"content_type"`
		RevPos        int64
		Digest        string
		Length        int64
		Encoding      string
		EncodedLength int64 `json:"encoded_length"`
		Stub, Follows bool
		Data          *[]byte
	}
	invalid := BadRequest("Invalid attachment data for %s", name)
	if json.Decode(value, &v) != nil || v.Length < 0 || v.EncodedLength < 0 {
		return Attachment{}, invalid
	}
	a := Attachment{Name: name, Type: v.Type, RevPos: v.RevPos, Length: v.Length}
	if a.Type == "" {
		a.Type = "application/octet-stream"
	}
	if text, found := strings.CutPrefix(v.Digest, "md5-"); found {
		if digest, err := base64.StdEncoding.DecodeString(text); err == nil && len(digest) == md5.Size {
			a.Digest = digest
		}
	}
	switch {
	case v.Stub:
		a.Content = Stub
	case v.Follows:
		a.Content = Follows
	case v.Data != nil:
		a.Content, a.Data, a.Digest, a.Length = Inline, *v.Data, nil, int64(len(*v.Data))
		return a, nil // what is inline is not encoded
	default:
		return Attachment{}, invalid
	}
	switch v.Encoding {
	case "", "identity":
	case "gzip":
		a.Encoding, a.EncodedLength = v.Encoding, v.EncodedLength
		if a.EncodedLength == 0 {
			a.EncodedLength = v.Length
		}
	default:
		return Attachment{}, BadRequest("Attachment %s has encoding %s; gzip and identity are supported",
			name, v.Encoding)
	}
	return a, nil
}

// attach finds the bytes of a document's attachments, and returns the writes that store those which are not
// in the store. near is the replaced revision, nil if there is none; far are other leaves.
func (db *Database) attach(d, near *Document, far func() ([]*Document, error)) (put func(), err error) {
	var puts []func()
	known := stored{near: byName(near), read: far}
	for i := range d.Attachments {
		a := &d.Attachments[i]
		switch a.Content {
		case Stub:
			found, err := known.find(a)
			if err != nil {
				return nil, err
			}
			if found == nil {
				return nil, &Error{Precondition, "missing_stub",
					"Invalid attachment stub in " + d.ID + " for " + a.Name}
			}
			*a = *found
		case Inline:
			sum := md5.Sum(a.Data)
			if err := a.settle(blobOf(d.ID, a.Data), sum[:], int64(len(a.Data))); err != nil {
				return nil, err
			}
			puts = append(puts, func() { db.putPieces(a.Blob, 0, a.Data) })
		case Uploaded:
			key := db.uploadKey(a.Upload.ID)
			row, err := db.tx.Get(key)
			if err != nil {
				return nil, err
			}
			if row == nil {
				return nil, ErrUploadGone
			}
			if err := a.settle(a.Upload.ID, a.Upload.digest, a.Upload.length); err != nil {
				return nil, err
			}
			puts = append(puts, func() { db.tx.Clear(key) })
		default:
			return nil, BadRequest("Attachment %s must follow in a multipart request", a.Name)
		}
	}
	return func() {
		for _, put := range puts {
			put()
		}
	}, nil
}

// stored are the attachments that the stubs of a document may stand for. There may be tens of thousands of them.
type stored struct {
	near map[string]*Attachment   // of the replaced revision
	far  []map[string]*Attachment // of other leaves, once they are read
	read func() ([]*Document, error)
}

// find returns the attachment that a stub stands for, nil if there is none. It is the attachment of that name in
// the replaced revision, if the stub names no generation or the same; otherwise one of that name and digest in
// another leaf.
func (s *stored) find(stub *Attachment) (*Attachment, error) {
	if a := s.near[stub.Name]; a != nil && (stub.RevPos == 0 || a.RevPos == stub.RevPos) {
		return a, nil
	}
	if stub.Digest == nil {
		return nil, nil
	}
	if s.read != nil {
		leaves, err := s.read()
		if err != nil {
			return nil, err
		}
		for _, d := range leaves {
			s.far = append(s.far, byName(d))
		}
		s.read = nil
	}
	for _, names := range s.far {
		if a := names[stub.Name]; a != nil && bytes.Equal(a.Digest, stub.Digest) {
			return a, nil
		}
	}
	return nil, nil
}

// byName has the attachments of a document, which may be nil.
func byName(d *Document) map[string]*Attachment {
	names := map[string]*Attachment{}
	for i := 0; d != nil && i < len(d.Attachments); i++ {
		names[d.Attachments[i].Name] = &d.Attachments[i]
	}
	return names
}

// settle sets the place, digest and length of the attachment's bytes, now that they are known. It refuses bytes
// that do not have the digest which the writer gave.
func (a *Attachment) settle(blob tuple.UUID, digest []byte, stored int64) error {
	if a.Digest != nil && !bytes.Equal(a.Digest, digest) {
		return &Error{Invalid, "content_md5_mismatch",
			"The bytes of attachment " + a.Name + " do not match its digest."}
	}
	a.Digest, a.Blob = digest, blob
	if a.Encoding != "" {
		a.EncodedLength = stored
	}
	if a.Encoding == "" || a.Length == 0 {
		a.Length = stored
	}
	return nil
}

// blobOf returns the id of inline bytes. It depends on them, so that repetitions, and equal bytes within a
// document, are stored once.
func blobOf(id string, data []byte) (blob tuple.UUID) {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(id))))
	h.Write([]byte(id))
	h.Write(data)
	copy(blob[:], h.Sum(nil))
	return blob
}

// pieceSize is the length of every stored piece of an attachment but the last.
const pieceSize = 1 << 16

func (db *Database) putPieces(blob tuple.UUID, first int64, data []byte) {
	for ; len(data) > 0; first++ {
		n := min(len(data), pieceSize)
		db.tx.Set(db.pieceKey(blob, first), data[:n])
		data = data[n:]
	}
}

func (db *Database) pieceKey(blob tuple.UUID, n int64) []byte {
	return tuple.AppendInt(db.blobKey(blob), n)
}

func (db *Database) blobKey(blob tuple.UUID) []byte {
	return tuple.AppendUUID(db.start(keyBlob, len(blob)+10), blob)
}

func (db *Database) clearBlob(blob tuple.UUID) {
	db.tx.ClearRange(tuple.Subspace(db.blobKey(blob)).Range())
}

// ReadAttachment returns up to limit of the stored bytes from offset on, none at the end. It fails with
// ErrMissing if the attachment was removed after its document was read.
func (db *Database) ReadAttachment(a *Attachment, offset int64, limit int) ([]byte, error) {
	want := min(int64(limit), a.Size()-offset)
	if want <= 0 {
		return nil, nil
	}
	first, last := offset/pieceSize, (offset+want-1)/pieceSize
	pieces := kv.Range{Begin: db.pieceKey(a.Blob, first), End: db.pieceKey(a.Blob, last+1)}
	rows, err := db.tx.GetRange(pieces, kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, min((last+1)*pieceSize, a.Size())-first*pieceSize)
	for _, row := range rows {
		data = append(data, row.Value...)
	}
	skip := offset - first*pieceSize
	if int64(len(data)) < skip+want {
		return nil, ErrMissing
	}
	return data[skip : skip+want], nil
}
