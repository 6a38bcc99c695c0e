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

// unknownStart is the instance start time of a server that names none.
const unknownStart = "0"

var jsonBody = peer.Param{Name: "Content-Type", Value: "application/json"}

// delayCommit lets old servers answer a write before it is on disk: Commit sees to that.
var delayCommit = peer.Param{Name: "X-Couch-Full-Commit", Value: "false"}

// ask sends a request whose answer must have one of the given statuses.
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

// withBody makes a request carry a body.
func (r request) withBody(body []byte) request {
	r.open, r.size = func() io.Reader { return bytes.NewReader(body) }, int64(len(body))
	return r
}

// describe reads GET /db.
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
	e.keepsEncoded.Store(db.BackendAdapter != nil)
	return db, nil
}

func (e *endpoint) openDB(ctx context.Context) (peer.Opened, *peer.Failure) {
	db, f := e.describe(ctx)
	if f != nil {
		return peer.Opened{}, f
	}
	return peer.Opened{UpdateSeq: seqOf(db.UpdateSeq), InstanceStartTime: startTime(db.InstanceStartTime)}, nil
}

// startTime takes a time that most servers give as a string and some as a number.
func startTime(v any) string {
	if v == nil {
		return unknownStart
	}
	if n, is := v.(float64); is {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return asText(v)
}

// seqOf reads a sequence, empty if there is none.
func seqOf(raw []byte) peer.Seq {
	seq, _ := peer.SeqOf(raw)
	return seq
}

// queryText is a sequence as a query parameter: strings go without quotes.
func queryText(s peer.Seq) string {
	text, err := jsontext.AppendUnquote(nil, string(s))
	if err != nil {
		return string(s)
	}
	return string(text)
}

func (e *endpoint) create(ctx context.Context, op peer.Create) (peer.Created, *peer.Failure) {
	r := request{method: http.MethodPut, query: encodeQuery(op.Params...)}
	a, f := e.ask(ctx, r, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusPreconditionFailed)
	if f != nil {
		return peer.Created{}, f
	}
	if a.StatusCode == http.StatusPreconditionFailed {
		a.finish()
		return peer.Created{}, nil
	}
	return peer.Created{}, a.done()
}

// done reads an answer that says no more than that something was done. A status alone is not enough
// here or for any other write: login and maintenance pages of proxies come with 200.
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
		return peer.Committed{}, a.broken(malformed("answered JSON that does not say that its writes are durable"))
	}
	return peer.Committed{InstanceStartTime: startTime(said.InstanceStartTime)}, nil
}

// countPending asks a clustered source for its own count. Sequences of others are numbers, whose
// difference is the count.
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
	var said struct {
		Pending any `json:"pending"`
	}
	if f := a.readJSON(maxSmall, &said); f != nil {
		return peer.Pending{}, f
	}
	if n, is := said.Pending.(float64); is && n >= 0 && n < 1<<53 {
		return peer.Pending{Count: int64(n)}, nil
	}
	return peer.Pending{Count: -1}, nil
}

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

// isAbsent tells a document that is not there from a database that is not.
func isAbsent(f *peer.Failure) bool {
	switch f.Reason {
	case "no_db_file", "Database does not exist.":
		return false
	}
	return f.Error == "not_found"
}

func (e *endpoint) putLocal(ctx context.Context, op peer.PutLocal) (peer.LocalWritten, *peer.Failure) {
	body, err := localDoc(op)
	r := request{method: http.MethodPut, path: escapeID("_local/" + op.ID), header: []peer.Param{jsonBody, delayCommit}}.withBody(body)
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

// localDoc puts the members that a server wants before those of the checkpoint.
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

// getFilter answers a filter that is not there as a server does that is asked to use it.
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
