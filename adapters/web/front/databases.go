package front

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"couchrelay/core/jobstore"
)

// isWholeList reports whether a request asks for the names of all databases, and not for some of them.
func isWholeList(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/_all_dbs" && r.URL.RawQuery == ""
}

// allDatabases lists the databases of the CouchDB, with the service's replicator databases in the place of the
// CouchDB's own, which are not seen through a front.
func (f *front) allDatabases(w http.ResponseWriter, r *http.Request) {
	answer, own := capture(&f.proxy, r), capture(f.Service, r)
	theirs, ok := answer.names(false)
	ours, may := own.names(true)
	if ok && may {
		all := slices.Concat(theirs, ours)
		slices.Sort(all)
		text, err := json.Marshal(all)
		if err == nil {
			answer.body = *bytes.NewBuffer(append(text, '\n'))
		}
	}
	for name, values := range answer.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(answer.body.Len()))
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes())
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

// names returns those in a list of databases that are replicator databases, or those that are not.
func (c *captured) names(replicators bool) ([]string, bool) {
	var all []string
	if c.status != http.StatusOK || json.Unmarshal(c.body.Bytes(), &all) != nil {
		return nil, false
	}
	return slices.DeleteFunc(all, func(name string) bool { return jobstore.IsReplicatorDB(name) != replicators }), true
}
