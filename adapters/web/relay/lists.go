package relay

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"couchrelay/adapters/web"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
)

// Bounds of a list.
const (
	pageSize   = 200  // jobs that one transaction reads
	keysAtOnce = 50   // of the parameter keys, looked up in one transaction
	manyKeys   = 1000 // in that parameter
	// fruitless is how many transactions of a request may look at rows and find none. Then the answer has what
	// was found, and a cursor.
	fruitless = 64
)

// sentAtOnce is about how many bytes of rows are in memory: a list of all documents may have a million. Tests have it
// shorter.
var sentAtOnce = 1 << 20

// glance is for lists, which are polled and out of date when they arrive. A thing that is asked for by name
// is read at its newest version.
var glance = kv.Options{Tag: "list", Stale: true}

// list is a request for a list.
type list struct {
	jobstore.Listing
	s        *service
	q        *web.Request
	sight    sight
	shown    shownStates
	end      string // the id at which the list ends, if that is not a part of it
	database string // empty for all
	node     string
	keys     []string // ids of jobs, if given
	byKeys   bool
	limit    int64
	row      func(jobID string, rec *jobstore.Record) any // how a job is shown

	rows    []byte // rows that are read and not sent yet, as JSON
	listed  int64
	skipped int64
	total   *int64 // nil if unknown
	next    *jobstore.Position
}

// listed is the answer to a request for a list, beside its rows.
type listed struct {
	Total  *int64 `json:"total_rows"` // null if it is not known
	Offset int64  `json:"offset"`
	Cursor string `json:"cursor,omitempty"`
}

// listJobs lists the jobs that are not over.
func (s *service) listJobs(q *web.Request) error {
	l, err := s.newList(q, jobstore.Filter{}, q.Query.Get("database"), 100)
	if err != nil {
		return err
	}
	l.row = func(id string, rec *jobstore.Record) any { return jobOf(id, l.sight.view(id, rec)) }
	return l.answer()
}

// allDatabases is the value of the parameter database for the documents of all databases.
const allDatabases = "*"

// listDocs lists the replications of the documents of _replicator, or of the databases that a parameter names.
func (s *service) listDocs(q *web.Request) error {
	database := "_replicator"
	if q.Query.Has("database") {
		database = q.Query.Get("database")
	}
	return s.listDocsOf(q, database)
}

// listDocsOf lists the replications of the documents of a database.
func (s *service) listDocsOf(q *web.Request, database string) error {
	if database == allDatabases {
		database = ""
	}
	l, err := s.newList(q, jobstore.Filter{Documents: true}, database, web.Unlimited)
	if err != nil {
		return err
	}
	l.row = func(id string, rec *jobstore.Record) any {
		view := l.sight.view(id, rec)
		view.Database = cmp.Or(view.Database, database) // of one that cannot be read
		return documentOf(id, rec.Error, view)
	}
	return l.answer()
}

// newList returns the list that a request asks for; most is the limit when there is no parameter for it.
func (s *service) newList(q *web.Request, f jobstore.Filter, database string, most int64) (*list, error) {
	v, err := s.sightOf(q)
	if err != nil {
		return nil, err
	}
	if !v.enters(database) {
		return nil, errNotMember
	}
	l := &list{Listing: jobstore.Listing{Filter: f}, s: s, q: q, sight: v, database: database}
	return l, l.parameters(most)
}

// answer reads the list and sends it. A long list is sent while it is read, so its total and its cursor, which are
// known at the end only, follow its rows.
func (l *list) answer() error {
	read := l.read
	if l.byKeys {
		read = l.readKeys
	}
	if err := read(); err != nil {
		return indexing(err)
	}
	a := listed{Total: l.total, Offset: l.skipped}
	if l.next != nil {
		a.Cursor = l.cursorAt(*l.next)
	}
	rest, err := web.Encode(a)
	switch {
	case err != nil:
		return err
	case l.q.Began():
		_, err := l.q.W.Write(append(append(append(l.rows, "],"...), rest[1:]...), '\n'))
		return err
	}
	text := append(rest[:len(rest)-1], ',')
	return l.q.SendRaw(http.StatusOK, append(append(append(text, l.head()...), l.rows...), "]}"...))
}

// head begins the member with the rows.
func (l *list) head() string {
	if l.Documents {
		return `"docs":[`
	}
	return `"jobs":[`
}

// add adds rows to the answer.
func (l *list) add(jobs []jobstore.Job) error {
	for _, j := range jobs {
		row, err := web.Encode(l.row(j.ID, j.Record))
		if err != nil {
			return err
		}
		if l.listed++; l.listed > 1 {
			l.rows = append(l.rows, ',')
		}
		l.rows = append(l.rows, row...)
	}
	if len(l.rows) < sentAtOnce {
		return nil
	}
	if !l.q.Began() {
		l.q.Begin(http.StatusOK, "application/json")
		l.rows = append([]byte("{"+l.head()), l.rows...)
	}
	_, err := l.q.W.Write(l.rows)
	l.rows = l.rows[:0]
	return err
}

// read reads the rows, in as many transactions as it takes.
func (l *list) read() error {
	idle, whole := 0, l.At == jobstore.Position{} && l.From == "" && l.To == ""
	for first := true; first || l.next != nil && l.limit > 0 && idle < fruitless; first = false {
		part := l.Listing
		part.Limit = int(min(l.limit, pageSize))
		if l.next != nil {
			part.At = *l.next
		}
		page, err := readable(l.q, l.s, func(r jobstore.Lists) (jobstore.Listed, error) {
			return l.page(r, part, first)
		})
		if err != nil {
			return err
		}
		if err := l.add(page.Jobs); err != nil {
			return err
		}
		l.next = page.Next
		l.limit -= int64(len(page.Jobs))
		l.Skip -= page.Skipped
		if l.skipped += page.Skipped; len(page.Jobs) == 0 && page.Skipped == 0 {
			idle++
		}
	}
	if l.total == nil && whole && l.next == nil {
		l.total = new(l.skipped + l.listed)
	}
	return nil
}

// readable reads something of lists in a transaction. If it comes to a job that cannot be read, it begins again
// without that one.
func readable[T any](q *web.Request, s *service, read func(jobstore.Lists) (T, error)) (T, error) {
	for without := []string(nil); ; {
		found, err := web.Run(q, s.DB, glance, func(tx kv.Tx) (T, error) {
			return read(jobstore.Lists{Store: s.Store, Reader: tx.Snapshot(), Without: without})
		})
		odd, is := errors.AsType[*jobs.UnreadableError](err)
		if !is || slices.Contains(without, odd.Job) {
			return found, err
		}
		without = append(without, odd.Job)
	}
}

// page reads a part of the list, and with the first one also which jobs the list is of.
func (l *list) page(r jobstore.Lists, part jobstore.Listing, first bool) (page jobstore.Listed, err error) {
	if err := l.resolve(r, &part); err != nil {
		return page, err
	}
	if first {
		total, known, err := l.shown.total(r, part.Filter)
		if err != nil {
			return page, err
		}
		if l.total = nil; known && l.sight.all {
			l.total = &total
		}
	}
	if l.sight.all && !l.shown.parts() && l.end == "" {
		return r.Page(part)
	}
	return l.sifted(r, part)
}

// sifted reads a page without the jobs that the user does not see, or does not want. Those are not skipped either.
func (l *list) sifted(r jobstore.Lists, part jobstore.Listing) (jobstore.Listed, error) {
	skip := part.Skip
	part.Skip = 0
	page, err := r.Page(part)
	page.Jobs = slices.DeleteFunc(page.Jobs, func(j jobstore.Job) bool {
		return !l.sight.sees(j.Record) || !l.shown.has(j.Record) || j.ID == l.end
	})
	if page.Next != nil {
		page.Next = new(l.sight.goesOn(*page.Next, l.Descending))
	}
	page.Skipped = min(skip, int64(len(page.Jobs)))
	page.Jobs = page.Jobs[page.Skipped:]
	return page, err
}

// resolve looks up what names stand for: the node's workers.
func (l *list) resolve(r jobstore.Lists, part *jobstore.Listing) error {
	if l.node == "" {
		return nil
	}
	members, err := node.Members(r.Reader, l.s.Store)
	part.Workers = []string{}
	for _, m := range members {
		if m.Info.Name == l.node {
			part.Workers = append(part.Workers, m.Worker)
		}
	}
	return err
}

// readKeys reads the jobs of the parameter keys that there are, in that order.
func (l *list) readKeys() error {
	keys := l.keys[min(l.Skip, int64(len(l.keys))):]
	l.skipped = int64(len(l.keys) - len(keys))
	keys = keys[:min(l.limit, int64(len(keys)))]
	for i := 0; i < len(keys) || i == 0; i += keysAtOnce {
		found, err := readable(l.q, l.s, func(r jobstore.Lists) (found []jobstore.Job, err error) {
			if _, err = l.page(r, jobstore.Listing{Filter: l.Filter}, i == 0); err != nil { // for the total
				return nil, err
			}
			for _, id := range keys[i:min(i+keysAtOnce, len(keys))] {
				page, err := l.page(r, jobstore.Listing{Filter: l.Filter, From: id, To: id, Limit: 1}, false)
				if err != nil {
					return nil, err
				}
				found = append(found, page.Jobs...)
			}
			return found, nil
		})
		if err == nil {
			err = l.add(found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unquoted reads a JSON text.
func unquoted(name, text string) (string, error) {
	var value string
	if json.Unmarshal([]byte(text), &value) != nil || value == "" {
		return "", web.QueryError(name + ` must be a JSON string that is not empty, as in ` + name + `="ID"`)
	}
	return value, nil
}
