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

func TestCutWideWords(t *testing.T) {
	for text, want := range map[string]string{
		"注文注文注文": "注文…注文", "a注文注文注b": "a注文…注b", "abcdefghijklm": "abcde…jklm",
	} {
		if got := cut(text, 10)[0]; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
