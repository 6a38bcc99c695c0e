package front

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/jobstore"
)

// listsDatabases reports whether a request asks for databases, or for what there is to know of each.
func listsDatabases(r *http.Request) bool {
	switch strings.Trim(r.URL.Path, "/") {
	case "_all_dbs":
		return r.Method == http.MethodGet
	case "_dbs_info":
		return r.Method == http.MethodGet || r.Method == http.MethodPost
	}
	return false
}

// maxNames bounds the body of a request that names databases.
const maxNames = 1 << 20

// databases lists the databases of the CouchDB, with the service's replicator databases in the place of the CouchDB's
// own, which are not seen through a front. Both are asked for all of a range, and the page is cut of what both have.
func (f *front) databases(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	p, is := pageOf(query)
	if err != nil || !is { // the CouchDB says what is wrong
		f.proxy.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxNames))
	if err != nil {
		answer, _ := errors.AsType[*web.Error](web.ReadError(err))
		web.Refuse(w, r, answer)
		return
	}
	ask := func(h http.Handler) *captured {
		q := r.Clone(r.Context())
		q.Header.Del("Accept-Encoding") // the answers are read
		q.Header.Del("If-None-Match")   // for the CouchDB's own list, which is a part
		q.URL.RawQuery, q.Body = query.Encode(), io.NopCloser(bytes.NewReader(body))
		return capture(h, q)
	}
	answer, own := ask(&f.proxy), ask(f.Service)
	theirs, ok := answer.entries()
	ours, may := own.entries()
	named := r.Method == http.MethodPost
	if ok && may && named {
		theirs = replaced(theirs, ours)
	} else if ok && may {
		theirs = merged(theirs, ours)
	}
	if ok && !named {
		theirs = p.cut(theirs)
	}
	if ok {
		answer.put(theirs)
		answer.header.Del("ETag") // of the CouchDB's own list
	}
	for name, values := range answer.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(answer.body.Len()))
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes())
}

// page is which part of a list is asked for, and in which order.
type page struct {
	limit, skip int
	descending  bool
	keys        []string // the order, if the list is of these
}

// pageOf takes limit and skip out of a query; false stands for a query that makes no sense.
func pageOf(query url.Values) (p page, is bool) {
	p = page{limit: 1 << 40, descending: strings.EqualFold(query.Get("descending"), "true")}
	for name, n := range map[string]*int{"limit": &p.limit, "skip": &p.skip} {
		if query.Has(name) {
			var err error
			if *n, err = strconv.Atoi(query.Get(name)); err != nil || *n < 0 {
				return p, false
			}
		}
		query.Del(name)
	}
	if query.Has("keys") && json.Unmarshal([]byte(query.Get("keys")), &p.keys) != nil {
		return p, false
	}
	return p, true
}

// merged puts a list together: replicator databases of the service, and all others of the CouchDB.
func merged(theirs, ours []entry) []entry {
	return slices.Concat(
		slices.DeleteFunc(theirs, func(e entry) bool { return jobstore.IsReplicatorDB(e.name) }),
		slices.DeleteFunc(ours, func(e entry) bool { return !jobstore.IsReplicatorDB(e.name) }),
	)
}

// cut orders a list and returns the page of it.
func (p page) cut(all []entry) []entry {
	slices.SortStableFunc(all, func(a, b entry) int {
		switch {
		case p.keys != nil:
			return cmp.Compare(slices.Index(p.keys, a.name), slices.Index(p.keys, b.name))
		case p.descending:
			a, b = b, a
		}
		return cmp.Compare(a.name, b.name)
	})
	all = all[min(p.skip, len(all)):]
	return all[:min(p.limit, len(all))]
}

// replaced puts together what both say of the same names, in the same order.
func replaced(theirs, ours []entry) []entry {
	for i, e := range theirs {
		if i < len(ours) && ours[i].name == e.name && jobstore.IsReplicatorDB(e.name) {
			theirs[i] = ours[i]
		}
	}
	return theirs
}

// entry is an element of a list: a name, or what is told of it.
type entry struct {
	name string
	text json.RawMessage
}

// captured is an answer that a client does not get as it is.
type captured struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// capture returns what a handler answers.
func capture(h http.Handler, r *http.Request) *captured {
	c := &captured{header: http.Header{}}
	h.ServeHTTP(c, r)
	return c
}

// Header is http.ResponseWriter's.
func (c *captured) Header() http.Header { return c.header }

// WriteHeader is http.ResponseWriter's.
func (c *captured) WriteHeader(status int) {
	if c.status == 0 && status >= http.StatusOK {
		c.status = status
	}
}

// Write is http.ResponseWriter's.
func (c *captured) Write(text []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	return c.body.Write(text)
}

// entries returns the elements of a list of databases.
func (c *captured) entries() (list []entry, is bool) {
	var all []json.RawMessage
	if c.status != http.StatusOK || json.Unmarshal(c.body.Bytes(), &all) != nil {
		return nil, false
	}
	for _, text := range all {
		var told struct{ Key any }
		e := entry{text: text}
		if json.Unmarshal(text, &e.name) != nil && json.Unmarshal(text, &told) == nil {
			e.name, _ = told.Key.(string)
		}
		list = append(list, e)
	}
	return list, true
}

// put replaces the list of an answer.
func (c *captured) put(list []entry) {
	c.body.Reset()
	separator := "["
	for _, e := range list {
		c.body.WriteString(separator)
		c.body.Write(e.text)
		separator = ","
	}
	if len(list) == 0 {
		c.body.WriteString(separator)
	}
	c.body.WriteString("]\n")
}
