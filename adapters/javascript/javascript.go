// Package javascript runs functions of design documents in an interpreter of JavaScript, as CouchDB's query server
// would: with its helpers, and each call in a machine of its own, so that no function leaves anything behind. A call
// is bounded in time, in the depth of its stack, in the memory that it makes the process need, and in the length of
// what it says.
package javascript

import (
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"
)

// Bounds of a call.
const (
	maxTime   = 500 * time.Millisecond
	grace     = 100 * time.Millisecond // for code of the interpreter, which is not interrupted
	maxDepth  = 500                    // of calls of functions
	maxMemory = 256 << 20              // bytes, by which the heap of the process may grow meanwhile
	maxText   = 8 << 10                // bytes of a reason
	maxCode   = 128 << 10              // bytes of a function: one that is nested takes a thousand times as much stack
	maxStray  = 4                      // calls that still run: while there are as many, none is made
	maxCalls  = 16                     // calls at once; those that did not end in time count until they do
	maxCached = 256                    // compiled functions
)

//go:embed prelude.js
var preludeText string

var prelude = goja.MustCompile("prelude", preludeText, true)

// Engine runs functions. It keeps compiled ones by the digest of their text. It may be used by many callers at once.
type Engine struct {
	mu       sync.Mutex
	compiled map[[sha256.Size]byte]*goja.Program
	calls    chan struct{} // has a place for each call that runs
	stray    atomic.Int32  // calls that did not end in time, and still run
	maxTime  time.Duration
}

var _ jobstore.Functions = (*Engine)(nil)

// New returns an engine.
func New() *Engine {
	return &Engine{compiled: map[[sha256.Size]byte]*goja.Program{}, calls: make(chan struct{}, maxCalls),
		maxTime: maxTime}
}

// design is what is read of a design document.
type design struct {
	Language string `json:"language"`
	Validate string `json:"validate_doc_update"`
}

// Validate runs the function validate_doc_update of a design document.
func (e *Engine) Validate(a jobstore.Asked) *docs.Error {
	var d design
	if err := json.Decode(a.Design, &d); err != nil {
		return failure("compilation_error", "the design document cannot be read")
	}
	switch {
	case d.Language != "" && d.Language != "javascript":
		return failure("unknown_query_language", d.Language)
	case d.Validate == "":
		return &docs.Error{Kind: docs.NotFound, Name: "not_found",
			Reason: "missing validate_doc_update function validate_doc_update on design doc " + a.DesignID}
	}
	return e.bounded(a.DesignID, e.maxTime, func(m *machine) *docs.Error {
		program, refusal := e.compile(a.DesignID, d.Validate)
		if refusal != nil {
			return refusal
		}
		return m.validate(program, a)
	})
}

// failure is an answer for a function that neither allows nor forbids.
func failure(name, reason string) *docs.Error {
	return &docs.Error{Kind: docs.Internal, Name: name, Reason: clip(reason)}
}

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// compile returns the program of an expression that is a function. It may take long.
func (e *Engine) compile(id, text string) (*goja.Program, *docs.Error) {
	if len(text) > maxCode {
		return nil, failure("compilation_error", fmt.Sprintf("the function is longer than %d bytes (%s)", maxCode, id))
	}
	key := sha256.Sum256([]byte(text))
	e.mu.Lock()
	p := e.compiled[key]
	e.mu.Unlock()
	if p != nil {
		return p, nil
	}
	expression := strings.TrimRight(text, "; \t\r\n")
	parsed, err := goja.Parse("validate_doc_update", "("+expression+"\n)", parser.WithDisableSourceMaps)
	if err == nil {
		p, err = goja.CompileAST(parsed, false)
	}
	if err != nil {
		return nil, failure("compilation_error", err.Error()+" ("+id+")")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.compiled) >= maxCached {
		clear(e.compiled)
	}
	e.compiled[key] = p
	return p, nil
}

// bounded runs a call beside its caller, who waits for as long as a call may take and no longer: code of the
// interpreter itself, such as a search by a regular expression, cannot be interrupted. Few calls may go on like that,
// so few run at once: others wait for their turn, no longer than for a call.
func (e *Engine) bounded(id string, limit time.Duration, call func(*machine) *docs.Error) *docs.Error {
	if e.stray.Load() >= maxStray {
		return failure("os_process_error", "too many functions did not end in time and still run; restart the service")
	}
	timer := time.NewTimer(limit + grace)
	defer timer.Stop()
	select {
	case e.calls <- struct{}{}:
		timer.Reset(limit + grace)
	case <-timer.C:
		return failure("os_process_error", "too many functions run at once")
	}
	m, done := newMachine(), make(chan *docs.Error, 1)
	go func() {
		defer func() { <-e.calls }()
		defer func() {
			if bug := recover(); bug != nil {
				done <- failure("os_process_error", "the interpreter failed over the function of "+id)
			}
		}()
		done <- call(m)
	}()
	stop := m.watch(id, limit)
	defer stop()
	select {
	case refusal := <-done:
		return refusal
	case <-timer.C:
		e.stray.Add(1)
		go func() {
			<-done
			e.stray.Add(-1)
		}()
		return failure("os_process_error", tooSlow(id, limit))
	}
}

func tooSlow(id string, limit time.Duration) string {
	return fmt.Sprintf("the function of %s did not end within %v", id, limit)
}

// stopped is why a call was interrupted.
type stopped string

// machine is what one call runs in.
type machine struct {
	*goja.Runtime
	fromJSON goja.Callable // JSON.parse as it is before the prelude, for texts of any length
}

func newMachine() *machine {
	m := &machine{Runtime: goja.New()}
	m.fromJSON, _ = goja.AssertFunction(m.GlobalObject().Get("JSON").ToObject(m.Runtime).Get("parse"))
	m.SetMaxCallStackSize(maxDepth)
	m.SetParserOptions(parser.WithDisableSourceMaps) // which are files of this machine
	return m
}

// load returns the function that a program is, and the design document, which is its this.
func (m *machine) load(program *goja.Program, text []byte, id string) (goja.Callable, goja.Value, *docs.Error) {
	start, err := m.RunProgram(prelude)
	if err != nil {
		return nil, nil, m.fault(err)
	}
	begin, _ := goja.AssertFunction(start)
	design, err := begin(goja.Undefined(), m.ToValue(string(text)), m.ToValue(maxCode))
	if err != nil {
		return nil, nil, m.fault(err)
	}
	found, err := m.RunProgram(program)
	if err != nil {
		return nil, nil, m.fault(err)
	}
	function, is := goja.AssertFunction(found)
	if !is {
		return nil, nil, failure("compilation_error", "Expression does not eval to a function. ("+id+")")
	}
	return function, design, nil
}

// validate calls a function with its arguments.
func (m *machine) validate(program *goja.Program, a jobstore.Asked) *docs.Error {
	function, design, refusal := m.load(program, a.Design, a.DesignID)
	if refusal != nil {
		return refusal
	}
	var arguments []goja.Value
	for _, text := range [][]byte{a.New, a.Old, a.User, a.Security} {
		v, err := m.parse(string(text))
		if err != nil {
			return m.said(err)
		}
		arguments = append(arguments, v)
	}
	_, err := function(design, arguments...)
	return m.said(err)
}

func (m *machine) parse(text string) (goja.Value, error) {
	return m.fromJSON(goja.Undefined(), m.ToValue(text))
}

// said is the refusal that a call has ended with, nil if it has ended without one. Values mean what CouchDB takes them
// for: 1 and true do not refuse, and objects do by their first member.
func (m *machine) said(err error) *docs.Error {
	if err == nil {
		return nil
	}
	if interrupted, is := errors.AsType[*goja.InterruptedError](err); is {
		reason, _ := interrupted.Value().(stopped)
		return failure("os_process_error", string(reason))
	}
	if _, is := errors.AsType[*goja.StackOverflowError](err); is {
		return failure("InternalError", "too much recursion")
	}
	thrown, is := errors.AsType[*goja.Exception](err)
	if !is {
		return failure("compilation_error", err.Error())
	}
	return m.refusal(thrown.Value())
}

// refusal is what a thrown value means.
func (m *machine) refusal(v goja.Value) *docs.Error {
	object, is := v.(*goja.Object)
	switch {
	case v == nil || goja.IsNull(v) || goja.IsUndefined(v):
		return failure("TypeError", "the function threw nothing")
	case !is && (v.StrictEquals(m.ToValue(1)) || v.StrictEquals(m.ToValue(true))):
		return nil
	case !is:
		return failure("unknown_error", v.String())
	}
	if name, stack := object.Get("name"), object.Get("stack"); name != nil && stack != nil {
		message := ""
		if text := object.Get("message"); text != nil {
			message = text.String()
		}
		return failure(clip(name.String()), message)
	}
	if object.ClassName() == "Array" { // ["error", NAME, REASON]
		return failure(m.text(object.Get("1")), m.text(object.Get("2")))
	}
	if reason := object.Get("forbidden"); reason != nil {
		return docs.Forbidden(m.text(reason))
	}
	if reason := object.Get("unauthorized"); reason != nil {
		return &docs.Error{Kind: docs.Unauthenticated, Name: "unauthorized", Reason: m.text(reason)}
	}
	for _, key := range object.Keys() {
		return failure("unknown_error", m.text(object.Get(key)))
	}
	return failure("unknown_error", "the function threw an empty object")
}

// text is a value as the reason of an answer: a string itself, anything else as JSON.
func (m *machine) text(v goja.Value) string {
	if v == nil || goja.IsUndefined(v) {
		return ""
	}
	if text, is := v.Export().(string); is {
		return clip(text)
	}
	stringify, _ := goja.AssertFunction(m.GlobalObject().Get("JSON").ToObject(m.Runtime).Get("stringify"))
	text, err := stringify(goja.Undefined(), v)
	if err != nil {
		return ""
	}
	return clip(text.String())
}
