package spec

import (
	"slices"
	"strings"
	"unicode/utf8"

	"couchrelay/core/ejson"
	"couchrelay/core/mango"
	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// FilterKind is a way to choose the changes to replicate.
type FilterKind string

// Kinds of filters. They exclude each other.
const (
	NoFilter       FilterKind = ""
	DocIDs         FilterKind = "doc_ids"  // a list of documents, which may be empty
	Selector       FilterKind = "selector" // a Mango selector
	FunctionFilter FilterKind = "function" // a function of a design document of the source
	BuiltinFilter  FilterKind = "builtin"  // one of the server's own, such as _view or _design
)

// Filter chooses the changes to replicate. Its kind decides which of the other fields are set.
type Filter struct {
	Kind FilterKind `json:"kind,omitempty"`
	// DocIDs are percent-decoded, sorted by bytes, each once.
	DocIDs []string `json:"doc_ids,omitempty"`
	// Selector is compact JSON, as the user gave it and not in normal form.
	Selector jsontext.Value `json:"selector,omitempty"`
	// Name is DDOC/FUNCTION or begins with an underscore.
	Name string `json:"name,omitempty"`
	// QueryParams is a compact JSON object in the user's order, nil if absent. It may be set without a named
	// filter, and means nothing then.
	QueryParams jsontext.Value `json:"query_params,omitempty"`
}

// DesignDoc splits the name of a function at its first slash. The design document's name is without
// _design/.
func (f Filter) DesignDoc() (ddoc, function string) {
	ddoc, function, _ = strings.Cut(f.Name, "/")
	return ddoc, function
}

func (p *parser) filter() (f Filter) {
	ids, hasIDs := p.body.Get("doc_ids")
	hasIDs = hasIDs && ids.Kind != ejson.Null
	name, hasName := p.body.Get("filter")
	_, hasSelector := p.body.Get("selector")
	if params, has := p.body.Get("query_params"); has && params.Kind != ejson.Object {
		p.badRequest("parameter `query_params` must be an object")
	}
	f.QueryParams = p.value("query_params")
	switch {
	case hasIDs && hasName || hasIDs && hasSelector || hasName && hasSelector:
		p.badRequest("`doc_ids`,`filter`,`selector` are mutually exclusive")
	case hasIDs:
		f.Kind, f.DocIDs = DocIDs, p.docIDs(ids)
	case hasSelector:
		f.Kind, f.Selector = Selector, p.selector()
	case hasName:
		f.Kind, f.Name = p.namedFilter(name)
	}
	return f
}

// docIDs decodes percent signs as CouchDB does, which also makes a plus a space.
func (p *parser) docIDs(list ejson.Value) (ids []string) {
	if list.Kind != ejson.Array {
		p.badRequest("parameter `doc_ids` must be an array")
	}
	for _, e := range list.Elems {
		id := unquote(e.Text)
		if e.Kind != ejson.String || id == "" || !utf8.ValidString(id) {
			p.badRequest("parameter `doc_ids` must be an array of document ids, percent-encoded or not: " +
				"strings that are not empty")
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// unquote undoes the encoding of forms. A percent sign without two hexadecimal digits stays.
func unquote(s string) string {
	s = strings.ReplaceAll(s, "+", " ")
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			out.WriteByte(fromHex(s[i+1])<<4 | fromHex(s[i+2]))
			i += 2
		} else {
			out.WriteByte(s[i])
		}
	}
	return out.String()
}

func fromHex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

func (p *parser) selector() jsontext.Value {
	if v, _ := p.body.Get("selector"); v.Kind != ejson.Object {
		p.badRequest("parameter `selector` must be a JSON object")
	}
	selector := p.value("selector")
	if _, err := mango.Normalize(selector); err != nil {
		p.badRequest("parameter `selector` is invalid: %v", err)
	}
	return selector
}

// builtinFilters are those of servers that need no body. Every CouchDB answers 400 to other names that begin so, and to
// _selector without a body, for ever.
var builtinFilters = []string{"_design", "_doc_ids", "_view"}

func (p *parser) namedFilter(name ejson.Value) (FilterKind, string) {
	if name.Kind != ejson.String {
		p.badRequest("parameter `filter` must be a string")
	}
	if strings.HasPrefix(name.Text, "_") {
		if name.Text == "_selector" {
			p.badRequest("parameter `filter` cannot be _selector, which needs a body: write `selector` in its place")
		}
		if !slices.Contains(builtinFilters, name.Text) {
			p.badRequest("parameter `filter` must be a filter function, ddocname/filtername, or one of %s, and is %s",
				strings.Join(builtinFilters, ", "), shown(name))
		}
		if name.Text == "_view" {
			p.checkViewParam()
		}
		p.checkParams()
		return BuiltinFilter, name.Text
	}
	ddoc, function, _ := strings.Cut(name.Text, "/")
	if ddoc == "" || function == "" {
		p.fail(InvalidReplication, "Invalid filter. Must match `ddocname/filtername`.", "")
	}
	p.checkParams()
	return FunctionFilter, name.Text
}

// feedParams are the parameters of a changes feed that the replication sets itself, or that would break it:
// the feed would begin or end elsewhere, have another order, or leave out sequences.
var feedParams = []string{
	"filter", "feed", "style", "since", "last-event-id", "timeout", "heartbeat", "limit", "descending", "seq_interval",
}

// checkParams refuses query parameters that never reach the filter, since servers take them, in upper case
// too, as options of the feed. CouchDB drops the first four and timeout, and replicates wrongly with the
// others.
func (p *parser) checkParams() {
	params, _ := p.body.Get("query_params")
	for _, m := range params.Members {
		name := strings.ToLower(m.Name)
		// With include_docs, rows may be larger than the client accepts.
		if slices.Contains(feedParams, name) || name == "include_docs" && plainText(m.Value) == "true" {
			p.fail(BadRequest, "parameter `query_params` cannot have `"+m.Name+"`: servers take it for an option "+
				"of the changes feed itself", "let the filter go by a parameter with another name")
		}
	}
}

func (p *parser) checkViewParam() {
	params, _ := p.body.Get("query_params")
	view, _ := params.Get("view")
	if view.Kind != ejson.String || strings.Count(view.Text, "/") != 1 {
		p.fail(BadRequest, "Invalid `view` parameter.",
			"`query_params` must have a `view` of the form ddocname/viewname")
	}
}

// viewParams are options of views. A _view filter takes their values as JSON.
var viewParams = []string{
	"key", "keys", "start_key", "start_key_docid", "end_key", "end_key_docid", "reduce", "direction", "limit",
	"skip", "group", "group_level", "stable", "update", "inclusive_end", "include_docs", "conflicts", "sorted",
	"update_seq", "view_type", "extra", "doc_options", "multi_get", "callback", "preflight_fun",
}

// ChangesParams returns the query parameters that the filter adds to a request for changes. A selector and a
// list of ids go into the body of the request.
func (f Filter) ChangesParams() []peer.Param {
	switch f.Kind {
	case DocIDs:
		return []peer.Param{{Name: "filter", Value: "_doc_ids"}}
	case Selector:
		return []peer.Param{{Name: "filter", Value: "_selector"}}
	case NoFilter:
		return nil
	}
	params := []peer.Param{{Name: "filter", Value: f.Name}}
	object, _ := ejson.Parse(f.QueryParams)
	for _, m := range object.Members {
		text := plainText(m.Value)
		if f.Name == "_view" && slices.Contains(viewParams, m.Name) {
			text = string(m.Value.Append(nil))
		}
		params = append(params, peer.Param{Name: m.Name, Value: text})
	}
	return params
}
