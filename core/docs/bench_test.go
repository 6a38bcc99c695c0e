package docs

import (
	"fmt"
	"testing"
)

// BenchmarkUpdate writes small documents: new ones and new revisions, alone and in batches.
func BenchmarkUpdate(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("new/%d", size), func(b *testing.B) {
			w := newWorld(b)
			body := []byte(`{"type":"order","customer":"c-1234","total":12.5}`)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				edits := make([]Edit, size)
				for i := range edits {
					n++
					edits[i] = Edit{Document: Document{ID: fmt.Sprintf("doc%09d", n), Body: body}, Token: uint64(n)}
				}
				w.update(b, edits...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/doc")
		})
		b.Run(fmt.Sprintf("replicated/%d", size), func(b *testing.B) {
			w := newWorld(b)
			body := []byte(`{"type":"order","customer":"c-1234","total":12.5}`)
			n := 0
			for b.Loop() {
				edits := make([]Edit, size)
				for i := range edits {
					n++
					edits[i] = Edit{Document: Document{ID: fmt.Sprintf("doc%09d", n),
						Rev: rev("1-967a00dff5e02add41819138abb3284d"), Body: body}, Replicated: true}
				}
				w.update(b, edits...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/doc")
		})
	}
	b.Run("edit", func(b *testing.B) {
		w := newWorld(b)
		body := []byte(`{"type":"order","customer":"c-1234","total":12.5}`)
		e := Edit{Document: Document{ID: "doc", Body: body}}
		for b.Loop() {
			e.Token++
			e.Rev = w.update(b, e)[0].Rev
			if e.Rev.Gen == 10 {
				e.ID, e.Rev = fmt.Sprint(e.Token), rev("0-x")
				e.Rev.ID = ""
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	raw := []byte(`{"_id":"doc000001","_rev":"3-967a00dff5e02add41819138abb3284d","_revisions":{"start":3,"ids":[` +
		`"967a00dff5e02add41819138abb3284d","267a00dff5e02add41819138abb3284d","167a00dff5e02add41819138abb3284d"]},` +
		`"type":"order","lines":[{"sku":"a","n":1},{"sku":"b","n":2}],"text":"` + fmt.Sprintf("%0900d", 1) + `"}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseDocument(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChanges(b *testing.B) {
	w := newWorld(b)
	for i := range 100 {
		edits := make([]Edit, 100)
		for j := range edits {
			edits[j] = Edit{Document: Document{ID: fmt.Sprintf("doc%d-%d", i, j), Body: []byte("{}")}}
		}
		w.update(b, edits...)
	}
	n := 0
	for b.Loop() {
		n += len(w.feed(b, Query{AllDocs: true}))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
}
