package ryw

import (
	"bytes"

	"couchrelay/core/kv"
	"couchrelay/core/kv/keymap"
)

// intervals is a set of keys as disjoint ranges, by their begin. It keeps the slices that it is given.
type intervals struct {
	ends keymap.Map[[]byte]
}

func (s *intervals) empty() bool { return s.ends.Len() == 0 }

func (s *intervals) reset() { s.ends.Reset() }

// seek returns the first range that ends after key.
func (s *intervals) seek(key []byte) keymap.Cursor[[]byte] {
	c := s.ends.Seek(key)
	c.Prev()
	if !c.Valid() || bytes.Compare(*c.Value(), key) <= 0 {
		c = s.ends.Seek(key)
	}
	return c
}

func (s *intervals) contains(key []byte) bool {
	if s.empty() {
		return false
	}
	c := s.seek(key)
	return c.Valid() && bytes.Compare(c.Key(), key) <= 0
}

// overlaps reports whether a key of r is in the set.
func (s *intervals) overlaps(r kv.Range) bool {
	c := s.seek(r.Begin)
	return c.Valid() && bytes.Compare(c.Key(), r.End) < 0
}

// add adds the keys of r, which is not empty.
func (s *intervals) add(r kv.Range) {
	begin, end := r.Begin, r.End
	for c := s.seek(begin); c.Valid() && bytes.Compare(c.Key(), end) <= 0; c = s.seek(begin) {
		if bytes.Compare(c.Key(), begin) < 0 {
			begin = c.Key()
		}
		end = later(end, *c.Value())
		s.ends.Delete(c.Key())
	}
	s.ends.Put(begin, end)
}

// remove removes the keys of r.
func (s *intervals) remove(r kv.Range) {
	for s.overlaps(r) {
		c := s.seek(r.Begin)
		begin, end := c.Key(), *c.Value()
		s.ends.Delete(begin)
		if bytes.Compare(begin, r.Begin) < 0 {
			s.ends.Put(begin, r.Begin)
		}
		if bytes.Compare(r.End, end) < 0 {
			s.ends.Put(r.End, end)
		}
	}
}
