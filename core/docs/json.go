package docs

import (
	"bytes"
	"encoding/base64"
	"iter"
	"strconv"

	"couchrelay/core/docs/revtree"

	"github.com/go-json-experiment/json/jsontext"
)

// compact copies a JSON value without white space; everything else stays as it is spelled. Repeated
// names pass, as they do in CouchDB. The error is ErrJSON.
func compact(raw []byte) ([]byte, error) {
	value := jsontext.Value(bytes.Clone(raw))
	err := value.Compact(
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(false), jsontext.PreserveRawStrings(true))
	if err != nil || len(value) == 0 {
		return nil, ErrJSON
	}
	return value, nil
}

// members walks over the names, still in quotes, and values of a compact object.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		rest := object[1:]
		for len(rest) > 1 {
			n := valueLen(rest)
			v := valueLen(rest[n+1:])
			if !yield(rest[:n], rest[n+1:n+1+v]) {
				return
			}
			rest = rest[n+v+2:] // past the comma or the end
		}
	}
}

// valueLen is the length of the value that a part of a valid, compact object begins with.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default: // a literal or number: up to what ends it
			if depth > 0 {
				continue
			}
			return i + bytes.IndexAny(b[i:], ",}")
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// unquote decodes a valid JSON string.
func unquote(b []byte) string {
	if plain := b[1 : len(b)-1]; bytes.IndexByte(plain, '\\') < 0 {
		return string(plain)
	}
	s, _ := jsontext.AppendUnquote(nil, b)
	return string(s)
}

// AppendQuoted appends s as a JSON string.
func AppendQuoted(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // its error is about invalid UTF-8, which it replaces
	return dst
}

// Format says what AppendJSON shows.
type Format struct {
	Revisions bool // _revisions
	Encodings bool // encoding and encoded length of attachments that are stored encoded
	// Inline, when set, is called where the base64 text of an inline attachment belongs, with what was
	// written before, and returns what to append to: it may write dst away and the text after it, so that
	// no attachment need be in memory. Without it the text is made from the attachment's Data.
	Inline func(dst []byte, a *Attachment) []byte
}

// AppendJSON appends the document as CouchDB writes it.
func (d *Document) AppendJSON(dst []byte, f Format) []byte {
	dst = AppendQuoted(append(dst, `{"_id":`...), d.ID)
	if !d.Rev.IsZero() { // a new document, before it is written
		dst = appendRev(append(dst, `,"_rev":`...), d.Rev)
	}
	if inner := d.Body[1 : len(d.Body)-1]; len(inner) > 0 {
		dst = append(append(dst, ','), inner...)
	}
	if d.Deleted {
		dst = append(dst, `,"_deleted":true`...)
	}
	if f.Revisions && !d.Rev.IsZero() {
		dst = strconv.AppendInt(append(dst, `,"_revisions":{"start":`...), d.Rev.Gen, 10)
		dst = AppendQuoted(append(dst, `,"ids":[`...), d.Rev.ID)
		for _, id := range d.Ancestors {
			dst = AppendQuoted(append(dst, ','), id)
		}
		dst = append(dst, "]}"...)
	}
	dst = d.Meta.append(dst)
	if len(d.Attachments) > 0 {
		dst = append(dst, `,"_attachments":{`...)
		for i := range d.Attachments {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = d.Attachments[i].append(dst, f)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func appendRev(dst []byte, rev revtree.Rev) []byte { return AppendQuoted(dst, rev.String()) }

// AppendRevs appends revisions as a JSON array.
func AppendRevs(dst []byte, revs []revtree.Rev) []byte {
	dst = append(dst, '[')
	for i, rev := range revs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendRev(dst, rev)
	}
	return append(dst, ']')
}

func (m *Meta) append(dst []byte) []byte {
	if m.RevsInfo != nil {
		dst = append(dst, `,"_revs_info":[`...)
		for i, info := range m.RevsInfo {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendRev(append(dst, `{"rev":`...), info.Rev)
			dst = AppendQuoted(append(dst, `,"status":`...), info.Status)
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	if m.LocalSeq != nil {
		dst = AppendQuoted(append(dst, `,"_local_seq":`...), m.LocalSeq.String())
	}
	if len(m.Conflicts) > 0 {
		dst = AppendRevs(append(dst, `,"_conflicts":`...), m.Conflicts)
	}
	if len(m.DeletedConflicts) > 0 {
		dst = AppendRevs(append(dst, `,"_deleted_conflicts":`...), m.DeletedConflicts)
	}
	return dst
}

func (a *Attachment) append(dst []byte, f Format) []byte {
	dst = append(AppendQuoted(dst, a.Name), ':')
	dst = AppendQuoted(append(dst, `{"content_type":`...), a.Type)
	dst = strconv.AppendInt(append(dst, `,"revpos":`...), a.RevPos, 10)
	dst = append(append(append(dst, `,"digest":"`...), a.DigestText()...), '"')
	switch a.Content {
	case Inline:
		dst = append(dst, `,"data":"`...)
		if f.Inline != nil {
			dst = f.Inline(dst, a)
		} else {
			dst = base64.StdEncoding.AppendEncode(dst, a.Data)
		}
		dst = append(dst, '"')
	case Follows:
		dst = append(strconv.AppendInt(append(dst, `,"length":`...), a.Length, 10), `,"follows":true`...)
	default:
		dst = append(strconv.AppendInt(append(dst, `,"length":`...), a.Length, 10), `,"stub":true`...)
	}
	if f.Encodings && a.Encoding != "" {
		dst = AppendQuoted(append(dst, `,"encoding":`...), a.Encoding)
		dst = strconv.AppendInt(append(dst, `,"encoded_length":`...), a.EncodedLength, 10)
	}
	return append(dst, '}')
}
