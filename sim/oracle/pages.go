package oracle

import "couchrelay/core/jobs"

// pages are the invariants of lists of jobs, which are read page by page.
type pages struct{ *chronicle }

var pageSubject = subject{
	invariants: []Invariant{
		{"S3y", "When all is quiet, pages of any length list every job once, in the order of ids."},
	},
	begin: func(c *chronicle) { c.on.atRest.add((&pages{c}).check) },
}

// maxPage is the longest page that is tried besides one with all jobs.
const maxPage = 3

func (g *pages) check(struct{}) {
	all, err := g.w.Store().Jobs.List(g.w.Present(), jobs.Page{Limit: 1 << 20})
	if err != nil {
		g.Fail("S3y", "%v", err)
		return
	}
	there := 0
	for _, s := range g.shadows {
		if s.header != nil {
			there++
		}
	}
	for limit := 1; limit <= maxPage && g.violation == nil; limit++ {
		if n := g.walk(limit); g.violation == nil && (n != there || len(all) != there) {
			g.Fail("S3y", "pages of %d list %d jobs, one page %d, and there are %d",
				limit, n, len(all), there)
		}
	}
}

// walk reads all pages of a length, and returns the number of jobs in them.
func (g *pages) walk(limit int) (n int) {
	for after := ""; ; {
		page, err := g.w.Store().Jobs.List(g.w.Present(), jobs.Page{After: after, Limit: limit})
		if err != nil || len(page) > limit {
			g.Fail("S3y", "a page of %d jobs has %d: %v", limit, len(page), err)
		}
		for _, j := range page {
			if s := g.shadows[j.ID]; j.ID <= after || s == nil || s.header == nil {
				g.Fail("S3y", "job %q comes after %q in pages of %d", j.ID, after, limit)
			}
			after = j.ID
		}
		n += len(page)
		if len(page) < limit || g.violation != nil {
			return n
		}
	}
}
