package partheader

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestPartHeaders: control characters are replaced in headers alone, whatever the size of packets.
func TestPartHeaders(t *testing.T) {
	data := "\r\r\n--inne\r\n\r\n\n\x00\r\n--innermost\x7f\n\r\n--inner\r\r"
	empty := "\r\n--inner\r\n\r\n\r\n--inner\r\n"
	body := "--inner\r\nA: \n\r\nB: \r\x01\tü\r\r\n\r\n" + data + empty + "C:\n\r\n\r\n" + data + "\r\n--inner--"
	want := "--inner\r\nA: _\r\nB: __\tü_\r\n\r\n" + data + empty + "C:_\r\n\r\n" + data + "\r\n--inner--"
	for name, split := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader,
		"halves": iotest.HalfReader, "late errors": iotest.DataErrReader,
	} {
		got, err := io.ReadAll(split(NewReader(split(strings.NewReader(body)), "inner")))
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%q\n%q", name, err, got, want)
		}
	}
}
