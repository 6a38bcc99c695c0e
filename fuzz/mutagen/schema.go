package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// schema is source that has many mutants, of which a process chooses one by the environment. So a suite is compiled
// once for all of them, which else takes most of the time. Each function with mutants has a copy for each, and begins
// by calling the one that is chosen. Mutants outside of functions are not in it, and are compiled alone.
type schema struct {
	dir     string
	numbers map[string]int // by key of the mutant, from 1 on
	suites  map[string]*shared
}

// shared is a suite that is compiled with the schema.
type shared struct {
	once sync.Once
	runs *program // nil if the suite fails with none of the mutants, as a test that counts allocations may
	err  error
}

// chosen is the environment's variable with the number of a mutant.
const chosen = "MUTAGEN"

// chooser is a file that each package with mutants gets.
const chooser = `package %s

import (
	"os"
	"strconv"
)

var mutagen, _ = strconv.Atoi(os.Getenv("` + chosen + `"))
`

// writeSchema writes source with as many of the mutants as a schema can have.
func (l *lab) writeSchema(mutants []*mutant) (*schema, error) {
	dir, err := os.MkdirTemp("", "mutagen-")
	if err != nil {
		return nil, err
	}
	s := &schema{dir: dir, numbers: map[string]int{}, suites: map[string]*shared{}}
	for name := range l.suites {
		s.suites[name] = &shared{}
	}
	files, packages := map[*file][]splice{}, map[*pkg]bool{}
	for _, m := range mutants {
		number := len(s.numbers) + 1
		if f := m.declaration(); f != nil {
			if parts := m.splices(f, number); parts != nil {
				s.numbers[m.key()] = number
				files[m.file] = append(files[m.file], parts...)
				packages[m.file.pkg] = true
			}
		}
	}
	replace := map[string]string{}
	write := func(at string, text []byte) {
		path := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[at] = path
		err = errors.Join(err, os.WriteFile(path, text, 0o600))
	}
	for f, parts := range files {
		write(filepath.Join(l.module.root, f.name), spliced(f.text, parts))
	}
	for p := range packages {
		write(filepath.Join(p.dir, "zz_mutagen.go"), fmt.Appendf(nil, chooser, p.types.Name()))
	}
	text, bad := json.Marshal(map[string]any{"Replace": replace})
	return s, errors.Join(err, bad, os.WriteFile(s.overlay(), text, 0o600))
}

func (s *schema) overlay() string { return filepath.Join(s.dir, "overlay.json") }

func (s *schema) remove() { os.RemoveAll(s.dir) }

// declaration returns the function that a mutant is in; nil if it is in none.
func (m *mutant) declaration() *ast.FuncDecl {
	for _, decl := range m.file.ast.Decls {
		f, is := decl.(*ast.FuncDecl)
		if is && f.Body != nil && functionName(f) == m.function && m.within(f) {
			return f
		}
	}
	return nil
}

// within reports whether a mutant changes nothing outside of a function's body.
func (m *mutant) within(f *ast.FuncDecl) bool {
	from, to := m.file.at(f.Body.Lbrace), m.file.at(f.Body.Rbrace)
	return !slices.ContainsFunc(m.variants[m.variant], func(e edit) bool { return e.from <= from || e.to > to })
}

// splice is a text that is put into a file.
type splice struct {
	at   int
	text string
}

// splices are the call of a mutant's function at the beginning of the one that is whole, and the function at the end of
// the file. There are none if a parameter has no name to hand it on by.
func (m *mutant) splices(f *ast.FuncDecl, number int) []splice {
	name, call := fmt.Sprintf("%sMutagen%d", f.Name.Name, number), ""
	if f.Recv != nil {
		receiver := f.Recv.List[0].Names
		if len(receiver) == 0 || receiver[0].Name == "_" {
			return nil
		}
		call = receiver[0].Name + "."
	}
	call += name
	if types := namesOf(f.Type.TypeParams); len(types) > 0 {
		call += "[" + strings.Join(types, ", ") + "]"
	}
	arguments := namesOf(f.Type.Params)
	if slices.Contains(arguments, "_") || len(arguments) < f.Type.Params.NumFields() {
		return nil
	}
	if n := len(arguments); n > 0 {
		last := f.Type.Params.List[len(f.Type.Params.List)-1]
		if _, variadic := last.Type.(*ast.Ellipsis); variadic {
			arguments[n-1] += "..."
		}
	}
	call += "(" + strings.Join(arguments, ", ") + ")"
	if f.Type.Results != nil {
		call = "return " + call
	} else {
		call += "; return"
	}
	from, to := m.file.at(f.Pos()), m.file.at(f.End())
	named := m.file.at(f.Name.Pos())
	changed := m.apply(m.variant)
	body := changed[m.file.at(f.Name.End()) : to+len(changed)-len(m.file.text)]
	return []splice{
		{m.file.at(f.Body.Lbrace) + 1, fmt.Sprintf(" if mutagen == %d { %s };", number, call)},
		{len(m.file.text), fmt.Sprintf("\n%s%s%s\n", m.file.text[from:named], name, body)},
	}
}

// namesOf are the names in a list of parameters.
func namesOf(list *ast.FieldList) (names []string) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// spliced is a file's text with splices, those at one place in their order.
func spliced(text []byte, parts []splice) (out []byte) {
	slices.SortStableFunc(parts, func(a, b splice) int { return a.at - b.at })
	at := 0
	for _, p := range parts {
		out = append(append(out, text[at:p.at]...), p.text...)
		at = p.at
	}
	return append(out, text[at:]...)
}

// sharedBuild returns a suite that has a mutant among others, which it compiles the first time; nil if the mutant must
// be compiled alone.
func (l *lab) sharedBuild(ctx context.Context, m *mutant, suite string) (*program, error) {
	number, is := l.schema.numbers[m.key()]
	if !is {
		return nil, nil
	}
	s := l.schema.suites[suite]
	s.once.Do(func() { s.runs, s.err = l.compileShared(ctx, suite) })
	if s.runs == nil || s.err != nil {
		return nil, s.err
	}
	return &program{dir: s.runs.dir, args: s.runs.args, env: []string{fmt.Sprint(chosen, "=", number)}}, nil
}

func (l *lab) compileShared(ctx context.Context, suite string) (*program, error) {
	dir := filepath.Join(l.schema.dir, strings.ReplaceAll(suite, "/", "-"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	alone := func(why string) (*program, error) {
		l.say("%s is compiled for each mutant alone: with all of them it %s", suite, why)
		return nil, nil
	}
	runs, err := l.build(ctx, suite, dir, "-overlay", l.schema.overlay())
	switch {
	case errors.Is(err, errUncompiled):
		return alone(err.Error())
	case err != nil || suite == seeds || suite == scenarios:
		return runs, err
	}
	control := *runs
	if err := control.run(ctx, l.suites[suite].bounds()); err != nil {
		return nil, err
	}
	if control.failed {
		return alone("fails though none is chosen: " + control.reason())
	}
	return runs, nil
}
