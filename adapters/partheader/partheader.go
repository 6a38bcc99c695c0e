// Package partheader reads the headers of parts that CouchDB writes: names and types of attachments are there as they
// are, also with control characters.
package partheader

import (
	"bufio"
	"bytes"
	"io"
)

// Reader reads a multipart body with such characters replaced by underscores, one for each byte, since mime/multipart
// would take the header, or the body, for malformed. The document's JSON has names and types as they are. A line end
// (both its bytes) in a name or a type cannot be told from one of the header.
type Reader struct {
	from      *bufio.Reader
	delimiter []byte // the line behind which a header begins, with both its ends
	matched   int    // bytes of delimiter that the last bytes read are
	inHeader  bool   // the delimiter has come, and the empty line behind the header has not
	ends      int    // line ends that the last bytes read are, in a header
	last      byte   // read last
}

// NewReader returns a reader of a body whose parts boundary separates.
func NewReader(from io.Reader, boundary string) *Reader {
	const lineEnd = 2 // the first delimiter begins the body, without a line end before it
	delimiter := []byte("\r\n--" + boundary + "\r\n")
	return &Reader{from: bufio.NewReader(from), delimiter: delimiter, matched: lineEnd}
}

func (h *Reader) Read(p []byte) (int, error) {
	n, err := h.from.Read(p)
	for i := 0; i < n; i++ {
		if !h.inHeader && h.matched == 0 { // skip the bytes of an attachment
			next := bytes.IndexByte(p[i:n], '\r')
			if next < 0 {
				break
			}
			i += next
		}
		if c := p[i]; !h.inHeader {
			h.match(c)
		} else {
			p[i] = h.clean(c, func() byte { return h.next(p[i+1 : n]) })
		}
	}
	return n, err
}

// match looks for the delimiter. Where it breaks off, it can begin anew with a carriage return alone.
func (h *Reader) match(c byte) {
	switch {
	case c == h.delimiter[h.matched]:
		h.matched++
	case c == '\r':
		h.matched = 1
	default:
		h.matched = 0
	}
	if h.matched == len(h.delimiter) {
		h.inHeader, h.matched, h.ends, h.last = true, 0, 1, c
	}
}

// clean returns a byte of a header as it is passed on. next returns the byte behind it.
func (h *Reader) clean(c byte, next func() byte) byte {
	switch {
	case c == '\r' && next() == '\n':
	case c == '\n' && h.last == '\r':
		h.ends++
		h.inHeader = h.ends < 2
	default:
		h.ends = 0
		if c < ' ' && c != '\t' || c == 0x7f {
			c = '_'
		}
	}
	h.last = c
	return c
}

// next returns the byte behind the present one: the first of read, the bytes that were read with it, or else the one
// that the next Read begins with; 0 at the end.
func (h *Reader) next(read []byte) byte {
	if len(read) > 0 {
		return read[0]
	}
	if ahead, err := h.from.Peek(1); err == nil {
		return ahead[0]
	}
	return 0
}
