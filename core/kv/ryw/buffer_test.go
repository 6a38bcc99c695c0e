package ryw

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/resolver"
)

func TestLimits(t *testing.T) {
	long, big := bytes.Repeat([]byte("k"), kv.MaxKeySize+1), make([]byte, kv.MaxValueSize+1)
	key, system := []byte("k"), []byte("\xffk")
	at10 := []byte{10, 0, 0, 0} // where a versionstamp stands
	for name, c := range map[string]struct {
		do   func(b *Buffer)
		want kv.Code
	}{
		"longest key":  {func(b *Buffer) { b.Set(long[1:], big[1:]) }, 0},
		"key":          {func(b *Buffer) { b.Set(long, nil) }, kv.KeyTooLarge},
		"value":        {func(b *Buffer) { b.Set(key, big) }, kv.ValueTooLarge},
		"add key":      {func(b *Buffer) { b.Add(long, 1) }, kv.KeyTooLarge},
		"first error":  {func(b *Buffer) { b.Set(key, big); b.Set(long, nil) }, kv.ValueTooLarge},
		"system key":   {func(b *Buffer) { b.Max(system, 1) }, kv.KeyOutsideLegalRange},
		"system clear": {func(b *Buffer) { b.Clear(system[:1]) }, kv.KeyOutsideLegalRange},
		"long clear":   {func(b *Buffer) { b.Clear(long) }, 0},
		"range end":    {func(b *Buffer) { b.ClearRange(kv.Range{Begin: key, End: system[:1]}) }, 0},
		"range beyond": {func(b *Buffer) { b.ClearRange(kv.Range{Begin: key, End: system}) },
			kv.KeyOutsideLegalRange},
		"inverted clear": {func(b *Buffer) { b.ClearRange(kv.Range{Begin: long, End: key}) }, kv.InvertedRange},
		"inverted read":  {func(b *Buffer) { b.AddReadConflict(kv.Range{Begin: long, End: key}) }, kv.InvertedRange},
		"inverted write": {func(b *Buffer) { b.AddWriteConflict(kv.Range{Begin: long, End: key}) },
			kv.InvertedRange},
		"write conflict": {func(b *Buffer) { b.AddWriteConflict(kv.Range{Begin: key, End: []byte("l")}) }, 0},
		"empty clear":    {func(b *Buffer) { b.ClearRange(kv.Range{Begin: key, End: key}) }, 0},
		"stamp too short": {func(b *Buffer) { b.SetVersionstampedKey([]byte("0123456789123"), nil) },
			kv.BadVersionstamp},
		"stamp offset": {func(b *Buffer) { b.SetVersionstampedKey([]byte("0123456789\x01\x00\x00\x00"), nil) },
			kv.BadVersionstamp},
		"negative offset": {func(b *Buffer) { b.SetVersionstampedKey([]byte("0123456789\xff\xff\xff\xff"), nil) },
			kv.BadVersionstamp},
		"stamped value": {func(b *Buffer) { b.SetVersionstampedValue(key, []byte("01234567\x00\x00\x00\x00")) },
			kv.BadVersionstamp},
		"stamped key": {func(b *Buffer) { b.SetVersionstampedKey([]byte("0123456789\x00\x00\x00\x00"), big) },
			kv.ValueTooLarge},
		"longest stamped":   {func(b *Buffer) { b.SetVersionstampedKey(append(long[1:], at10...), nil) }, 0},
		"stamped too long":  {func(b *Buffer) { b.SetVersionstampedKey(append(long, at10...), nil) }, kv.KeyTooLarge},
		"stamped value big": {func(b *Buffer) { b.SetVersionstampedValue(key, make([]byte, kv.MaxValueSize+4)) }, 0},
	} {
		b := New(store{})
		c.do(b)
		other := kv.Range{Begin: []byte("other"), End: []byte("others")}
		_, readErr := b.Get(other.Begin)
		_, rangeErr := b.GetRange(other, kv.RangeOptions{})
		if c.want != 0 {
			b.ClearRange(other)
			b.AddWriteConflict(other)
			if !b.ReadOnly() {
				t.Errorf("%s: what is written after an error is kept", name)
			}
		}
		_, err := b.Finish(kv.MaxTxSize)
		if kv.CodeOf(err) != c.want || kv.CodeOf(readErr) != c.want || kv.CodeOf(rangeErr) != c.want {
			t.Errorf("%s: commit says %v, reads say %v and %v, want %d", name, err, readErr, rangeErr, c.want)
		}
		if b.Reset(); b.err != nil || !b.ReadOnly() {
			t.Errorf("%s: error or writes outlive a reset", name)
		}
	}
}

func TestSize(t *testing.T) {
	for name, do := range map[string]func(b *Buffer, key []byte){ // each counts two keys of 1,000 bytes and more
		"set":            func(b *Buffer, key []byte) { b.Set(key, nil) },
		"value":          func(b *Buffer, key []byte) { b.Set(key[:4], key); b.Set(key[:5], key) },
		"read":           func(b *Buffer, key []byte) { _, _ = b.Get(key) },
		"range read":     func(b *Buffer, key []byte) { _, _ = b.GetRange(kv.KeyRange(key), kv.RangeOptions{}) },
		"read conflict":  func(b *Buffer, key []byte) { b.AddReadConflict(kv.KeyRange(key)) },
		"write conflict": func(b *Buffer, key []byte) { b.AddWriteConflict(kv.KeyRange(key)) },
		"stamped":        func(b *Buffer, key []byte) { b.SetVersionstampedKey(append(key, 0, 0, 0, 0), nil) },
	} {
		b := New(store{})
		for i := range 10 {
			do(b, append(fmt.Appendf(nil, "%04d", i), bytes.Repeat([]byte("k"), 1000)...))
		}
		if _, err := b.Finish(10*2000 - 1); kv.CodeOf(err) != kv.TransactionTooLarge {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.Finish(10 * 4200); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRepeatedReadsCountOnce: a key that is read again and again counts once for the size of the transaction.
func TestRepeatedReadsCountOnce(t *testing.T) {
	b := New(store{})
	for range 100 {
		_, _ = b.Get([]byte("key"))
	}
	if c, err := b.Finish(10); err != nil || len(c.Reads) != 1 {
		t.Error(c, err)
	}
}

func TestReadsOfHostileKeys(t *testing.T) {
	b := New(store{data: map[string]string{"a": "1"}})
	if v, err := b.Get(make([]byte, kv.MaxKeySize+1)); v != nil || err != nil {
		t.Errorf("long key: %q, %v", v, err)
	}
	if _, err := b.Get([]byte{0xff}); kv.CodeOf(err) != kv.KeyOutsideLegalRange {
		t.Errorf("system key: %v", err)
	}
	beyond := kv.Range{Begin: []byte("a"), End: []byte("\xff\x00")}
	if _, err := b.GetRange(beyond, kv.RangeOptions{}); kv.CodeOf(err) != kv.KeyOutsideLegalRange {
		t.Errorf("system range: %v", err)
	}
	if got, err := b.GetRange(kv.Range{Begin: nil, End: []byte{0xff}}, kv.RangeOptions{Limit: -1}); len(got) != 1 ||
		err != nil {
		t.Errorf("everything: %v, %v", got, err)
	}
	if got, err := b.GetRange(kv.Range{Begin: []byte("b"), End: []byte("a")}, kv.RangeOptions{}); got != nil ||
		err != nil {
		t.Errorf("inverted: %v, %v", got, err)
	}
}

// TestSlicesAreOwned: what goes in is not shared, and what comes out can be appended to.
func TestSlicesAreOwned(t *testing.T) {
	base := store{data: map[string]string{"a": "1"}}
	b := New(base)
	buf := []byte("key")
	b.Set(buf, buf)
	b.AddReadConflict(kv.Range{Begin: buf[:1], End: buf})
	read := []byte("~read")
	if _, err := b.Get(read); err != nil {
		t.Fatal(err)
	}
	copy(buf, "yek")
	copy(read, "~daer")
	got, err := b.GetRange(kv.Range{End: []byte("z")}, kv.RangeOptions{})
	if err != nil || len(got) != 2 || string(got[1].Key) != "key" || string(got[1].Value) != "key" {
		t.Fatal(got, err)
	}
	for _, p := range got {
		_ = append(p.Key, "overwritten"...)
		_ = append(p.Value, "overwritten"...)
	}
	v, _ := b.Get([]byte("key"))
	if _ = append(v, "overwritten"...); string(got[1].Key) != "key" || string(got[1].Value) != "key" {
		t.Error("a key was overwritten by its neighbour")
	}
	c, err := b.Finish(1000)
	if err != nil || string(c.Mutations[0].Value) != "key" || string(c.Reads[0].Begin) != "" {
		t.Error(c, err)
	}
	if !slices.ContainsFunc(c.Reads, func(s resolver.Span) bool { return string(s.Begin) == "~read" }) {
		t.Errorf("of the reads %v the one of a key lacks", c.Reads)
	}
	for _, size := range []int{0, 1, maxPaired - 1, maxPaired, maxPaired + 1, 10 * maxPaired} {
		b := New(store{})
		key, value := []byte("key"), bytes.Repeat([]byte("v"), size)
		b.Set(key, value)
		copy(key, "yek")
		clear(value)
		got, err := b.Get([]byte("key"))
		if err != nil || string(got) != strings.Repeat("v", size) {
			t.Errorf("%d bytes were changed with the caller's: %.9q, %v", size, got, err)
		}
	}
}

func BenchmarkTransaction(b *testing.B) {
	data := store{data: map[string]string{}}
	keys := make([][]byte, 64)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "jobs/%02d", i)
	}
	value := make([]byte, 100)
	buf := New(data)
	b.ReportAllocs()
	for b.Loop() { // five reads and five writes
		buf.Reset()
		for i := range 5 {
			_, _ = buf.Get(keys[i*7])
			buf.Set(keys[i*7], value)
		}
		if _, err := buf.Finish(kv.MaxTxSize); err != nil {
			b.Fatal(err)
		}
	}
}
