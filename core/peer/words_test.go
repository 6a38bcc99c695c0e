package peer

import (
	"fmt"
	"testing"
)

// TestWordsOfOperations: logs and traces say of each operation what it asks for, and reasons of stalled runs do.
func TestWordsOfOperations(t *testing.T) {
	for want, op := range map[string]Op{
		"open source":                           Open{Side: Source},
		"create target":                         Create{},
		"get target _local/x":                   GetLocal{Side: Target, ID: "x"},
		`put target _local/x rev "0-1"`:         PutLocal{Side: Target, ID: "x", Rev: "0-1"},
		"get filter d/f":                        GetFilter{"d", "f"},
		"read changes since 5 limit 7 normal":   ReadChanges{Since: "5", Limit: 7},
		"read changes since 5 limit 7 longpoll": ReadChanges{Since: "5", Limit: 7, Wait: true},
		"diff revs of 2 docs":                   DiffRevs{Docs: make([]DocRevs, 2)},
		"fetch 2 docs":                          FetchDocs{Docs: make([]DocRev, 2)},
		"fetch 2 docs with attachments":         FetchDocs{Docs: make([]DocRev, 2), Attachments: true},
		"write 2 docs":                          WriteDocs{Docs: make([]Kept, 2)},
		"write 2 docs, compressed":              WriteDocs{Docs: make([]Kept, 2), Gzip: true},
		`copy "d" revs 1-a,2-b`:                 CopyDoc{ID: "d", Revs: []string{"1-a", "2-b"}},
		"commit target":                         Commit{Side: Target},
		"count pending since 5":                 CountPending{Since: "5"},
		`find "d" rev 1-a,2-b`:                  FindRev{ID: "d", Revs: []string{"1-a", "2-b"}},
		`find "d" rev 1-a at 5`:                 FindRev{ID: "d", Revs: []string{"1-a"}, At: "5"},
		"read the newest change":                ReadNewest{},
		"read 2 docs":                           ReadDocs{IDs: make([]string, 2)},
		"edit 2 docs":                           EditDocs{Docs: make([]NewEdit, 2)},
	} {
		if got := op.String(); got != want {
			t.Errorf("%T: %s, want %s", op, got, want)
		}
	}
}

// TestWordsOfFailures: a failure says which request failed, and why, as far as that is known.
func TestWordsOfFailures(t *testing.T) {
	for want, f := range map[string]Failure{
		"GET http://a/db: 500":                          {Status: 500},
		"GET http://a/db: 500 oops":                     {Status: 500, Error: "oops"},
		"GET http://a/db: 500 oops: it broke":           {Status: 500, Error: "oops", Reason: "it broke"},
		"GET http://a/db: connection_closed: after 3 B": {Kind: Broken, Reason: "after 3 B"},
	} {
		f.Method, f.URL = "GET", "http://a/db"
		if got := f.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	words := ""
	for kind := range Denied + 1 {
		words += kind.String() + " "
	}
	want := "status nxdomain connect_failed tls_failed connection_closed timeout malformed_response " +
		"request_too_large cancelled secret_missing endpoint_denied "
	if words != want {
		t.Errorf("kinds are %s, want %s", words, want)
	}
	refused := &Refusal{"d", "1-a", 403, "forbidden", "no"}
	if got := fmt.Sprint(refused); got != "{ID:d Rev:1-a Status:403 Error:forbidden Reason:no}" {
		t.Errorf("a refusal is %s", got)
	}
}

// TestNumbersOfSequences: the number in front of a sequence tells which of two is earlier; only one that is a number
// as a whole is one of a server that counts its changes.
func TestNumbersOfSequences(t *testing.T) {
	for _, c := range []struct {
		seq     Seq
		ordinal string
		number  int64
		is      bool
	}{
		{"0", "0", 0, true}, {"12", "12", 12, true}, {`"12-g1A-b"`, "12", 0, false}, {`"12"`, "12", 0, false},
		{`"g1A"`, "", 0, false}, {`[12,"gA"]`, "", 0, false}, {"", "", 0, false}, {`"-5"`, "", 0, false},
		{`"18446744073709551615-x"`, "18446744073709551615", 0, false},
	} {
		if number, is := c.seq.Number(); c.seq.Ordinal() != c.ordinal || number != c.number || is != c.is {
			t.Errorf("%s: %q, %d, %t", c.seq, c.seq.Ordinal(), number, is)
		}
	}
	for _, c := range []struct {
		s, t   Seq
		before bool
	}{
		{"9", "10", true}, {"10", "9", false}, {"9", "9", false}, {`"9-x"`, `"10-a"`, true}, {`"x"`, "9", false},
		{"9", `"x"`, false}, {"", "", false}, {"9223372036854775808", "18446744073709551615", true},
	} {
		if c.s.Before(c.t) != c.before {
			t.Errorf("%s is before %s: %t", c.s, c.t, !c.before)
		}
	}
}

// TestThrown: a server fails over a document if it answers 500 with a word that tells so.
func TestThrown(t *testing.T) {
	for word, thrown := range map[string]bool{
		"EvalError": true, "RangeError": true, "ReferenceError": true, "SyntaxError": true, "TypeError": true,
		"URIError": true, "doc_validation": true, "InternalError": false, "Error": false, "": false,
	} {
		if v := (&Refusal{Status: 500, Error: word}); v.Thrown() != thrown {
			t.Errorf("500 %s: %t", word, !thrown)
		}
		if v := (&Refusal{Status: 502, Error: word}); v.Thrown() {
			t.Errorf("502 %s is taken for an exception", word)
		}
	}
}

// TestThrownText: of what CouchDB has no word for, texts come of validation functions, and terms of its own troubles.
func TestThrownText(t *testing.T) {
	for reason, thrown := range map[string]bool{
		"no fours": true, "Not allowed": true, "no!": true, "Ü": true, "": false, "badarith": false,
		"function_clause": false, "{shutdown,{gen_server,call}}": false, "[{a,\"b c\"}]": false,
		"<0.1.0> is gone": false, "#Fun<a.1.2>": false, "\"a b\"": false,
	} {
		if v := (&Refusal{Status: 500, Error: "unknown_error", Reason: reason}); v.Thrown() != thrown {
			t.Errorf("%s: %t", reason, !thrown)
		}
	}
}

// TestMark: a change is looked for by its leaves, the one that the server names first, and fifty others.
func TestMark(t *testing.T) {
	revs := make([]string, 60)
	for i := range revs {
		revs[i] = fmt.Sprintf("1-%d", i)
	}
	for _, n := range []int{1, 2, 51, 60} {
		op := MarkOf("d", revs[0], revs[1:n]).Find()
		if got, want := fmt.Sprint(op.Revs), fmt.Sprint(revs[:min(n, 51)]); op.ID != "d" || op.At != "" || got != want {
			t.Errorf("of %d leaves: %v", n, op)
		}
	}
}

// TestMarkInRow: a row of the feed has a change if it announces all leaves of the mark, in any order, and others.
func TestMarkInRow(t *testing.T) {
	for _, c := range []struct {
		mark Mark
		id   string
		revs []string
		want bool
	}{
		{Mark{ID: "d", Rev: "2-x"}, "d", []string{"2-x"}, true},
		{Mark{ID: "d", Rev: "2-x"}, "e", []string{"2-x"}, false},
		{Mark{ID: "d", Rev: "2-x"}, "d", []string{"3-x"}, false},
		{Mark{ID: "d", Rev: "2-x", Others: "2-y 1-z"}, "d", []string{"3-a", "1-z", "2-x", "2-y"}, true},
		{Mark{ID: "d", Rev: "2-x", Others: "2-y 1-z"}, "d", []string{"2-x", "2-y"}, false},
	} {
		if got := c.mark.In(Change{ID: c.id, Revs: c.revs}); got != c.want {
			t.Errorf("%v in %s %v: %v", c.mark, c.id, c.revs, got)
		}
	}
}
