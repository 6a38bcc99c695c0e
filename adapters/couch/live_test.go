package couch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/repdoc"
)

// TestLive copies a mixed database between two servers that are running, in both directions, with the
// operations in the plainest order that works. COUCHRELAY_PEERS names the servers' roots, with user
// and password, separated by a comma.
func TestLive(t *testing.T) {
	servers := strings.Split(os.Getenv("COUCHRELAY_PEERS"), ",")
	if len(servers) != 2 {
		t.Skip("COUCHRELAY_PEERS does not name two servers")
	}
	for _, c := range [][2]string{{servers[0], servers[1]}, {servers[1], servers[0]}} {
		t.Run(c[0]+" to "+c[1], func(t *testing.T) {
			l := &live{t: t, source: c[0] + "/livesource/", target: c[1] + "/livetarget/"}
			l.call("DELETE", l.source, nil)
			l.call("DELETE", l.target, nil)
			l.must("PUT", l.source, nil)
			l.exact = !bytes.Contains(append(l.must("GET", c[0], nil), l.must("GET", c[1], nil)...), []byte("pouchdb"))
			l.fill()
			l.replicate()
			l.compare()
			l.change()
			l.replicate()
			l.compare()
			if again := l.replicate(); again != 0 {
				t.Errorf("a third run copied %d revisions", again)
			}
		})
	}
}

type live struct {
	t              *testing.T
	source, target string
	rev            int
	// exact says that both servers keep numbers and attachments' revpos as they are: PouchDB's does not.
	exact bool
}

func (l *live) call(method, url string, body []byte) (int, []byte) {
	l.t.Helper()
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.StatusCode, answer
}

func (l *live) must(method, url string, body []byte) []byte {
	l.t.Helper()
	status, answer := l.call(method, url, body)
	if status >= 300 {
		l.t.Fatalf("%s %s: %d %s", method, url, status, clip(string(answer), 300))
	}
	return answer
}

var liveIDs = []string{
	"plain", "with space", "slash/in/id", "plus+and&=?#%", "ünïcødé 漢字 🎉", `quo"te\back`, "..", "per%20cent", "a:b@c,d;e", "'single'",
}

const gzippable = "text/plain"

// fill writes 300 small documents, odd ids, a design document, attachments of all sorts, a document
// with 200 leaves and a deletion.
func (l *live) fill() {
	var docs []string
	for i := range 300 {
		docs = append(docs, fmt.Sprintf(`{"_id":"doc-%03d","n":%d,"big":12345678901234567890,"float":1.0,"text":"%s"}`, i, i, strings.Repeat("x", 100)))
	}
	for i, id := range liveIDs {
		quoted, _ := json.Marshal(id)
		docs = append(docs, fmt.Sprintf(`{"_id":%s,"odd":%d,"nested":{"a":[1,{"b":null}]}}`, quoted, i))
	}
	docs = append(docs, `{"_id":"_design/app","filters":{"odd":"function(doc){return doc.odd>0}"},"views":{}}`)
	l.must("POST", l.source+"_bulk_docs", []byte(`{"docs":[`+strings.Join(docs, ",")+`]}`))
	var leaves []string
	for i := range 200 {
		leaves = append(leaves, fmt.Sprintf(`{"_id":"conflicts","_rev":"2-%032x","_revisions":{"start":2,"ids":["%032x","%032x"]},"leaf":%d}`, i, i, 777, i))
	}
	l.must("POST", l.source+"_bulk_docs", []byte(`{"new_edits":false,"docs":[`+strings.Join(leaves, ",")+`]}`))
	l.attach("small", "a.txt", gzippable, []byte(strings.Repeat("hello ", 50)))
	l.attach("small", "ünï/cødé \"q\".bin", "application/octet-stream", []byte{0, 1, 2, 255, 13, 10, 45, 45})
	l.attach("slash/in/id", "x y", "image/png", []byte("png"))
	l.attach("empty", "nothing", "image/png", nil)
	l.attach("large", "blob", "application/octet-stream", noise(3<<20))
	l.attach("_design/app", "index.html", "text/html", []byte("<html></html>"))
	l.must("DELETE", l.source+"doc-000?rev="+l.revOf("doc-000"), nil)
}

func noise(size int) []byte {
	out := make([]byte, size)
	x := uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

func (l *live) revOf(id string) string {
	status, raw := l.call("GET", l.source+escapeID(id), nil)
	var doc struct {
		Rev string `json:"_rev"`
	}
	if status == 404 || json.Unmarshal(raw, &doc) != nil {
		return ""
	}
	return doc.Rev
}

func (l *live) attach(id, name, kind string, data []byte) {
	l.t.Helper()
	query := ""
	if rev := l.revOf(id); rev != "" {
		query = "?rev=" + rev
	}
	req, _ := http.NewRequest("PUT", l.source+escapeID(id)+"/"+escape(name)+query, bytes.NewReader(data))
	req.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		answer, _ := io.ReadAll(resp.Body)
		l.t.Fatalf("attach %s %s: %d %s", id, name, resp.StatusCode, answer)
	}
}

// change edits what was copied: attachments stay and are added, documents change and go.
func (l *live) change() {
	l.attach("small", "later", gzippable, []byte(strings.Repeat("later ", 100)))
	l.attach("large", "small one", "image/png", []byte("1"))
	l.must("DELETE", l.source+"doc-001?rev="+l.revOf("doc-001"), nil)
	l.must("PUT", l.source+"doc-002", []byte(fmt.Sprintf(`{"_rev":%q,"changed":true}`, l.revOf("doc-002"))))
}

func endpointOf(t *testing.T, raw string) repdoc.Endpoint {
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	e := repdoc.Endpoint{Timeout: repdoc.DefaultConfig().ConnectionTimeout, Connections: 20, SocketOptions: repdoc.SocketOptions{KeepAlive: true}}
	if u.User != nil {
		password, _ := u.User.Password()
		e.Credentials = repdoc.NewCredentials(u.User.Username(), password)
		u.User = nil
	}
	e.URL = u.String()
	return e
}

// replicate returns how many revisions it wrote.
func (l *live) replicate() (written int) {
	l.t.Helper()
	client := New(Options{Version: "test"})
	pair, err := client.Pair(repdoc.Replication{Source: endpointOf(l.t, l.source), Target: endpointOf(l.t, l.target)})
	if err != nil {
		l.t.Fatal(err)
	}
	defer pair.Close()
	l.do(pair, peer.Create{})
	l.do(pair, peer.Open{Side: peer.Source})
	l.do(pair, peer.Open{Side: peer.Target})
	for since := peer.Zero; ; {
		got := l.do(pair, peer.ReadChanges{Since: since, Limit: 100}).(peer.Changes)
		since = got.LastSeq
		written += l.batch(pair, got.Rows)
		if got.End {
			break
		}
	}
	l.do(pair, peer.CountPending{Since: peer.Zero})
	l.do(pair, peer.Commit{Side: peer.Source})
	l.do(pair, peer.Commit{Side: peer.Target})
	l.checkpoint(pair)
	return written
}

func (l *live) do(pair *Pair, op peer.Op) peer.Result {
	l.t.Helper()
	r := pair.Do(context.Background(), 1, op)
	if r.Failure != nil {
		l.t.Fatalf("%s: %s", op, r.Failure)
	}
	return r.Result
}

func (l *live) batch(pair *Pair, rows []peer.Change) (written int) {
	l.t.Helper()
	var ask []peer.DocRevs
	for _, row := range rows {
		ask = append(ask, peer.DocRevs{ID: row.ID, Revs: row.Revs})
	}
	var fetch peer.FetchDocs
	fetch.Budget = 1 << 20
	var copies []peer.CopyDoc
	for _, d := range l.do(pair, peer.DiffRevs{Docs: ask}).(peer.Diff).Docs {
		written += len(d.Missing)
		if strings.HasPrefix(d.ID, "_design/") {
			copies = append(copies, peer.CopyDoc{ID: d.ID, Revs: d.Missing, Since: d.Ancestors})
			continue
		}
		for _, rev := range d.Missing {
			fetch.Docs = append(fetch.Docs, peer.DocRev{ID: d.ID, Rev: rev, Since: d.Ancestors})
		}
	}
	var write peer.WriteDocs
	for i, doc := range l.do(pair, fetch).(peer.Fetched).Docs {
		if doc.Fate == peer.Taken {
			write.Docs = append(write.Docs, peer.Kept{Fetch: 1, Index: i})
		} else {
			if doc.Fate != peer.Attachments {
				l.t.Errorf("document %v has fate %d", fetch.Docs[i], doc.Fate)
			}
			copies = append(copies, peer.CopyDoc{ID: fetch.Docs[i].ID, Revs: []string{fetch.Docs[i].Rev}, Since: fetch.Docs[i].Since})
		}
	}
	if len(write.Docs) > 0 {
		if refused := l.do(pair, write).(peer.Written).Refused; len(refused) > 0 {
			l.t.Errorf("refused: %v", refused)
		}
	}
	for _, op := range copies {
		for _, rev := range l.do(pair, op).(peer.Copied).Revs {
			if rev.Missing || rev.Refused != nil {
				l.t.Errorf("%s: %+v %+v", op, rev, rev.Refused)
			}
		}
	}
	return written
}

func (l *live) checkpoint(pair *Pair) {
	l.t.Helper()
	l.rev++
	id := fmt.Sprint("check", l.rev)
	if got := l.do(pair, peer.GetLocal{Side: peer.Target, ID: id}).(peer.Local); got.Found {
		l.t.Errorf("found %s", got.Body)
	}
	first := l.do(pair, peer.PutLocal{Side: peer.Target, ID: id, Body: []byte(`{"a":1}`)}).(peer.LocalWritten)
	l.do(pair, peer.PutLocal{Side: peer.Target, ID: id, Rev: first.Rev, Body: []byte(`{"a":2}`)})
	got := l.do(pair, peer.GetLocal{Side: peer.Target, ID: id}).(peer.Local)
	if !got.Found || !bytes.Contains(got.Body, []byte(`"a":2`)) {
		l.t.Errorf("checkpoint %s", got.Body)
	}
	r := pair.Do(context.Background(), 1, peer.PutLocal{Side: peer.Target, ID: id, Body: []byte(`{}`)})
	if r.Failure != nil && r.Failure.Status != 409 { // CouchDB lets it pass
		l.t.Errorf("conflict: %+v", r)
	}
}

// compare checks that both sides have the same leaves with the same bodies and attachments.
func (l *live) compare() {
	l.t.Helper()
	source, target := l.leaves(l.source), l.leaves(l.target)
	if len(source) < 200 {
		l.t.Fatalf("the source lists only %d leaves", len(source))
	}
	if !slices.Equal(source, target) {
		for i := range max(len(source), len(target)) {
			if i >= len(source) || i >= len(target) || source[i] != target[i] {
				l.t.Fatalf("leaf %d of %d and %d differs:\n%s\n%s", i, len(source), len(target), at(source, i), at(target, i))
			}
		}
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return clip(list[i], 600)
	}
	return "(none)"
}

// leaves lists id, revision and canonical content of every leaf.
func (l *live) leaves(db string) (out []string) {
	l.t.Helper()
	var feed struct {
		Results []struct {
			ID      string
			Changes []struct{ Rev string }
		}
	}
	if err := json.Unmarshal(l.must("GET", db+"_changes?style=all_docs", nil), &feed); err != nil {
		l.t.Fatal(err)
	}
	for _, row := range feed.Results {
		for _, leaf := range row.Changes {
			raw := l.must("GET", db+escapeID(row.ID)+"?revs=true&attachments=true&rev="+leaf.Rev, nil)
			var doc map[string]any
			d := json.NewDecoder(bytes.NewReader(raw))
			if l.exact {
				d.UseNumber()
			}
			if err := d.Decode(&doc); err != nil {
				l.t.Fatal(err)
			}
			if atts, is := doc["_attachments"].(map[string]any); is {
				for _, att := range atts {
					delete(att.(map[string]any), "digest") // of the stored bytes, which servers compress or not
					if !l.exact {
						delete(att.(map[string]any), "revpos")
					}
				}
			}
			canonical, _ := json.Marshal(doc)
			out = append(out, row.ID+" "+string(canonical))
		}
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}
