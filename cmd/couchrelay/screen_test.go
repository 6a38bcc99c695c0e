package main

import (
	"strings"
	"testing"
	"time"

	"couchrelay/core/ejson"
)

// TestLongWords: lists with ids as long as the store takes them are printed at once.
func TestLongWords(t *testing.T) {
	t.Parallel()
	id := ejson.Value{Kind: ejson.String, Text: strings.Repeat("ü", 4000)}
	members := []ejson.Member{{Name: "id", Value: id}, {Name: "source", Value: id}}
	list := ejson.Value{Kind: ejson.Array}
	for range 100 {
		list.Elems = append(list.Elems, ejson.Value{Kind: ejson.Object, Members: members})
	}
	began := time.Now()
	s := &screen{width: 80}
	s.list(list, "id!", "source")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}

// TestLongReasons: the history of a job, with reasons as long as a store takes them, is printed at once, on a terminal
// and elsewhere.
func TestLongReasons(t *testing.T) {
	t.Parallel()
	long := ejson.Value{Kind: ejson.String, Text: strings.Repeat("a ", 50_000)}
	event := ejson.Value{Kind: ejson.Object, Members: []ejson.Member{{Name: "type", Value: long},
		{Name: "reason", Value: long}}}
	job := ejson.Value{Kind: ejson.Object, Members: []ejson.Member{
		{Name: "history", Value: ejson.Value{Kind: ejson.Array, Elems: []ejson.Value{event, event}}}}}
	for _, width := range []int{0, 80} {
		began := time.Now()
		s := &screen{width: width}
		s.fields(job)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%d columns: took %s", width, took)
		}
	}
}

// TestOneLongCell: where nothing is cut, one long cell does not make all lines of a list as long.
func TestOneLongCell(t *testing.T) {
	t.Parallel()
	list := ejson.Value{Kind: ejson.Array}
	for _, source := range []string{"http://a:5984/" + strings.Repeat("x", 60_000), "http://b:5984/db", ""} {
		list.Elems = append(list.Elems, ejson.Value{Kind: ejson.Object, Members: []ejson.Member{
			{Name: "source", Value: ejson.Value{Kind: ejson.String, Text: source}},
			{Name: "node", Value: ejson.Value{Kind: ejson.String, Text: "n1"}}}})
	}
	s := &screen{}
	s.list(list, "source", "node")
	lines := strings.Split(s.text.String(), "\n")
	if want := "http://a:5984/" + strings.Repeat("x", 60_000) + "  n1"; lines[1] != want {
		t.Errorf("%.20q... of %d characters", lines[1], len(lines[1]))
	}
	for _, l := range []string{lines[0], lines[2], lines[3]} {
		if len(l) > 300 {
			t.Errorf("%.20q... has %d characters", l, len(l))
		}
	}
}

func TestCutWideWords(t *testing.T) {
	for text, want := range map[string]string{
		"注文注文注文": "注文…注文", "a注文注文注b": "a注文…注b", "abcdefghijklm": "abcde…jklm",
	} {
		if got := cut(text, 10)[0]; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
