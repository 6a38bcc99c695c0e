package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// written is a backup of so many rows.
func written(t testing.TB, rows int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Head{Release: "1", Made: time.Unix(1, 0).UTC(), UUID: "u", Version: 7})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := w.Row(rowOf(i)); err != nil {
			t.Fatal(err)
		}
	}
	tail, err := w.Close()
	if err != nil || tail.Rows != int64(rows) {
		t.Fatal(tail, err)
	}
	return b.Bytes()
}

func rowOf(i int) (key, value []byte) {
	return fmt.Appendf(nil, "key/%06d", i), bytes.Repeat([]byte{byte(i)}, i%300)
}

// read reads a backup to its end.
func read(text []byte) (rows int, err error) {
	r, err := NewReader(bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	for {
		key, value, err := r.Next()
		if err == io.EOF && r.Tail().Rows == int64(rows) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		k, v := rowOf(rows)
		if !bytes.Equal(key, k) || !bytes.Equal(value, v) {
			return rows, fmt.Errorf("row %d is %q", rows, key)
		}
		rows++
	}
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 2, 10_000} {
		text := written(t, n)
		if rows, err := read(text); rows != n || err != nil {
			t.Errorf("%d rows come back as %d, %v", n, rows, err)
		}
		r, err := NewReader(bytes.NewReader(text))
		if want := (Head{1, "1", time.Unix(1, 0).UTC(), "u", "", 0, 7}); err != nil || r.Head != want {
			t.Errorf("the head is %+v, %v", r.Head, err)
		}
	}
}

// TestDamages: whatever byte is changed, and wherever a backup is cut, it is noticed.
func TestDamages(t *testing.T) {
	text := written(t, 30)
	for i := range text {
		for _, flip := range []byte{1, 0x80} {
			bad := bytes.Clone(text)
			bad[i] ^= flip
			if _, err := read(bad); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
				t.Fatalf("byte %d changed: %v", i, err)
			}
		}
		if _, err := read(text[:i]); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
			t.Fatalf("cut at byte %d: %v", i, err)
		}
	}
	if _, err := read(append(bytes.Clone(text), 'x')); !errors.Is(err, ErrDamaged) {
		t.Errorf("with more behind it: %v", err)
	}
	large := written(t, 10_000) // of several frames
	size := frameHeader + checksumSize
	first := bytes.IndexByte(large, '}') + 1 + checksumSize
	next := first + size + int(large[first+2])<<16 + int(large[first+3])<<8 + int(large[first+4])
	if _, err := read(append(bytes.Clone(large[:first]), large[next:]...)); !errors.Is(err, ErrDamaged) {
		t.Errorf("without a part: %v", err)
	}
	twice := append(append(bytes.Clone(large[:next]), large[first:next]...), large[next:]...)
	if _, err := read(twice); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a part twice: %v", err)
	}
}

func TestForeign(t *testing.T) {
	for _, text := range []string{"", "x", strings.Repeat("x", 100)} {
		if _, err := read([]byte(text)); !errors.Is(err, ErrForeign) {
			t.Errorf("%q: %v", text, err)
		}
	}
	var b bytes.Buffer
	_, _ = b.WriteString(magic)
	w := &Writer{w: &b, frame: append(make([]byte, frameHeader), `{"format":2}`...)}
	_ = w.flush(headFrame)
	if _, err := read(b.Bytes()); !errors.Is(err, ErrNewer) {
		t.Errorf("a later format: %v", err)
	}
}
