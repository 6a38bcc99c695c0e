package fuzz

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// FuzzCheckpoint reads any bytes as two replication logs. A log is the same after writing and reading it;
// compared with itself it gives its own sequence; and two logs have only sequences in common that both hold.
func FuzzCheckpoint(f *testing.F) {
	for _, answer := range recordings(f, "local") {
		f.Add([]byte(answer.body), []byte(answer.body))
	}
	f.Add([]byte(`{"session_id":"b","source_last_seq":"9-x","history":[{"session_id":"b","recorded_seq":"9-x"},`+
		`{"session_id":"a","recorded_seq":5,"docs_read":7}]}`),
		[]byte(`{"session_id":"a","source_last_seq":5,"history":[{"session_id":"a","recorded_seq":5}]}`))
	f.Add([]byte(`{"session_id":"b","source_last_seq":[12,"\u003c"]}`),
		[]byte(`{"session_id":"b","source_last_seq":[ 12, "<" ],"history":null}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, errX := checkpoint.Parse(a)
		y, errY := checkpoint.Parse(b)
		if errX != nil || errY != nil {
			if errX != nil && !reflect.DeepEqual(x, checkpoint.Log{}) {
				t.Fatalf("%+v with an error", x)
			}
			return
		}
		for _, flat := range []bool{false, true} {
			written := x.Encode(flat)
			again, err := checkpoint.Parse(written)
			if err != nil || !reflect.DeepEqual(again, x) || !json.Valid(written) ||
				!bytes.Equal(again.Encode(flat), written) {
				t.Fatalf("%s became %s: %v", a, written, err)
			}
		}
		all := func(checkpoint.List) bool { return true }
		if start, _ := checkpoint.Compare(x, x, all); x.SessionID != "" && start.RecordedSeq != x.SourceLastSeq {
			t.Fatalf("%s goes on at %v", a, start)
		}
		from, history := checkpoint.Compare(x, y, all)
		start := from.RecordedSeq
		if start == peer.Zero {
			return
		}
		if !holds(x, start) || !holds(y, start) {
			t.Fatalf("%s and %s do not both hold %s", a, b, start)
		}
		if len(history) > len(x.History) && len(history) > len(y.History) {
			t.Fatalf("a history of %d entries", len(history))
		}
	})
}

func holds(l checkpoint.Log, seq peer.Seq) bool {
	if l.SourceLastSeq == seq {
		return true
	}
	for _, e := range l.History {
		if e.RecordedSeq == seq {
			return true
		}
	}
	return false
}
