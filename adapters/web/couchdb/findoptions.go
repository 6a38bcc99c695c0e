package couchdb

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/mango"

	"github.com/go-json-experiment/json/jsontext"
)

// findOptions are the members of the body of _find and _explain.
type findOptions struct {
	selector   *mango.Selector
	bounds     mango.Bounds
	fields     *mango.Fields // nil for all
	names      []string      // of fields
	sort       []sortField
	limit      int64
	skip       int64
	bookmark   string // as it was given, nil without one
	after      *string
	useIndex   []string
	fallback   bool
	conflicts  bool
	stats      bool
	quorum     int64
	stale      bool
	update     bool
	stable     bool
	descending bool
}

type sortField struct{ name, direction string }

// defaultFound is how many documents an answer has unless the client asks for another number.
const defaultFound = 25

// invalid is the answer to a member that cannot be read, with CouchDB's word for the mistake.
func invalid(word, format string, args ...any) *web.Error {
	return &web.Error{Status: http.StatusBadRequest, Name: word, Reason: fmt.Sprintf(format, args...)}
}

// readers read the members, each with its name.
var readers = map[string]func(o *findOptions, name string, v ejson.Value) error{
	"selector":        (*findOptions).readSelector,
	"fields":          (*findOptions).readFields,
	"sort":            (*findOptions).readSort,
	"bookmark":        (*findOptions).readBookmark,
	"use_index":       (*findOptions).readIndex,
	"partition":       (*findOptions).readPartition,
	"stale":           (*findOptions).readStale,
	"limit":           number(0, "invalid_non_neg_integer", func(o *findOptions) *int64 { return &o.limit }),
	"skip":            number(0, "invalid_non_neg_integer", func(o *findOptions) *int64 { return &o.skip }),
	"r":               number(1, "invalid_pos_integer", func(o *findOptions) *int64 { return &o.quorum }),
	"conflicts":       boolean(func(o *findOptions) *bool { return &o.conflicts }),
	"execution_stats": boolean(func(o *findOptions) *bool { return &o.stats }),
	"allow_fallback":  boolean(func(o *findOptions) *bool { return &o.fallback }),
	"update":          boolean(func(o *findOptions) *bool { return &o.update }),
	"stable":          boolean(func(o *findOptions) *bool { return &o.stable }),
}

// readFind reads the body of _find and _explain.
func readFind(q *request) (*findOptions, error) {
	raw, err := q.jsonBody()
	if err != nil {
		return nil, err
	}
	body, err := ejson.Parse(raw)
	if err != nil {
		return nil, docs.ErrJSON
	}
	if body.Kind != ejson.Object {
		return nil, web.BadRequest("Request body must be a JSON object")
	}
	o := &findOptions{limit: defaultFound, bookmark: "nil", fallback: true, update: true, quorum: 1}
	for _, m := range body.Members {
		read := readers[m.Name]
		if read == nil {
			return nil, invalid("invalid_key", "Invalid key %s for this request.", m.Name)
		}
		if err := read(o, m.Name, m.Value); err != nil {
			return nil, err
		}
	}
	if o.selector == nil {
		return nil, invalid("missing_required_key", "Missing required key: selector")
	}
	return o, nil
}

func number(least int64, word string, field func(o *findOptions) *int64) func(*findOptions, string, ejson.Value) error {
	return func(o *findOptions, name string, v ejson.Value) error {
		n, err := strconv.ParseInt(v.Text, 10, 64)
		if !v.IsInteger() || err != nil || n < least {
			return invalid(word, "`%s` must be an integer of at least %d", name, least)
		}
		*field(o) = n
		return nil
	}
}

func boolean(field func(o *findOptions) *bool) func(*findOptions, string, ejson.Value) error {
	return func(o *findOptions, name string, v ejson.Value) error {
		if v.Kind != ejson.True && v.Kind != ejson.False {
			return invalid("invalid_boolean", "`%s` must be true or false", name)
		}
		*field(o) = v.Kind == ejson.True
		return nil
	}
}

func (o *findOptions) readSelector(_ string, v ejson.Value) (err error) {
	if o.selector, err = mango.Compile(v.Append(nil)); err != nil {
		return mangoError("selector", err)
	}
	o.bounds = o.selector.Bounds()
	return nil
}

// mangoError is the answer to a mistake in a member.
func mangoError(name string, err error) error {
	if mistake, is := errors.AsType[*mango.Error](err); is {
		return invalid(mistake.Name, "`%s`: %s", name, mistake.Reason)
	}
	return err
}

func (o *findOptions) readFields(name string, v ejson.Value) error {
	if v.Kind != ejson.Array {
		return invalid("invalid_fields", "`%s` must be an array of strings", name)
	}
	for _, e := range v.Elems {
		if e.Kind != ejson.String {
			return invalid("invalid_field", "`%s` must be an array of strings", name)
		}
		o.names = append(o.names, e.Text)
	}
	if len(o.names) == 0 {
		return nil
	}
	fields, err := mango.ParseFields(o.names)
	o.fields = &fields
	return mangoError(name, err)
}

func (o *findOptions) readSort(name string, v ejson.Value) error {
	if v.Kind != ejson.Array {
		return invalid("invalid_sort_json",
			"`%s` must be an array of names of fields and objects like {\"_id\": \"desc\"}", name)
	}
	for _, e := range v.Elems {
		f := sortField{e.Text, "asc"}
		if e.Kind == ejson.Object && len(e.Members) == 1 {
			f = sortField{e.Members[0].Name, e.Members[0].Value.Text}
		} else if e.Kind != ejson.String {
			f.name = ""
		}
		if f.name == "" || f.direction != "asc" && f.direction != "desc" {
			return invalid("invalid_sort_field",
				"`%s`: each field is a name or an object of a name and asc or desc", name)
		}
		if o.sort = append(o.sort, f); f.direction != o.sort[0].direction {
			return invalid("unsupported_mixed_sort",
				"`%s`: Sorts currently only support a single direction for all fields.",
				name)
		}
	}
	o.descending = len(o.sort) > 0 && o.sort[0].direction == "desc"
	return nil
}

// bookmarkMark begins the text of all bookmarks.
const bookmarkMark = "id:"

func bookmarkOf(id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(bookmarkMark + id))
}

// readBookmark reads where the answer before this one ended. As in CouchDB "nil" is what an empty answer has, but
// it may be given back.
func (o *findOptions) readBookmark(name string, v ejson.Value) error {
	if v.Kind == ejson.Null || v.Kind == ejson.String && (v.Text == "" || v.Text == "nil") {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(v.Text)
	id, is := strings.CutPrefix(string(text), bookmarkMark)
	if v.Kind != ejson.String || err != nil || !is {
		return invalid("invalid_bookmark", "`%s` must be the bookmark of an answer of this service", name)
	}
	o.bookmark, o.after = v.Text, &id
	return nil
}

func (o *findOptions) readIndex(name string, v ejson.Value) error {
	wrong := invalid("invalid_index_name",
		"`%s` must be the name of a design document, and may have that of an index", name)
	var parts []string
	switch v.Kind {
	case ejson.Null:
		return nil
	case ejson.String:
		parts = strings.Split(strings.TrimPrefix(v.Text, "_design/"), "/")
	case ejson.Array:
		for _, e := range v.Elems {
			if e.Kind != ejson.String {
				return wrong
			}
			parts = append(parts, strings.TrimPrefix(e.Text, "_design/"))
		}
	default:
		return wrong
	}
	if len(parts) > 2 {
		return wrong
	}
	o.useIndex = parts
	return nil
}

func (o *findOptions) readPartition(_ string, v ejson.Value) error {
	if v.Kind == ejson.String && v.Text == "" {
		return nil
	}
	return web.QueryError("`partition` parameter is not supported on this db")
}

func (o *findOptions) readStale(name string, v ejson.Value) error {
	if v.Kind != ejson.False && !(v.Kind == ejson.String && slices.Contains([]string{"ok", "false"}, v.Text)) {
		return invalid("invalid_ok_or_false_value", "`%s` must be \"ok\" or false", name)
	}
	o.stale = v.Text == "ok"
	return nil
}

// sortable reports whether documents come in the order that is asked for: there is no index but that of all documents,
// which is by their ids, and as in CouchDB it serves only selectors with a condition on these.
func (o *findOptions) sortable() bool {
	return len(o.sort) == 0 || len(o.sort) == 1 && o.sort[0].name == "_id" && o.bounds.Indexed
}

// index names the index that the client asks for, as warnings do.
func (o *findOptions) index() string { return "_design/" + strings.Join(o.useIndex, ", ") }

// usable refuses what needs an index that is not there.
func (o *findOptions) usable() error {
	switch {
	case !o.sortable():
		return invalid("no_usable_index", "documents are sorted by _id alone, with a condition on _id in the "+
			"selector: there is no other index, and none can be made")
	case o.fallback:
		return nil
	case len(o.useIndex) == 0:
		return invalid("invalid_index", "You must specify an index with the `use_index` parameter.")
	}
	return invalid("invalid_index", "%s specified by `use_index` could not be found or it is not suitable.", o.index())
}

// warnings are CouchDB's, about a search without an index of its own.
func (o *findOptions) warnings(examined, found int64) string {
	list := []string{"No matching index found, create an index to optimize query time."}
	if len(o.useIndex) > 0 {
		why := "it does not contain a valid index for this query."
		if len(o.useIndex) == 2 {
			why = "it is not a valid index for this query."
		}
		list = slices.Insert(list, 0, o.index()+" was not used because "+why)
	}
	if examined > 10*max(found, 1) {
		list = append(list, "The number of documents examined is high in proportion to the number of results "+
			"returned. Consider adding a more specific index to improve this.")
	}
	return strings.Join(list, "\n")
}

// listing is the range of ids in which matching documents are.
func (o *findOptions) listing() docs.Listing {
	b := o.bounds
	low, high := b.Low, b.High
	l := docs.Listing{Descending: o.descending, Docs: true, Conflicts: o.conflicts, Limit: 1 << 20}
	l.From, l.To, l.After, l.Before = low, high, b.LowIsOut, b.HighIsOut
	if o.descending {
		l.From, l.To, l.After, l.Before = high, low, b.HighIsOut, b.LowIsOut
	}
	if o.after != nil && (l.From == nil || !o.descending && *o.after >= *l.From || o.descending &&
		*o.after <= *l.From) {
		l.From, l.After = o.after, true
	}
	return l
}

// allIndex is the one index that there is.
var allIndex = jsontext.Value(
	`{"ddoc":null,"name":"_all_docs","type":"special","def":{"fields":[{"_id":"asc"}]}}`)
