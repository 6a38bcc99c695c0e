package couch

import (
	"context"
	"crypto/md5"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// hugeSource generates a document with one attachment, and digests what it sends.
type hugeSource struct {
	size int
	sum  hash.Hash
}

func (h *hugeSource) serve(w http.ResponseWriter, _ *http.Request) {
	a := att{name: "huge", kind: "application/octet-stream", length: h.size}
	head := new(mixed).part(docWith("2-b", a), a).out.String()
	w.Header().Set("Content-Type", `multipart/mixed; boundary="outer"`)
	_, _ = io.WriteString(w, strings.TrimSuffix(strings.TrimPrefix(head, "\r\n"), "\r\n--inner--"))
	chunk := noise(64 << 10)
	for left := h.size; left > 0; left -= len(chunk) {
		chunk = chunk[:min(left, len(chunk))]
		h.sum.Write(chunk)
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, "\r\n--inner--\r\n--outer--")
}

// hugeTarget digests the bytes between the headers and the closing boundary of the attachment.
type hugeTarget struct {
	size int
	sum  hash.Hash
	err  error
}

func (h *hugeTarget) serve(w http.ResponseWriter, r *http.Request) {
	h.err = func() error {
		mark, seen := "Content-Length: "+fmt.Sprint(h.size)+"\r\n\r\n", ""
		for one := make([]byte, 1); !strings.HasSuffix(seen, mark); seen += string(one) {
			if _, err := io.ReadFull(r.Body, one); err != nil {
				return err
			}
		}
		if _, err := io.CopyBuffer(h.sum, io.LimitReader(r.Body, int64(h.size)),
			make([]byte, 64<<10)); err != nil {
			return err
		}
		tail, err := io.ReadAll(r.Body)
		if err == nil && (len(tail) != len("\r\n--")+32+len("--")) {
			err = fmt.Errorf("%d bytes behind the attachment", len(tail))
		}
		return err
	}()
	says(201, `{"ok":true}`)(w, r)
}

// copyHuge copies one attachment between two servers over loopback. It calls begin when all is set up.
func copyHuge(t testing.TB, size int, begin func()) {
	from, to := &hugeSource{size, md5.New()}, &hugeTarget{size: size, sum: md5.New()}
	source, target := httptest.NewServer(http.HandlerFunc(from.serve)),
		httptest.NewServer(http.HandlerFunc(to.serve))
	defer source.Close()
	defer target.Close()
	rep := testReplication()
	rep.Source.URL, rep.Target.URL = source.URL+"/db/", target.URL+"/db/"
	pair, err := New(Options{}).Pair(rep)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	begin()
	reply := pair.Do(context.Background(), 1, peer.CopyDoc{ID: "doc", Revs: []string{"2-b"}})
	if reply.Failure != nil || to.err != nil || string(from.sum.Sum(nil)) != string(to.sum.Sum(nil)) {
		t.Fatalf("%v, %v, sums %x %x", reply.Failure, to.err, from.sum.Sum(nil), to.sum.Sum(nil))
	}
}

// TestHugeAttachment: an attachment is never in memory as a whole. All memory allocated on its way counts,
// freed or not, in both servers too.
func TestHugeAttachment(t *testing.T) {
	var before, after runtime.MemStats
	const size = 64 << 20
	copyHuge(t, size, func() { runtime.ReadMemStats(&before) })
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 4<<20 {
		t.Errorf("took %d bytes to copy %d", taken, size)
	}
}

// BenchmarkHugeAttachment copies one attachment of 1 GiB and reports the peak of the process's memory
// above what it had before, with both servers in it.
func BenchmarkHugeAttachment(b *testing.B) {
	const size = 1 << 30
	b.SetBytes(size)
	idle := 0
	for b.Loop() {
		copyHuge(b, size, func() {
			runtime.GC()
			if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err == nil { // forgets the peak
				idle = status(b, "VmRSS")
			}
		})
	}
	b.ReportMetric(float64(status(b, "VmHWM")-idle)/1024, "peak-MiB")
}

// status reads a number of kilobytes from /proc, 0 where there is none.
func status(b *testing.B, name string) (n int) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("no /proc/self/status here")
	}
	_, rest, _ := strings.Cut(string(text), "\n"+name+":")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// BenchmarkDocs fetches and writes documents of 1 kB in batches of 500, between servers that only
// replay and read. It reports documents per second on one batch after the other.
func BenchmarkDocs(b *testing.B) {
	const batch = 500
	var answer strings.Builder
	answer.WriteString(`{"results":[`)
	fetch, write := peer.FetchDocs{Budget: 4 << 20}, peer.WriteDocs{}
	for i := range batch {
		id := fmt.Sprintf("doc-%05d", i)
		fetch.Docs = append(fetch.Docs, peer.DocRev{ID: id, Rev: "1-967a00dff5e02add41819138abb3284d"})
		write.Docs = append(write.Docs, peer.Kept{Fetch: 1, Index: i})
		if i > 0 {
			answer.WriteByte(',')
		}
		fmt.Fprintf(&answer, `{"id":%q,"docs":[{"ok":{"_id":%q,"_rev":"1-967a00dff5e02add41819138abb3284d",`+
			`"_revisions":{"start":1,"ids":["967a00dff5e02add41819138abb3284d"]},"name":"Some One",`+
			`"tags":["a","b","c"],"nested":{"n":%d,"x":[1,2,3]},"text":%q}}]}`,
			id, id, i, strings.Repeat("lorem ipsum ", 68))
	}
	answer.WriteString(`]}`)
	source := httptest.NewServer(replay([]byte(answer.String())))
	target := httptest.NewServer(replay([]byte(`[]`)))
	defer source.Close()
	defer target.Close()
	for _, noDelay := range []bool{false, true} {
		b.Run(fmt.Sprintf("nodelay=%v", noDelay), func(b *testing.B) {
			rep := testReplication()
			rep.Source.URL, rep.Target.URL = source.URL+"/db/", target.URL+"/db/"
			rep.Source.SocketOptions = spec.SocketOptions{KeepAlive: true, NoDelay: noDelay}
			rep.Target.SocketOptions = rep.Source.SocketOptions
			pair, err := New(Options{}).Pair(rep)
			if err != nil {
				b.Fatal(err)
			}
			defer pair.Close()
			b.ReportAllocs()
			b.SetBytes(int64(answer.Len()))
			for b.Loop() {
				for _, op := range []peer.Op{fetch, write} {
					if reply := pair.Do(context.Background(), 1, op); reply.Failure != nil {
						b.Fatal(reply.Failure)
					}
				}
			}
			b.ReportMetric(batch*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
		})
	}
}

// replay answers every request with the same bytes.
func replay(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body)
	}
}

// noise is data that does not compress.
func noise(size int) []byte {
	out := make([]byte, size)
	x := uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}
