package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowedImports is everything of the standard library and of others that core packages may use:
// what computes, and nothing that touches the world. A path that ends in / allows what is below it.
var allowedImports = []string{
	"bytes", "cmp", "container/heap", "context", "crypto/aes", "crypto/cipher", "crypto/hmac", "crypto/md5", "crypto/pbkdf2",
	"crypto/sha1", "crypto/sha256", "crypto/subtle", "encoding/base64", "encoding/binary", "encoding/hex", "errors", "fmt", "hash", "io", "iter", "maps", "math", "math/big",
	"math/bits", "mime", "net/url", "path", "reflect", "regexp", "regexp/syntax", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf16",
	"unicode/utf8",
	"github.com/go-json-experiment/json/jsontext",
	"couchrelay/core/",
}

// allowedIn is what one package may import besides. Which dialect of JSON is used for what is said in core/json.
var allowedIn = map[string][]string{
	"json": {"github.com/go-json-experiment/json", "github.com/go-json-experiment/json/v1"},
}

// bannedCalls names what allowed packages offer and the core may not use, with what to do instead.
var bannedCalls = map[string]string{
	"time.Now": "take an instant.Time", "time.Since": "subtract instant.Times", "time.Until": "subtract instant.Times",
	"time.Sleep": "return a deadline", "time.After": "return a deadline", "time.AfterFunc": "return a deadline",
	"time.Tick": "return a deadline", "time.NewTimer": "return a deadline", "time.NewTicker": "return a deadline",
	"time.Local": "use UTC", "context.WithTimeout": "let the runtime bound it", "context.WithDeadline": "let the runtime bound it",
	"context.WithCancel": "let the runtime cancel it", "context.AfterFunc": "let the runtime do it", "fmt.Print": "return an effect",
	"fmt.Printf": "return an effect", "fmt.Println": "return an effect", "sort.Slice": "use slices.SortStableFunc or a total order",
	"sort.Sort": "use slices.SortStableFunc or a total order", "io.Pipe": "stream in an adapter",
}

// TestPurity enforces the first and third rule of the house: core packages decide and never act, so
// that one seed means one run.
func TestPurity(t *testing.T) {
	for _, file := range coreFiles(t) {
		for _, breach := range breaches(t, file, nil) {
			t.Error(breach)
		}
	}
}

// TestPurityFindsBreaches proves that the check can fail.
func TestPurityFindsBreaches(t *testing.T) {
	for name, src := range map[string]string{
		"import":     `package p; import "os"; var _ = os.Args`,
		"global":     `package p; import "math/rand/v2"; var _ = rand.Int()`,
		"clock":      `package p; import "time"; var _ = time.Now()`,
		"renamed":    `package p; import tm "time"; var _ = tm.Now()`,
		"goroutine":  `package p; func f() { go f() }`,
		"channel":    `package p; func f(c chan int) { c <- 1 }`,
		"receive":    `package p; func f(c chan int) int { return <-c }`,
		"make":       `package p; var c = make(chan int)`,
		"select":     `package p; func f() { select {} }`,
		"map range":  `package p; func f(m map[string]int) { for k := range m { println(k) } }`,
		"map made":   `package p; func f() { m := make(map[int]int); for range m { } }`,
		"map field":  `package p; type s struct { m map[int]int }; func (x s) f() { for range x.m { } }`,
		"float":      `package p; func f(a, b float64) bool { return a < b }`,
		"dialect":    `package p; import "encoding/json"; var _ = json.Valid`,
		"dot import": `package p; import . "time"; var _ = Second`,
	} {
		if len(breaches(t, name+".go", src)) == 0 {
			t.Errorf("%s: no breach found in %s", name, src)
		}
	}
}

func coreFiles(t *testing.T) []string {
	var files []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no core files found: %v", err)
	}
	return files
}

// breaches lists what one file does that the core may not. src replaces the file's text when not nil.
// A line with a comment "order does not matter: why" may range over a map; one with "float: why" may
// use floating point.
func breaches(t *testing.T, name string, src any) []string {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{fset: fset, file: file, imports: map[string]string{}}
	c.maps = mapNames(file)
	c.checkImports()
	ast.Inspect(file, c.visit)
	return c.found
}

type checker struct {
	fset    *token.FileSet
	file    *ast.File
	imports map[string]string // local name to path
	maps    map[string]bool   // identifiers and fields declared as maps in this file
	found   []string
}

func (c *checker) report(at token.Pos, text string) {
	c.found = append(c.found, c.fset.Position(at).String()+": "+text)
}

func (c *checker) checkImports() {
	for _, imp := range c.file.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		local := filepath.Base(path)
		if imp.Name != nil {
			local = imp.Name.Name
		}
		c.imports[local] = path
		if local == "." || local == "_" {
			c.report(imp.Pos(), "import of "+path+" as "+local)
		}
		allowed := slices.Concat(allowedImports, allowedIn[filepath.Dir(c.fset.File(imp.Pos()).Name())])
		if !slices.ContainsFunc(allowed, func(a string) bool {
			return a == path || strings.HasSuffix(a, "/") && strings.HasPrefix(path, a)
		}) {
			c.report(imp.Pos(), "import of "+path+" is not allowed in core")
		}
	}
}

func (c *checker) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.report(n.Pos(), "go statement: return an effect")
	case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		c.report(n.Pos(), "channels do not belong in core")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			c.report(n.Pos(), "channels do not belong in core")
		}
	case *ast.SelectorExpr:
		if pkg, ok := n.X.(*ast.Ident); ok {
			if advice, banned := bannedCalls[c.imports[pkg.Name]+"."+n.Sel.Name]; banned {
				c.report(n.Pos(), pkg.Name+"."+n.Sel.Name+": "+advice)
			}
		}
	case *ast.Ident:
		if (n.Name == "float64" || n.Name == "float32") && !c.excused(n.Pos(), "float: ") {
			c.report(n.Pos(), "floating point: integers decide")
		}
	case *ast.RangeStmt:
		if c.isMap(n.X) && !c.excused(n.Pos(), "order does not matter: ") {
			c.report(n.Pos(), "map iteration: sort the keys first")
		}
	}
	return true
}

func (c *checker) isMap(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return c.maps[x.Name]
	case *ast.SelectorExpr:
		return c.maps[x.Sel.Name]
	case *ast.CompositeLit:
		_, is := x.Type.(*ast.MapType)
		return is
	}
	return false
}

func (c *checker) excused(at token.Pos, reason string) bool {
	line := c.fset.Position(at).Line
	for _, group := range c.file.Comments {
		for _, comment := range group.List {
			if c.fset.Position(comment.Pos()).Line == line && strings.Contains(comment.Text, reason) {
				return true
			}
		}
	}
	return false
}

// mapNames collects the names of variables, parameters and fields whose declaration shows a map.
func mapNames(file *ast.File) map[string]bool {
	names := map[string]bool{}
	isMapType := func(e ast.Expr) bool { _, ok := e.(*ast.MapType); return ok }
	isMapValue := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.CompositeLit:
			return isMapType(e.Type)
		case *ast.CallExpr:
			fun, ok := e.Fun.(*ast.Ident)
			return ok && fun.Name == "make" && len(e.Args) > 0 && isMapType(e.Args[0])
		}
		return false
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				names[name.Name] = names[name.Name] || isMapType(n.Type)
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if isMapType(n.Type) || i < len(n.Values) && isMapValue(n.Values[i]) {
					names[name.Name] = true
				}
			}
		case *ast.AssignStmt:
			for i, lhs := range n.Lhs {
				if name, ok := lhs.(*ast.Ident); ok && i < len(n.Rhs) && isMapValue(n.Rhs[i]) {
					names[name.Name] = true
				}
			}
		}
		return true
	})
	return names
}
