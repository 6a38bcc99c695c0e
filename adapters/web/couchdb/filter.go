package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"couchrelay/adapters/javascript"
	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/mango"

	"github.com/go-json-experiment/json/jsontext"
)

// readFilter reads the filter and its arguments, from the query or the body.
func (f *feed) readFilter() error {
	var body []byte
	if f.Method == http.MethodPost && f.ContentLength != 0 {
		var err error
		if body, err = f.jsonBody(); err != nil {
			return err
		}
	}
	members := map[string]jsontext.Value{}
	if len(body) > 0 {
		err := objectMembers(body, func(name string, d *jsontext.Decoder) error {
			value, err := d.ReadValue()
			if members[name] = value.Clone(); err != nil {
				return docs.ErrJSON
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch filter := f.Query.Get("filter"); filter {
	case "":
	case "_design":
		f.ask.ID = func(id string) bool { return strings.HasPrefix(id, "_design/") }
	case "_doc_ids":
		return f.filterIDs(members["doc_ids"])
	case "_selector":
		return f.filterSelector(members["selector"], members["fields"])
	case "_view":
		return f.filterFunction("view", f.Query.Get("view"), body)
	default:
		if strings.HasPrefix(filter, "_") {
			return web.BadRequest("unknown builtin filter name")
		}
		return f.filterFunction("filter", filter, body)
	}
	return nil
}

func (f *feed) filterIDs(list jsontext.Value) error {
	if list == nil {
		list = jsontext.Value(f.Query.Get("doc_ids"))
	}
	var ids []string
	if json.Unmarshal(list, &ids) != nil {
		return web.BadRequest("`doc_ids` filter parameter is not a list of doc ids.")
	}
	f.ask.ID = docs.IDs(ids)
	return nil
}

// filterSelector reads a selector, and the fields of documents that rows shall have.
func (f *feed) filterSelector(raw, fields jsontext.Value) error {
	if raw == nil {
		return web.BadRequest("Selector error: expected a JSON object")
	}
	selector, err := mango.Compile(raw)
	if err != nil {
		return web.BadRequest("%v", err)
	}
	var names []string
	if fields != nil && json.Unmarshal(fields, &names) != nil {
		return web.BadRequest("`fields` must be an array of strings")
	}
	if len(names) > 0 {
		some, err := mango.ParseFields(names)
		if err != nil {
			return web.BadRequest("`fields`: %v", err)
		}
		f.fields = &some
	}
	f.ask.Match = func(d *docs.Document) bool {
		if d = f.viewed(f.request, d); d == nil { // else a selector would find out what the client may not see
			return false
		}
		chosen := false
		if f.failed == nil {
			chosen, f.failed = matches(f.request, selector, d)
		}
		return chosen
	}
	return nil
}

// matches reports whether a selector matches a document that the client may see. The error is for a match that costs
// too much, and for a request that has ended: each match may take a while.
func matches(q *request, selector *mango.Selector, d *docs.Document) (bool, error) {
	if q.Context().Err() != nil {
		return false, context.Cause(q.Context())
	}
	matches, err := selector.Match(d.Body, fieldsOf(d)...)
	if mistake, is := errors.AsType[*mango.Error](err); is {
		return false, invalid(mistake.Name, "`selector`, for document %q: %s", d.ID, mistake.Reason)
	}
	return matches && err == nil, nil
}

// fieldsOf are the members that a selector sees besides the body's.
func fieldsOf(d *docs.Document) []mango.Field {
	fields := []mango.Field{
		{Name: "_id", Value: docs.AppendQuoted(nil, d.ID)},
		{Name: "_rev", Value: docs.AppendQuoted(nil, d.Rev.String())},
	}
	if d.Deleted {
		fields = append(fields, mango.Field{Name: "_deleted", Value: jsontext.Value("true")})
	}
	return fields
}

// selection is a function of a design document that selects revisions of a feed.
type selection struct {
	engine *javascript.Engine
	asked  javascript.Selection
}

// filterFunction reads which function of a design document selects revisions. It sees what the client may see of them,
// or it would tell the client of what that may not see.
func (f *feed) filterFunction(parameter, name string, body []byte) error {
	if name == "" {
		return web.BadRequest("`%s` filter parameter is not provided.", parameter)
	}
	design, function, _ := strings.Cut(name, "/")
	if design == "" || function == "" || strings.Contains(function, "/") {
		return web.BadRequest("`%s` must be of the form `designname/%sname`", parameter, parameter)
	}
	if f.Functions == nil {
		return web.NotImplemented("this server runs no functions of design documents")
	}
	id := "_design/" + design
	type found struct {
		design, security []byte
		info             description
	}
	read, err := do(f.request, func(_ kv.Tx, db *docs.Database) (r found, err error) {
		d, err := db.Read(id, docs.Want{})
		if err != nil {
			return r, err
		}
		r.design = d.AppendJSON(nil, docs.Format{})
		if r.security, err = db.Security(); err != nil {
			return r, err
		}
		r.info, err = describe(db)
		return r, err
	})
	if err != nil {
		return err
	}
	path := []string{"filters", function}
	if parameter == "view" {
		path = []string{"views", function, "map"}
	}
	f.ask.Leaves = true
	f.choose = &selection{f.Functions, javascript.Selection{Design: read.design, DesignID: id, Path: path,
		Request: encode(f.told(read.info, read.security, body))}}
	return f.choose.try()
}

// try has the function compiled, so that a mistake in it is told before there are any documents.
func (s *selection) try() error {
	if _, refusal := s.engine.Select(s.asked); refusal != nil {
		return refusal
	}
	return nil
}

// toldRequest is a request as functions see it.
type toldRequest struct {
	Info     description       `json:"info"`
	ID       *string           `json:"id"`
	UUID     string            `json:"uuid"`
	Method   string            `json:"method"`
	Asked    []string          `json:"requested_path"`
	Path     []string          `json:"path"`
	RawPath  string            `json:"raw_path"`
	Query    map[string]string `json:"query"`
	Headers  map[string]string `json:"headers"`
	Body     string            `json:"body"`
	Peer     string            `json:"peer"`
	Form     struct{}          `json:"form"`
	Cookie   struct{}          `json:"cookie"`
	User     toldUser          `json:"userCtx"`
	Security jsontext.Value    `json:"secObj"`
}

type toldUser struct {
	DB    string   `json:"db"`
	Name  *string  `json:"name"`
	Roles []string `json:"roles"`
}

// told is what a function is told of the request: as in CouchDB neither cookies nor the header with the login.
func (f *feed) told(info description, security, body []byte) toldRequest {
	path := []string{f.database, "_changes"}
	t := toldRequest{
		Info: info, UUID: newID(), Method: f.Method, Asked: path, Path: path, RawPath: f.URL.RequestURI(),
		Query: map[string]string{}, Headers: map[string]string{}, Body: string(body), Peer: f.RemoteAddr,
		User:     toldUser{f.database, nil, append([]string{}, f.User.Roles...)},
		Security: security,
	}
	if body == nil {
		t.Body = "undefined"
	}
	if f.User.Name != "" {
		t.User.Name = &f.User.Name
	}
	for name := range f.Query {
		t.Query[name] = f.Query.Get(name)
	}
	for name, values := range f.Header {
		if !slices.Contains([]string{"Authorization", "Cookie", "Proxy-Authorization"}, name) {
			t.Headers[name] = strings.Join(values, ",")
		}
	}
	return t
}

// selected returns the rows with the revisions that the function selects, without those of which it selects none.
func (f *feed) selected(rows []docs.Change) ([]docs.Change, error) {
	if f.choose == nil {
		return rows, nil
	}
	asked := f.choose.asked
	for _, row := range rows {
		for _, d := range row.Leaves {
			if d = f.viewed(f.request, d); d != nil {
				asked.Docs = append(asked.Docs, asStubs(d).AppendJSON(nil, docs.Format{Revisions: true}))
			}
		}
	}
	chosen, refusal := f.choose.engine.Select(asked)
	if refusal != nil {
		return nil, refusal
	}
	var list []docs.Change
	for _, row := range rows {
		var revs = row.Revs[:0:0]
		for i, d := range row.Leaves {
			if f.viewed(f.request, d) == nil {
				continue
			}
			if chosen[0] {
				revs = append(revs, row.Revs[i])
			}
			chosen = chosen[1:]
		}
		if row.Revs = revs; len(revs) > 0 {
			list = append(list, row)
		}
	}
	return list, nil
}

// asStubs returns a document without the bytes of its attachments.
func asStubs(d *docs.Document) *docs.Document {
	c := *d
	c.Attachments = slices.Clone(d.Attachments)
	for i := range c.Attachments {
		c.Attachments[i].Content = docs.Stub
	}
	return &c
}
