package fuzz

import (
	"bytes"
	"errors"
	"testing"

	"couchrelay/core/ejson"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

func parseDocument(raw []byte, c spec.Config) (*spec.Replication, error) {
	body, err := ejson.Parse(raw)
	if err != nil {
		return nil, &spec.Error{Reason: err.Error()}
	}
	return spec.ParseDocument(body, c)
}

// FuzzReplication reads any bytes as a replication document and as a request. A replication that parses has
// ids and is the same after a way through the job store, and its public view is JSON.
func FuzzReplication(f *testing.F) {
	for _, seed := range []string{
		`{"source":"http://adm:pass@127.0.0.1:5984/db_a","target":"http://adm:pass@127.0.0.1:5984/db_b",` +
			`"continuous":true,"create_target":true}`,
		`{"source":{"url":"https://h:6984/a%2Fb","headers":{"X-Foo":"1","Authorization":"Basic YWRtOnBhc3M="}},` +
			`"target":{"url":"http://[::1]/t","auth":{"basic":{"username":"u","password":"p"}}}}`,
		`{"_id":"r","source":"http://h/a","target":"http://h/b","doc_ids":["b","a%2Fc"],"worker_processes":"4",` +
			`"socket_options":"[{nodelay, true},{sndbuf,1000}]"}`,
		`{"source":"http://h/a","target":"http://h/b","filter":"_view",` +
			`"query_params":{"view":"d/v","key":[1.5e3,-0,99999999999999999999]},"since_seq":[null]}`,
		`{"source":"http://h/a","target":"http://h/b","selector":{"$nor":[{"a.b":{"$elemMatch":{"$gt":1}}}]},` +
			`"source_proxy":"socks5://u:p@h:1"}`,
		`{"cancel":true,"_local_id":"c3ea6b4cefdc0f0804973a398c3178c0 continuous"}`,
		`{"source":"http://u:p@ss@h","target":"db"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, parse := range []func([]byte, spec.Config) (*spec.Replication, error){parseDocument,
			spec.ParseRequest} {
			r, err := parse(raw, spec.DefaultConfig())
			if err != nil {
				if _, is := errors.AsType[*spec.Error](err); !is || r != nil {
					t.Fatalf("%v %T", r, err)
				}
				continue
			}
			stored, err := spec.Encode(r)
			if err != nil {
				t.Fatal(err)
			}
			again, err := spec.Decode(stored)
			if err != nil || !spec.Equal(r, again) {
				t.Fatalf("%s: %v", stored, err)
			}
			if restored, err := spec.Encode(again); err != nil || !bytes.Equal(stored, restored) {
				t.Fatalf("%s\n%s\n%v", stored, restored, err)
			}
			s := repid.Server{UUID: "u"}
			if id := repid.New(s, r, "f"); id != repid.New(s, again, "f") || repid.Parse(id.String()) != id {
				t.Fatalf("%s: unstable id %v", raw, id)
			}
		}
	})
}
