package fuzz

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"couchrelay/core/ejson"
	"couchrelay/core/peer"
)

// FuzzJSON compares with the standard library. Text that parses is JSON of the same meaning, a value that is
// written reads as the same value, and an error shows nothing of the input.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":[true,null,"é\u00e9\n"],"a":{"":-0.5e+10}}`, `[[],{},"",0]`, `"\ud83c\udf89"`,
		`123456789012345678901234567890`, ` null `, `{"a":1}{"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	for _, answer := range recordings(f, "*") {
		f.Add([]byte(answer.body))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := ejson.Parse(raw)
		if err != nil {
			if !errors.Is(err, ejson.ErrSyntax) ||
				!strings.HasPrefix(err.Error(), ejson.ErrSyntax.Error()+" at byte ") {
				t.Fatal(err)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if got := plain(v); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %v, want %v", raw, got, want)
		}
		written := v.Append(nil)
		again, err := ejson.Parse(written)
		if err != nil || !reflect.DeepEqual(again, v) || !bytes.Equal(again.Append(nil), written) {
			t.Fatalf("%s became %s: %v", raw, written, err)
		}
		checkSeq(t, raw, v, written)
	})
}

// checkSeq: a sequence is the text that its value is written as.
func checkSeq(t *testing.T, raw []byte, v ejson.Value, written []byte) {
	seq, err := peer.SeqOf(raw)
	if v.Kind == ejson.Null {
		if err == nil {
			t.Fatalf("%s was taken for %s", raw, seq)
		}
		return
	}
	if err != nil || string(seq) != string(written) {
		t.Fatalf("the sequence %s is %s, not %s: %v", raw, seq, written, err)
	}
}

// plain is a value as encoding/json has it.
func plain(v ejson.Value) any {
	switch v.Kind {
	case ejson.Null:
		return nil
	case ejson.False, ejson.True:
		return v.Kind == ejson.True
	case ejson.String:
		return v.Text
	case ejson.Number:
		return json.Number(v.Text)
	case ejson.Array:
		list := []any{}
		for _, e := range v.Elems {
			list = append(list, plain(e))
		}
		return list
	}
	object := map[string]any{}
	for _, m := range v.Members {
		object[m.Name] = plain(m.Value)
	}
	return object
}
