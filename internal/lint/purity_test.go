package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// allowedImports is everything that core packages may import: what computes, and nothing that touches the world.
// A path that ends in / allows what is below it.
var allowedImports = []string{
	"bytes", "cmp", "container/heap", "context", "crypto/aes", "crypto/cipher", "crypto/hmac", "crypto/md5",
	"crypto/pbkdf2", "crypto/sha1", "crypto/sha256", "crypto/subtle", "encoding/base64", "encoding/binary",
	"encoding/hex", "errors", "fmt", "hash", "io", "iter", "maps", "math", "math/big", "math/bits", "mime", "net/netip",
	"net/url", "path", "reflect", "regexp", "regexp/syntax", "slices", "sort", "strconv", "strings", "time", "unicode",
	"unicode/utf16", "unicode/utf8", "github.com/go-json-experiment/json/jsontext", "couchrelay/core/",
}

// allowedIn is what one package may import besides. Which dialect of JSON is used for what is said in core/json.
var allowedIn = map[string][]string{
	"core/json": {"github.com/go-json-experiment/json", "github.com/go-json-experiment/json/v1"},
}

// bannedFunctions are what allowed packages offer and the core may not use, with what to do instead.
var bannedFunctions = map[string]string{
	"time.Now": "take an instant.Time", "time.Since": "subtract instant.Times", "time.Until": "subtract instant.Times",
	"time.Sleep": "return a deadline", "time.After": "return a deadline", "time.AfterFunc": "return a deadline",
	"time.Tick": "return a deadline", "time.NewTimer": "return a deadline", "time.NewTicker": "return a deadline",
	"time.Local": "use UTC", "context.WithTimeout": "let the runtime bound it",
	"context.WithDeadline": "let the runtime bound it", "context.WithCancel": "let the runtime cancel it",
	"context.AfterFunc": "let the runtime do it", "fmt.Print": "return an effect", "fmt.Printf": "return an effect",
	"fmt.Println": "return an effect", "sort.Slice": "use slices.SortStableFunc or a total order",
	"sort.Sort": "use slices.SortStableFunc or a total order", "io.Pipe": "stream in an adapter",
}

// Comments with these words excuse what is on their line, or in the function that begins there.
const (
	orderExcuse = "order does not matter: "
	floatExcuse = "float: "
)

var purity = rule{
	name: "purity",
	why: "the core decides and never acts, so that one seed means one run, on every processor: no clock, goroutine, " +
		"channel or I/O, no order of a map, no floating point; a comment \"order does not matter: why\" or " +
		"\"float: why\" excuses its line, or the function that begins there",
	canaries: []string{
		`core/p.go: package p; import "os"; var _ = os.Args`,
		`core/p.go: package p; import "math/rand/v2"; var _ = rand.Int()`,
		`core/p.go: package p; import "sync"; var _ sync.Mutex`,
		`core/p.go: package p; import "time"; var _ = time.Now()`,
		`core/p.go: package p; import tm "time"; var _ = tm.Now`,
		`core/p.go: package p; import "encoding/json"; var _ = json.Valid`,
		`core/p.go: package p; import . "time"; var _ = Second`,
		`core/p.go: package p; func f() { go f() }`,
		`core/p.go: package p; func f(c chan int) { c <- 1 }`,
		`core/p.go: package p; func f(c chan int) int { return <-c }`,
		`core/p.go: package p; var c = make(chan int)`,
		`core/p.go: package p; func f() { select {} }`,
		`core/p.go: package p; func f(m map[string]int) { for k := range m { println(k) } }`,
		`core/p.go: package p; func f() { for range g() { } }; func g() map[int]int { return nil }`,
		`core/p.go: package p; type m map[int]int; type s struct { m }; func (x s) f() { for range x.m { } }`,
		`core/p.go: package p; func f[M ~map[int]int](m M) { for range m { } }`,
		`core/p.go: package p; import ("maps"; "slices"); var m map[int]int; var _ = slices.Collect(maps.Keys(m))`,
		`core/p.go: package p; import "maps"; func f(m map[int]int) { for range maps.Values(m) { } }`,
		`core/p.go: package p; func f(a, b float64) bool { return a < b }`,
		`core/p.go: package p; import "time"; func f(d time.Duration) bool { return d.Hours() > 1 }`,
		`core/p.go: package p; func f(n int) bool { x := 1.5; return int(x) < n }`,
	},
	check: func(s *source) []finding {
		var found []finding
		for _, f := range s.files {
			if f.ast == nil || !within(f.path, "core") || f.test() {
				continue
			}
			c := &pureCheck{source: s, file: f, info: s.types.of(s, f)}
			c.imports()
			ast.Inspect(f.ast, c.visit)
			found = append(found, c.found...)
		}
		return found
	},
}

type pureCheck struct {
	*source
	file  file
	info  *types.Info
	found []finding
	// function is the one that was entered last.
	function *ast.FuncDecl
	// sorted has the calls whose results are sorted by what takes them.
	sorted map[ast.Expr]bool
}

func (c *pureCheck) report(at token.Pos, text string) {
	c.found = append(c.found, finding{at: c.at(at), text: text})
}

func (c *pureCheck) imports() {
	for _, imp := range c.file.ast.Imports {
		p := importPath(imp)
		if imp.Name != nil && (imp.Name.Name == "." || imp.Name.Name == "_") {
			c.report(imp.Pos(), "import of "+p+" as "+imp.Name.Name)
		}
		allowed := slices.Concat(allowedImports, allowedIn[c.file.dir()])
		if !slices.ContainsFunc(allowed, func(a string) bool {
			return a == p || strings.HasSuffix(a, "/") && strings.HasPrefix(p, a)
		}) {
			c.report(imp.Pos(), "import of "+p+" is not allowed in core")
		}
	}
}

func (c *pureCheck) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		c.function = n
	case *ast.GoStmt:
		c.report(n.Pos(), "go statement: return an effect")
	case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		c.report(n.Pos(), "channels do not belong in core")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			c.report(n.Pos(), "channels do not belong in core")
		}
	case *ast.Ident:
		c.use(n)
	case *ast.RangeStmt:
		if c.isMap(n.X) && !c.excused(n.Pos(), orderExcuse) {
			c.report(n.Pos(), "the order of a map: sort the keys first")
		}
	case *ast.CallExpr:
		c.call(n)
	}
	if e, is := n.(ast.Expr); is {
		c.float(e)
	}
	return true
}

// use reports what is banned.
func (c *pureCheck) use(name *ast.Ident) {
	used := c.info.Uses[name]
	if used == nil || used.Pkg() == nil || used.Parent() != used.Pkg().Scope() {
		return
	}
	if advice, banned := bannedFunctions[used.Pkg().Path()+"."+used.Name()]; banned {
		c.report(name.Pos(), used.Name()+": "+advice)
	}
}

// call reports iterators over maps, unless what takes them sorts.
func (c *pureCheck) call(n *ast.CallExpr) {
	switch name := c.called(n); name {
	case "slices.Sorted", "slices.SortedFunc", "slices.SortedStableFunc", "maps.Collect":
		if c.sorted == nil {
			c.sorted = map[ast.Expr]bool{}
		}
		c.sorted[n.Args[0]] = true
	case "maps.Keys", "maps.Values", "maps.All":
		if !c.sorted[n] && !c.excused(n.Pos(), orderExcuse) {
			c.report(n.Pos(), "the order of a map: "+name+" without slices.Sorted")
		}
	}
}

// called returns the package and name of a function; nothing when it is a method or a value.
func (c *pureCheck) called(n *ast.CallExpr) string {
	selected, is := n.Fun.(*ast.SelectorExpr)
	if !is {
		return ""
	}
	if f, is := c.info.Uses[selected.Sel].(*types.Func); is && f.Signature().Recv() == nil {
		return f.Pkg().Path() + "." + f.Name()
	}
	return ""
}

func (c *pureCheck) isMap(x ast.Expr) bool {
	t := c.info.TypeOf(x)
	if t == nil {
		return false
	}
	if p, is := t.(*types.TypeParam); is {
		t = p.Constraint() // a union with a map in it has this as its core
		if u, is := t.Underlying().(*types.Interface); is && u.NumEmbeddeds() == 1 {
			if union, is := u.EmbeddedType(0).(*types.Union); is {
				t = union.Term(0).Type()
			}
		}
	}
	_, is := t.Underlying().(*types.Map)
	return is
}

// float reports types, values and variables of floating point. Constants are computed by the compiler.
func (c *pureCheck) float(e ast.Expr) {
	t, known := c.info.Types[e]
	if !known || t.Value != nil || t.Type == nil {
		return
	}
	b, is := t.Type.Underlying().(*types.Basic)
	if is && b.Info()&(types.IsFloat|types.IsComplex) != 0 && !c.excused(e.Pos(), floatExcuse) {
		c.report(e.Pos(), "floating point: integers decide")
	}
}

func (c *pureCheck) excused(at token.Pos, reason string) bool {
	lines := []int{c.fset.Position(at).Line}
	if c.function != nil && c.function.Pos() <= at && at < c.function.End() {
		lines = append(lines, c.fset.Position(c.function.Pos()).Line)
	}
	for _, group := range c.file.ast.Comments {
		for _, comment := range group.List {
			if slices.Contains(lines, c.fset.Position(comment.Pos()).Line) && strings.Contains(comment.Text, reason) {
				return true
			}
		}
	}
	return false
}

// typeChecker knows the types of the packages that the core imports, from what the compiler has left.
type typeChecker struct {
	imported map[string]*types.Package
	infos    map[string]*types.Info // by directory; filled when one is asked for
}

// loadTypes asks the go command where the compiled packages are, and reads them.
func loadTypes(t *testing.T) typeChecker {
	const mode = packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps |
		packages.NeedExportFile
	list, err := packages.Load(&packages.Config{Mode: mode, Dir: root}, "./core/...")
	if err != nil || packages.PrintErrors(list) > 0 {
		t.Fatalf("the core's packages cannot be loaded: %v", err)
	}
	c := typeChecker{imported: map[string]*types.Package{}, infos: map[string]*types.Info{}}
	packages.Visit(list, nil, func(p *packages.Package) { c.imported[p.PkgPath] = p.Types })
	return c
}

// canary is for one file that is no part of the module.
func (c typeChecker) canary() typeChecker {
	return typeChecker{imported: c.imported, infos: map[string]*types.Info{}}
}

// Import is of types.Importer.
func (c typeChecker) Import(path string) (*types.Package, error) {
	if p := c.imported[path]; p != nil {
		return p, nil
	}
	return types.NewPackage(path, path[strings.LastIndex(path, "/")+1:]), nil
}

// of checks the types of the package of a file.
func (c typeChecker) of(s *source, of file) *types.Info {
	if info := c.infos[of.dir()]; info != nil {
		return info
	}
	var files []*ast.File
	for _, f := range s.files {
		if f.ast != nil && f.dir() == of.dir() && !f.test() {
			files = append(files, f.ast)
		}
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	// The compiler reports errors. Canaries have some, since they import what is not loaded.
	config := types.Config{Importer: c, Error: func(error) {}}
	_, _ = config.Check(module+of.dir(), s.fset, files, info)
	c.infos[of.dir()] = info
	return info
}
