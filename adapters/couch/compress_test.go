package couch

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// large is a document of n bytes that do not compress.
func large(id string, n int) string {
	raw := make([]byte, n/2)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(raw)
	return fmt.Sprintf(`{"_id":%q,"_rev":"1-a","_revisions":{"start":1,"ids":["a"]},"x":"%x"}`, id, raw)
}

// answersWith serves documents to a bulk read.
func answersWith(docs ...string) http.HandlerFunc {
	return says(200, `{"results":[{"docs":[{"ok":`+strings.Join(docs, `}]},{"docs":[{"ok":`)+`}]}]}`)
}

// keeps reads documents "a" and "b", and returns the write of both.
func keeps(r *rig, gzip bool) peer.WriteDocs {
	both := []peer.DocRev{{ID: "a", Rev: "1-a"}, {ID: "b", Rev: "1-a"}}
	must[peer.Fetched](r, peer.FetchDocs{Docs: both, Budget: 8 << 20})
	return peer.WriteDocs{Docs: []peer.Kept{{Fetch: 1, Index: 0}, {Fetch: 1, Index: 1}}, Gzip: gzip}
}

// unpacked returns the body of a request, and fails the test unless it is as it should be.
func unpacked(t *testing.T, r *http.Request, compressed bool) string {
	encoding := r.Header.Get("Content-Encoding")
	if !compressed {
		body, err := io.ReadAll(r.Body)
		if err != nil || encoding != "" || r.ContentLength != int64(len(body)) {
			t.Errorf("encoding %q, length %d: %v", encoding, r.ContentLength, err)
		}
		return string(body)
	}
	if encoding != "gzip" || r.ContentLength != -1 {
		t.Errorf("encoding %q, length %d", encoding, r.ContentLength)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Error(err)
		return ""
	}
	body, err := io.ReadAll(z)
	if rest, _ := io.ReadAll(r.Body); err != nil || len(rest) > 0 {
		t.Errorf("%v, %d bytes after the end", err, len(rest))
	}
	return string(body)
}

// TestCompressedWrite: the target gets the same text, whether it is compressed or not, also when it sends the write
// elsewhere.
func TestCompressedWrite(t *testing.T) {
	docs := []string{large("a", 300_000), large("b", 10)}
	want := `{"new_edits":false,"docs":[` + strings.Join(docs, ",") + `]}`
	for _, compressed := range []bool{false, true} {
		paths := ""
		target := func(w http.ResponseWriter, r *http.Request) {
			if got := unpacked(t, r, compressed); got != want {
				t.Errorf("%d bytes arrive of %d", len(got), len(want))
			}
			if paths += r.URL.Path; r.URL.Path == "/db/_bulk_docs" {
				http.Redirect(w, r, "/new/_bulk_docs", http.StatusTemporaryRedirect)
				return
			}
			w.WriteHeader(201)
			_, _ = io.WriteString(w, `[]`)
		}
		inRig(t, answersWith(docs...), target, func(r *rig) { must[peer.Written](r, keeps(r, compressed)) })
		if paths != "/db/_bulk_docs/new/_bulk_docs" {
			t.Error(paths)
		}
	}
}

// TestCompressedWriteUnread: a server that claims success before it can have read the write has written nothing.
func TestCompressedWriteUnread(t *testing.T) {
	docs := []string{large("a", 3_000_000), large("b", 10)}
	target := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 1000)
		hijack(w, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n[]").Close()
	}
	inRig(t, answersWith(docs...), target, func(r *rig) {
		f := r.do(keeps(r, true)).Failure
		if f == nil || f.Reason != "answered success before it had the request" {
			t.Errorf("failed with %v", f)
		}
	})
}

// TestAnswersCompressed: answers may come compressed, unless the endpoint does not want that.
func TestAnswersCompressed(t *testing.T) {
	const info = `{"db_name":"db","update_seq":"3-abc","instance_start_time":"5"}`
	source := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			_, _ = io.WriteString(w, strings.Replace(info, "3-abc", "3-plain", 1))
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, info)
		_ = z.Close()
	}
	for mode, want := range map[spec.Compression]peer.Seq{
		spec.CompressAuto: `"3-abc"`, spec.CompressOn: `"3-abc"`, spec.CompressOff: `"3-plain"`,
	} {
		inRig(t, source, nil, func(r *rig) {
			if got := must[peer.Opened](r, peer.Open{}); got.UpdateSeq != want {
				t.Errorf("%q: %+v", mode, got)
			}
		}, func(rep *spec.Replication) { rep.Source.Compression = mode })
	}
}

// TestPacker: whatever the sizes of the pieces, all bytes come out, and an error of the source is passed on.
func TestPacker(t *testing.T) {
	text := []byte(strings.Repeat(large("a", 1000), 200))
	for name, from := range map[string]io.Reader{
		"whole": bytes.NewReader(text), "byte by byte": iotest.OneByteReader(bytes.NewReader(text)),
		"the end with the last bytes": iotest.DataErrReader(bytes.NewReader(text)),
	} {
		packed := bytes.Buffer{}
		if _, err := io.Copy(&packed, iotest.OneByteReader(&packer{from: from})); err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(&packed)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes of %d: %v", name, len(got), len(text), err)
		}
	}
	broken := errors.New("broken")
	_, err := io.ReadAll(&packer{from: io.MultiReader(bytes.NewReader(text), iotest.ErrReader(broken))})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}
