package javascript

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"
)

// asked shows a document to a function.
func asked(t testing.TB, function string, more map[string]any) jobstore.Asked {
	t.Helper()
	design := map[string]any{"_id": "_design/v", "validate_doc_update": function}
	for name, v := range more {
		design[name] = v
	}
	text, err := json.Encode(design)
	if err != nil {
		t.Fatal(err)
	}
	return jobstore.Asked{
		Design: text, DesignID: "_design/v", New: []byte(`{"_id":"r","source":"http://u:p@h/a"}`), Old: []byte("null"),
		User: []byte(`{"db":"_replicator","name":"adm","roles":["_admin"]}`), Security: []byte(`{"admins":{}}`),
	}
}

// newPatient is an engine of which no call takes too long, however busy the machine is.
func newPatient() *Engine {
	e := New()
	e.maxTime = time.Minute
	return e
}

// TestAsCouchDB: functions, and what CouchDB 3.5 answers where they are. The reasons of exceptions are better here.
func TestAsCouchDB(t *testing.T) {
	e := newPatient()
	for _, c := range [][2]string{
		{`function(n,o,u,s){}`, ""},
		{`function(n,o,u,s){ throw {forbidden: "no"} }`, "denied forbidden: no"},
		{`function(n,o,u,s){ throw {unauthorized: "who"} }`, "login unauthorized: who"},
		{`function(n){ throw {other: "x"} }`, "failed unknown_error: x"},
		{`function(n){ throw {forbidden: {a:1}} }`, `denied forbidden: {"a":1}`},
		{`function(n){ throw {forbidden: 5} }`, "denied forbidden: 5"},
		{`function(n){ throw "plain" }`, "failed unknown_error: plain"},
		{`function(n){ throw 1 }`, ""},
		{`function(n){ throw true }`, ""},
		{`function(n){ throw 7 }`, "failed unknown_error: 7"},
		{`function(n){ throw false }`, "failed unknown_error: false"},
		{`function(n){ throw null }`, "failed TypeError: "},
		{`function(n){ throw {} }`, "failed unknown_error: "},
		{`function(n){ throw ["error","a","b"] }`, "failed a: b"},
		{`function(n){ throw new Error("boom") }`, "failed Error: boom"},
		{`function(n){ var e=new Error("x"); e.forbidden=1; throw e }`, "failed Error: x"},
		{`function(n){ n.a.b.c }`, "failed TypeError: Cannot read property 'b' of undefined"},
		{`function(n){ `, "failed compilation_error: SyntaxError"},
		{`5`, "failed compilation_error: Expression does not eval to a function."},
		{``, "missing not_found: missing validate_doc_update function"},
		{`(n) => { throw {forbidden: "arrow"} }`, "denied forbidden: arrow"},
		{`function named(n){ throw {forbidden: "x"} };` + "\n", "denied forbidden: x"},
		{"function(n){ throw {forbidden: 'x'} } // a comment", "denied forbidden: x"},
		{`function(n,o,u,s){ throw {forbidden:
		[n.source, o, u.db, u.name, u.roles[0], toJSON(s), this._id].join()} }`,
			`denied forbidden: http://u:p@h/a,,_replicator,adm,_admin,{"admins":{}},_design/v`},
		{`function(n){ throw {forbidden: [isArray([1]), isArray({}), sum([1,2]), toJSON({a:[1]}), log("x")].join()} }`,
			`denied forbidden: true,false,3,{"a":[1]},`},
		{`function(n){ throw {forbidden: require("lib/a").x} }`, "denied forbidden: required 3"},
		{`function(n){ throw {forbidden: require("lib/none")} }`,
			`failed invalid_require_path: Object has no property "none".`},
		{`function(n){ throw {forbidden: require("../x")} }`,
			"failed invalid_require_path: Object has no parent"},
		{`function(n){ throw {forbidden: require("lib")} }`,
			"failed invalid_require_path: Must require a JavaScript string"},
		{`function(n){ throw {forbidden: require("lib/cycle").x} }`, "denied forbidden: first"},
		{`function(n){ throw {forbidden: require("lib/long")} }`,
			"failed invalid_require_path: the module is longer than 131072 characters"},
		{`function(n){ throw {forbidden: JSON.parse('{"a":[5]}').a[0] + JSON.parse("[1]", (k, v) => 2)} }`,
			"denied forbidden: 7"},
		{`function(n){ throw {forbidden: n instanceof Function || !(log instanceof Function)} }`,
			"denied forbidden: false"},
		{`function(n){ throw {forbidden: typeof console + typeof setTimeout + typeof process} }`,
			"denied forbidden: undefinedundefinedundefined"},
	} {
		function, want := c[0], c[1]
		refusal := e.Validate(asked(t, function, map[string]any{"lib": map[string]any{
			"a": `exports.x = "required " + require("./b").y`, "b": "exports.y = 3",
			"cycle": `exports.x = "first"; require("lib/cycle")`, "long": strings.Repeat("(", maxCode+1),
		}}))
		if got := told(refusal); want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s\nanswers %q, want %q", function, got, want)
		}
	}
	for _, language := range []string{"erlang", "python"} {
		a := asked(t, `function(n){}`, map[string]any{"language": language})
		if got := told(e.Validate(a)); got != "failed unknown_query_language: "+language {
			t.Errorf("%s: %s", language, got)
		}
	}
	if got := told(e.Validate(asked(t, `function(n){}`, map[string]any{"language": "javascript"}))); got != "" {
		t.Error(got)
	}
}

func told(refusal *docs.Error) string {
	if refusal == nil {
		return ""
	}
	kinds := map[docs.Kind]string{
		docs.Denied: "denied", docs.Unauthenticated: "login", docs.Internal: "failed", docs.NotFound: "missing",
	}
	return kinds[refusal.Kind] + " " + refusal.Name + ": " + refusal.Reason
}

// TestBounds: whatever a function does, the call ends soon, and says why in few words.
func TestBounds(t *testing.T) {
	short := New()
	short.maxTime = 100 * time.Millisecond
	for _, c := range []struct {
		e              *Engine
		function, want string
	}{
		{short, `function(n){ for (;;) {} }`, "did not end within"},
		{newPatient(), `function f(n){ f(n) }`, "too much recursion"},
		{newPatient(), `function(n){ var a = [], x = "x".repeat(1e6); while (a.length < 1e3) { a.push(x + 1) } }`,
			"too much memory"},
		{newPatient(), `function(n){ "x".repeat(1e9) }`, "the result is too long"},
		{newPatient(), `function(n){ "x".padEnd(1e9) }`, "the result is too long"},
		{newPatient(), `function(n){ throw {forbidden: "x".repeat(1e6)} }`, "x..."},
		{short, `function(n){ throw {forbidden: toJSON({get a() { for (;;) {} }})} }`, "did not end within"},
		{short, `function(n){ throw {get forbidden() { for (;;) {} }} }`, "os_process_error"},
	} {
		begin := time.Now()
		got := told(c.e.Validate(asked(t, c.function, nil)))
		took := time.Since(begin)
		if took > 20*time.Second || !strings.Contains(got, c.want) || len(got) > maxText+100 {
			t.Errorf("%s\nanswers %.100q after %v", c.function, got, took)
		}
	}
	release := make(chan struct{}) // of code of the interpreter, which is not interrupted
	got := told(short.bounded("v", short.maxTime, func(*machine) *docs.Error { <-release; return nil }))
	if !strings.Contains(got, "did not end within") || short.stray.Load() == 0 {
		t.Errorf("%s; %d functions still run", got, short.stray.Load())
	}
	close(release)
	for end := time.Now().Add(20 * time.Second); short.stray.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d functions still run", short.stray.Load())
		}
	}
}

// TestCode: code is bounded before it is read, and reads no files. What is nested would take more stack than a process
// may have, and some code takes the compiler longer than any call may take.
func TestCode(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe") // to read from it takes for ever
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	const blocked = "call to eval() blocked by CSP"
	short := New()
	short.maxTime = 100 * time.Millisecond
	for _, c := range []struct {
		e              *Engine
		function, want string
	}{
		{newPatient(), "function(n){ return " + strings.Repeat("(", 7<<20), "the function is longer than 131072 bytes"},
		{newPatient(), "function(n){ return " + strings.Repeat("(", maxCode-20), "SyntaxError"},
		{short, "function(n){ return 1" + strings.Repeat("+1", 20_000) + " }", "did not end within"},
		{newPatient(), `function(){ var s = "["; while (s.length < 4e6) { s += s } JSON.parse(s) }`, "too long"},
		{short, `function(n){ eval("1\n//# sourceMappingURL=file://` + pipe + `") }`, blocked},
		{newPatient(), `function(n){ eval("1") }`, blocked},
		{newPatient(), `function(n){ new Function("1") }`, blocked},
		{newPatient(), `function(n){ log.constructor("1") }`, blocked},
		{newPatient(), `function(n){ (function*(){}).constructor("1") }`, blocked},
		{newPatient(), `function(n){ (async () => 1).constructor("1") }`, blocked},
	} {
		got := told(c.e.Validate(asked(t, c.function, nil)))
		if !strings.Contains(got, c.want) {
			t.Errorf("%.100s\nanswers %.300q", c.function, got)
		}
	}
}

// TestStray: calls that cannot be interrupted are few, and others go on beside them.
func TestStray(t *testing.T) {
	e := newPatient()
	e.stray.Store(maxStray - 1)
	if got := told(e.Validate(asked(t, `function(n){}`, nil))); got != "" {
		t.Error(got)
	}
	e.stray.Store(maxStray)
	if got := told(e.Validate(asked(t, `function(n){}`, nil))); !strings.Contains(got, "still run") {
		t.Error(got)
	}
}

// TestStrayAtOnce: calls that cannot be interrupted are few also when many are made at once.
func TestStrayAtOnce(t *testing.T) {
	e, release := New(), make(chan struct{})
	var running atomic.Int32
	var all sync.WaitGroup
	for range 5 * maxCalls {
		all.Go(func() {
			refusal := e.bounded("v", 50*time.Millisecond, func(*machine) *docs.Error {
				running.Add(1)
				<-release
				return nil
			})
			if refusal == nil || refusal.Name != "os_process_error" {
				t.Errorf("%v", refusal)
			}
		})
	}
	all.Wait()
	close(release)
	if n := running.Load(); n > maxCalls || n < maxStray {
		t.Errorf("%d calls run at once", n)
	}
}

// TestApart: calls leave nothing behind, and may run at once.
func TestApart(t *testing.T) {
	e := newPatient()
	a := asked(t, `function(n){ if (globalThis.left) { throw {forbidden: "left"} } globalThis.left = 1; isArray = null;
		JSON.parse = null; Object.prototype.left = 1 }`, nil)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if got := told(e.Validate(a)); got != "" {
				t.Error(i, got)
			}
		})
	}
	all.Wait()
	for i := range maxCached + 5 {
		e.Validate(asked(t, fmt.Sprintf("function(n){ %d }", i), nil))
	}
	if len(e.compiled) > maxCached {
		t.Errorf("%d functions are kept", len(e.compiled))
	}
}

func BenchmarkValidate(b *testing.B) {
	e, a := New(), asked(b, `function(n,o,u){ if (!n.source) { throw {forbidden: "no source"} } }`, nil)
	for b.Loop() {
		if e.Validate(a) != nil {
			b.Fatal()
		}
	}
}
