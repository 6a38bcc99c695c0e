package fuzz

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strconv"
	"testing"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzFeed reads any bytes as an answer of _changes, in steps of a few rows and from packets of any size. The
// result has the rows that a plain decoder finds, and fails where that finds no feed.
func FuzzFeed(f *testing.F) {
	for _, answer := range recordings(f, "changes*") {
		f.Add([]byte(answer.body), uint8(2), uint8(7), false)
		f.Add([]byte(answer.body), uint8(0), uint8(0), true)
	}
	f.Add([]byte("{\"results\":[\n"+`{"seq":"1-g1A","id":"a","changes":[{"rev":"1-a"},{"rev":"2-b"}]},`+"\n\n\n"+
		`{"seq":[2,"x"],"id":"","changes":[]}`+"\n],\n"+`"last_seq":"2-g","pending":3}`+"\n"),
		uint8(1), uint8(1), true)
	f.Add([]byte(`{"last_seq":null,"results":[{"seq":1,"id":"a","changes":[{"rev":"1-a"},{"rev":"2-b"}],`+
		`"removed":true,"doc":{"x":[{}]}}]}`), uint8(1), uint8(0), false)
	f.Fuzz(func(t *testing.T, body []byte, limit, piece uint8, wait bool) {
		rows, isFeed := plainFeed(body)
		once(body, int(piece)).pair(t, func(do func(peer.Op) peer.Reply) {
			var got peer.Changes
			failure := (*peer.Failure)(nil)
			for since := peer.Zero; !got.End && failure == nil; since = got.LastSeq {
				reply := do(peer.ReadChanges{Since: since, Limit: int(limit%8) + 1, Wait: wait})
				step, _ := reply.Result.(peer.Changes)
				failure = reply.Failure
				if taken := len(step.Rows) + step.Skipped; !step.End && failure == nil &&
					taken != int(limit%8)+1 {
					t.Fatalf("a step of %d rows", taken)
				}
				step.Rows, step.Skipped = append(got.Rows, step.Rows...), got.Skipped+step.Skipped
				got = step
			}
			switch {
			case !unique(body):
			case isFeed != (failure == nil):
				t.Fatalf("a feed: %v, but %v", isFeed, failure)
			case isFeed && got.End:
				compareFeed(t, body, got, rows)
			}
		})
	})
}

// unique reports whether no object of a JSON text has a name twice, which would have no defined meaning. It
// is also true of a text that is no JSON.
func unique(body []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowInvalidUTF8(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return err == io.EOF || !json.Valid(body)
		}
	}
}

// plainFeed reads a feed with the standard library.
func plainFeed(body []byte) (rows []peer.Change, is bool) {
	var feed map[string]json.RawMessage
	var results []json.RawMessage
	if json.Unmarshal(body, &feed) != nil || json.Unmarshal(feed["results"], &results) != nil ||
		results == nil {
		return nil, false
	}
	for _, raw := range results {
		var members map[string]json.RawMessage // names count as they are written
		var changes []map[string]json.RawMessage
		var id *string
		if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members["id"], &id) != nil || id == nil ||
			json.Unmarshal(members["changes"], &changes) != nil || changes == nil {
			return nil, false
		}
		seq, err := peer.SeqOf(members["seq"])
		if err != nil {
			return nil, false
		}
		row := peer.Change{Seq: seq, ID: *id}
		for _, c := range changes {
			var rev string
			if json.Unmarshal(c["rev"], &rev) != nil || rev == "" {
				return nil, false
			}
			row.Revs = append(row.Revs, rev)
		}
		if string(members["removed"]) == "true" {
			row.Revs = row.Revs[min(1, len(row.Revs)):]
		}
		rows = append(rows, row)
	}
	return rows, true
}

func compareFeed(t *testing.T, body []byte, got peer.Changes, rows []peer.Change) {
	t.Helper()
	var named []peer.Change
	for _, r := range rows {
		if r.ID != "" {
			named = append(named, r)
		}
	}
	if got.Skipped != len(rows)-len(named) || len(got.Rows) != len(named) {
		t.Fatalf("%d rows and %d without id, want %d of %d", len(got.Rows), got.Skipped,
			len(named), len(rows))
	}
	for i := range named {
		if g, w := got.Rows[i], named[i]; g.ID != w.ID || g.Seq != w.Seq ||
			len(g.Revs)+len(w.Revs) > 0 && !reflect.DeepEqual(g.Revs, w.Revs) {
			t.Fatalf("row %d is %+v, want %+v", i, g, w)
		}
	}
	var feed map[string]json.RawMessage
	_ = json.Unmarshal(body, &feed)
	if last, err := peer.SeqOf(feed["last_seq"]); err == nil && got.LastSeq != last {
		t.Fatalf("last_seq %s, want %s", got.LastSeq, last)
	}
	if n, err := strconv.ParseInt(string(feed["pending"]), 10, 64); err == nil && n >= 0 && got.Pending != n {
		t.Fatalf("pending %d, want %d", got.Pending, n)
	}
}
