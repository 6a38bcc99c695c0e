package javascript

import (
	"couchrelay/core/docs"
	"couchrelay/core/ejson"

	"github.com/dop251/goja"
)

// selectTimes is how many times as long as for one document a function may take for those of one call: 5 s, as in
// CouchDB.
const selectTimes = 10

// Selection asks a function of a design document which documents it selects.
type Selection struct {
	Design   []byte // the design document, as JSON
	DesignID string
	// Path leads to the function: filters and a name, or views, a name and map. A view selects documents for which it
	// emits anything.
	Path    []string
	Docs    [][]byte // as JSON
	Request []byte   // what a filter is told of the request, as JSON
}

// Select reports of each document whether the function selects it. All are shown to the function in one machine, which
// nothing else is.
func (e *Engine) Select(s Selection) ([]bool, *docs.Error) {
	text, refusal := s.text()
	if refusal != nil {
		return nil, refusal
	}
	var selected []bool
	refusal = e.bounded(s.DesignID, selectTimes*e.maxTime, func(m *machine) (refusal *docs.Error) {
		program, refusal := e.compile(s.DesignID, text)
		if refusal != nil {
			return refusal
		}
		selected, refusal = m.choose(program, s)
		return refusal
	})
	if refusal != nil {
		// Whatever the function means by its exception, the client may ask: the function is at fault.
		return nil, &docs.Error{Kind: docs.Internal, Name: refusal.Name, Reason: refusal.Reason}
	}
	return selected, nil
}

// text is that of the function.
func (s *Selection) text() (string, *docs.Error) {
	v, err := ejson.Parse(s.Design)
	if err != nil {
		return "", failure("compilation_error", "the design document cannot be read")
	}
	if language, has := v.Get("language"); has && language.Text != "javascript" {
		return "", failure("unknown_query_language", language.Text)
	}
	for _, name := range s.Path {
		var has bool
		if v, has = v.Get(name); !has {
			return "", &docs.Error{Kind: docs.NotFound, Name: "not_found", Reason: "missing json key: " + name}
		}
	}
	if v.Kind != ejson.String {
		return "", failure("compilation_error", "the function is no text ("+s.DesignID+")")
	}
	return v.Text, nil
}

// choose shows all documents to the function.
func (m *machine) choose(program *goja.Program, s Selection) ([]bool, *docs.Error) {
	function, design, refusal := m.load(program, s.Design, s.DesignID)
	if refusal != nil {
		return nil, refusal
	}
	emitted, view := false, s.Path[0] == "views"
	_ = m.Set("emit", func(goja.FunctionCall) goja.Value { emitted = true; return goja.Undefined() })
	var more []goja.Value
	if !view {
		request, err := m.parse(string(s.Request))
		if err != nil {
			return nil, m.fault(err)
		}
		more = append(more, request)
	}
	selected := make([]bool, len(s.Docs))
	for i, text := range s.Docs {
		doc, err := m.parse(string(text))
		if err != nil {
			return nil, m.fault(err)
		}
		emitted = false
		answer, err := function(design, append([]goja.Value{doc}, more...)...)
		if err != nil {
			return nil, m.fault(err)
		}
		if selected[i] = emitted; !view {
			selected[i] = answer.ToBoolean()
		}
	}
	return selected, nil
}

// fault is what a call has ended with, which selects nothing.
func (m *machine) fault(err error) *docs.Error {
	if refusal := m.said(err); refusal != nil {
		return refusal
	}
	return failure("unknown_error", "the function threw "+err.Error())
}
