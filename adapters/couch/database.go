package couch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// unknownStart is the instance start time of a server that gives none.
const unknownStart = "0"

var jsonBody = peer.Param{Name: "Content-Type", Value: "application/json"}

// delayCommit lets CouchDB 1.x answer a write before it is on disk. The core sends Commit before a checkpoint
// relies on the writes.
var delayCommit = peer.Param{Name: "X-Couch-Full-Commit", Value: "false"}

// ask sends a request. An answer with none of the given statuses is a failure, and is ended here.
func (e *endpoint) ask(ctx context.Context, r request, statuses ...int) (*answer, *peer.Failure) {
	a, f := e.send(ctx, r)
	if f != nil {
		return nil, f
	}
	for _, s := range statuses {
		if a.StatusCode == s {
			return a, nil
		}
	}
	return nil, a.refused()
}

// withBody returns the request with a body, which can be sent again.
func (r request) withBody(body []byte) request {
	r.open, r.size = func() io.Reader { return bytes.NewReader(body) }, int64(len(body))
	return r
}

// describe reads the answer to GET /db. It also notes whether the server is PouchDB's.
func (e *endpoint) describe(ctx context.Context) (db struct {
	UpdateSeq         json.RawMessage `json:"update_seq"`
	InstanceStartTime any             `json:"instance_start_time"`
	CouchDB           any             `json:"couchdb"`         // in the greeting of a server's root
	BackendAdapter    any             `json:"backend_adapter"` // PouchDB's store
}, f *peer.Failure) {
	a, f := e.ask(ctx, request{method: http.MethodGet}, http.StatusOK)
	if f != nil {
		return db, f
	}
	if f = a.readJSON(maxSmall, &db); f != nil {
		return db, f
	}
	if len(db.UpdateSeq) == 0 || string(db.UpdateSeq) == "null" {
		problem := malformed("answered JSON without update_seq, so it is not a database")
		if db.CouchDB != nil {
			problem = "answered a server's greeting: the URL names no database"
		}
		return db, a.broken(problem)
	}
	e.pouch.Store(db.BackendAdapter != nil)
	return db, nil
}

func (e *endpoint) openDB(ctx context.Context) (peer.Opened, *peer.Failure) {
	db, f := e.describe(ctx)
	if f != nil {
		return peer.Opened{}, f
	}
	start := startTime(db.InstanceStartTime)
	return peer.Opened{UpdateSeq: seqOf(db.UpdateSeq), InstanceStartTime: start}, nil
}

// startTime returns a server's instance start time as text. Most servers give it as a string, some as a
// number.
func startTime(v any) string {
	if v == nil {
		return unknownStart
	}
	if n, is := v.(float64); is {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return asText(v)
}

// seqOf returns a sequence as the core has it, empty if raw is none.
func seqOf(raw []byte) peer.Seq {
	seq, _ := peer.SeqOf(raw)
	return seq
}

// queryText returns a sequence as the value of a query parameter: strings go without their quotes, numbers
// and arrays as JSON.
func queryText(s peer.Seq) string {
	text, err := jsontext.AppendUnquote(nil, string(s))
	if err != nil {
		return string(s)
	}
	return string(text)
}

// create creates the database. It is no failure that there already is one (412).
func (e *endpoint) create(ctx context.Context, op peer.Create) (peer.Created, *peer.Failure) {
	r := request{method: http.MethodPut, query: encodeQuery(op.Params...)}
	a, f := e.ask(ctx, r,
		http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusPreconditionFailed)
	if f != nil {
		return peer.Created{}, f
	}
	if a.StatusCode == http.StatusPreconditionFailed {
		a.finish()
		return peer.Created{}, nil
	}
	return peer.Created{}, a.done()
}

// done reads the answer {"ok":true} and ends it. For no write is a status enough: the login and maintenance
// pages of proxies come with 200.
func (a *answer) done() *peer.Failure {
	var said struct {
		OK any `json:"ok"`
	}
	if f := a.readJSON(maxSmall, &said); f != nil {
		return f
	}
	if said.OK != true {
		return a.broken(malformed("answered JSON that does not say that it was done"))
	}
	return nil
}

// commit makes the server's writes durable. The answer's start time tells whether the server has restarted
// since Open, and thus may have lost writes before it.
func (e *endpoint) commit(ctx context.Context) (peer.Committed, *peer.Failure) {
	r := request{method: http.MethodPost, path: "_ensure_full_commit", header: []peer.Param{jsonBody}}
	a, f := e.ask(ctx, r, http.StatusOK, http.StatusCreated, http.StatusAccepted)
	if f != nil {
		return peer.Committed{}, f
	}
	var said struct {
		OK                any `json:"ok"`
		InstanceStartTime any `json:"instance_start_time"`
	}
	if f := a.readJSON(maxSmall, &said); f != nil {
		return peer.Committed{}, f
	}
	if said.OK != true && said.InstanceStartTime == nil {
		problem := malformed("answered JSON that does not say that its writes are durable")
		return peer.Committed{}, a.broken(problem)
	}
	return peer.Committed{InstanceStartTime: startTime(said.InstanceStartTime)}, nil
}

// countPending returns how many changes follow since, -1 if the source does not say. Where sequences are
// numbers (CouchDB 1.x, PouchDB) their difference is the count. A clustered source counts by itself, in an
// answer of no rows. For Sync Gateway a limit of 0 is none: its answer is left at the first row, and counts nothing.
func (e *endpoint) countPending(ctx context.Context, since peer.Seq) (peer.Pending, *peer.Failure) {
	if from, err := strconv.ParseInt(string(since), 10, 64); err == nil {
		db, f := e.describe(ctx)
		if f != nil {
			return peer.Pending{}, f
		}
		if to, err := strconv.ParseInt(string(db.UpdateSeq), 10, 64); err == nil {
			return peer.Pending{Count: max(0, to-from)}, nil
		}
	}
	r := request{method: http.MethodGet, path: "_changes", query: encodeQuery(
		peer.Param{Name: "since", Value: queryText(since)}, peer.Param{Name: "limit", Value: "0"},
	)}
	a, f := e.ask(ctx, r, http.StatusOK)
	if f != nil {
		return peer.Pending{}, f
	}
	defer a.close()
	pending, rows, in := int64(-1), false, newStream(a)
	err := in.object(func(name string) (err error) {
		switch name {
		case "results":
			err = in.array(func(int) error {
				if err := in.SkipValue(); err != nil {
					return err
				}
				rows = true
				return errBudget
			})
		case "pending":
			pending, err = in.count()
		default:
			err = in.SkipValue()
		}
		return err
	})
	if rows {
		return peer.Pending{Count: -1}, nil
	}
	if err == nil {
		err = in.end()
	}
	if err != nil {
		return peer.Pending{}, a.broken(err)
	}
	a.finish()
	return peer.Pending{Count: pending}, nil
}

// getLocal reads a local document. It is no failure that there is none.
func (e *endpoint) getLocal(ctx context.Context, op peer.GetLocal) (peer.Local, *peer.Failure) {
	a, f := e.ask(ctx, request{method: http.MethodGet, path: escapeID("_local/" + op.ID)}, http.StatusOK)
	switch {
	case f != nil && f.Status == http.StatusNotFound && isAbsent(f):
		return peer.Local{}, nil
	case f != nil:
		return peer.Local{}, f
	}
	var body json.RawMessage
	if f := a.readJSON(maxLog, &body); f != nil {
		return peer.Local{}, f
	}
	var doc struct {
		Rev any `json:"_rev"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return peer.Local{}, a.broken(malformed("answered JSON that is not a document"))
	}
	return peer.Local{Found: true, Rev: asText(doc.Rev), Body: body}, nil
}

// isAbsent reports whether an answer 404 means that the document does not exist, and not the database. A
// missing database taken for a missing checkpoint would make a run start from zero on a server that is in
// trouble.
func isAbsent(f *peer.Failure) bool {
	switch f.Reason {
	case "no_db_file", "Database does not exist.":
		return false
	}
	return f.Error == "not_found"
}

// putLocal writes a local document and returns its new revision.
func (e *endpoint) putLocal(ctx context.Context, op peer.PutLocal) (peer.LocalWritten, *peer.Failure) {
	body, err := localDoc(op)
	r := request{
		method: http.MethodPut, path: escapeID("_local/" + op.ID),
		header: []peer.Param{jsonBody, delayCommit},
	}.withBody(body)
	if err != nil {
		return peer.LocalWritten{}, e.failure(r, peer.Malformed, err.Error())
	}
	a, f := e.ask(ctx, r, http.StatusOK, http.StatusCreated, http.StatusAccepted)
	if f != nil {
		return peer.LocalWritten{}, f
	}
	var said struct {
		Rev string `json:"rev"`
	}
	if f := a.readJSON(maxSmall, &said); f != nil {
		return peer.LocalWritten{}, f
	}
	if said.Rev == "" {
		return peer.LocalWritten{}, a.broken(malformed("answered no rev to a document that it wrote"))
	}
	return peer.LocalWritten{Rev: said.Rev}, nil
}

// localDoc returns the body of a local document: _id, and _rev if there is one, before the members of the
// checkpoint. The checkpoint's own bytes stay as they are.
func localDoc(op peer.PutLocal) ([]byte, error) {
	rest, isObject := bytes.CutPrefix(bytes.TrimSpace(op.Body), []byte("{"))
	if !isObject {
		return nil, fmt.Errorf("the checkpoint is not a JSON object")
	}
	body, err := jsontext.AppendQuote([]byte(`{"_id":`), "_local/"+op.ID)
	if op.Rev != "" && err == nil {
		body, err = jsontext.AppendQuote(append(body, `,"_rev":`...), op.Rev)
	}
	if len(bytes.TrimSpace(rest)) > 1 {
		body = append(body, ',')
	}
	return append(body, rest...), err
}

// getFilter reads a filter function's code from the source's design document. A design document without it
// gives the failure that a server gives which is asked to use the filter.
func (e *endpoint) getFilter(ctx context.Context, op peer.GetFilter) (peer.Filter, *peer.Failure) {
	r := request{method: http.MethodGet, path: escapeID("_design/" + op.DesignDoc)}
	a, f := e.ask(ctx, r, http.StatusOK)
	if f != nil {
		return peer.Filter{}, f
	}
	var doc struct {
		Rev     string         `json:"_rev"`
		Filters map[string]any `json:"filters"`
	}
	if f := a.readJSON(maxDesign, &doc); f != nil {
		return peer.Filter{}, f
	}
	code, is := doc.Filters[op.Name].(string)
	if !is {
		f := e.failure(r, peer.Status, "the design document has no filter function "+op.Name)
		f.Status, f.Error = http.StatusNotFound, "not_found"
		return peer.Filter{}, f
	}
	return peer.Filter{Code: code, Rev: doc.Rev}, nil
}
