package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fixture writes a module of one package and loads it.
func fixture(t *testing.T, files map[string]string) *module {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module fixture\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := load(dir, "./...")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// of returns the mutants of an operator as "old => new", only those that compile.
func of(m *module, operator string) (all []string) {
	for _, p := range m.points() {
		for variant := range p.variants {
			if _, err := m.check(p.file.pkg, nil, p.file, p.apply(variant)); err != nil || p.operator != operator {
				continue
			}
			d := newMutant(p, variant)
			all = append(all, strings.Join(d.old, " ")+" => "+strings.Join(d.new, " "))
		}
	}
	return all
}

func TestOperators(t *testing.T) {
	t.Parallel()
	const prelude = "package p\n\nimport (\"errors\"; \"slices\")\n\nvar _, _ = errors.New, slices.Sort[[]int]\n\n" +
		"func call() {}\n\nfunc fails() error { return nil }\n\n"
	const inner = "type in struct{ a, b int }\n\nfunc (i in) call() int { return i.a }\n\ntype s struct{ in }\n\n"
	for _, c := range []struct {
		operator, code string
		want           []string
	}{
		{"negate", "func f(a, b int, ok bool) bool {\nif !ok && a < b {\nreturn true\n}\nfor ok {\n}\n" +
			"return a == b\n}", []string{
			"if !ok && a < b { => if ok && a < b {",
			"if !ok && a < b { => if !ok && a >= b {",
			"for ok { => for !ok {",
			"return a == b => return a != b",
		}},
		{"negate", "func f(ok bool, g func() bool) {\nswitch {\ncase ok:\ncase g():\n}\n}", []string{
			"case ok: => case !ok:", "case g(): => case !g():",
		}},
		{"shift", "func f(a, b int) bool {\nreturn a < b || a > b || a == b\n}", []string{
			"return a < b || a > b || a == b => return a <= b || a > b || a == b",
			"return a < b || a > b || a == b => return a < b || a >= b || a == b",
		}},
		{"logic", "func f(a, b bool) bool {\nreturn a && b\n}", []string{"return a && b => return a || b"}},
		{"remove-statement", "func f(ok bool) (n int) {\ncall()\nif ok {\nn = 2\n}\nreturn n\n}", []string{
			"call() => ", "if ok { n = 2 } => ",
		}},
		{"remove-case", "func f(n int) {\nswitch n {\ncase 1:\ncall()\ndefault:\n}\n}", []string{
			"case 1: call() => ", "default: => ",
		}},
		// Without n = a nothing uses a.
		{"remove-assign", "func f(n int) int {\na := 1\nn = a\nn++\nreturn n\n}", []string{"n++ => "}},
		{"remove-field", "type s struct{ a, b int }\n\nvar v = s{a: 1,\nb: 2}", []string{
			"var v = s{a: 1, => var v = s{", "b: 2} => }",
		}},
		{"swap", "func f(n int) int {\nn++\nn *= 2\ncall()\nreturn n\n}", []string{"n++ n *= 2 => n *= 2 n++"}},
		{"swap", inner + "func f(x *s) {\nx.a = 1\nx.b = 2\n}", nil},
		{"swap", inner + "func f(x *s) {\nx.a = 1\nx.b = x.a\n}", []string{"x.a = 1 x.b = x.a => x.b = x.a x.a = 1"}},
		{"swap", inner + "func f(x *s) {\nx.a = 1\nx.in.a = 2\n}", []string{
			"x.a = 1 x.in.a = 2 => x.in.a = 2 x.a = 1",
		}},
		{"swap", inner + "func f(x *s) {\nx.a = 1\nif x.b > 0 {\nreturn\n}\n}", []string{
			"x.a = 1 if x.b > 0 { return } => if x.b > 0 { return } x.a = 1",
		}},
		{"swap", inner + "func f(x *s) {\nx.a = 1\n*x = s{}\n}", []string{"x.a = 1 *x = s{} => *x = s{} x.a = 1"}},
		{"swap", inner + "func f(x *s) {\nx.a = 1\nx.b = x.in.call()\n}", []string{
			"x.a = 1 x.b = x.in.call() => x.b = x.in.call() x.a = 1",
		}},
		{"swap", "func f(n func() int) {\na := n()\nb := n()\n_, _ = a, b\n}", nil}, // the order does not matter
		{"swap", "func f(n int) {\nswitch n {\ncase 1:\ncall()\ncase 2:\ncall()\n}\n}", nil},
		{"swap", "func f(n int) {\nswitch {\ncase n < 2:\ncall()\ndefault:\ncall()\n}\n}", nil},
		{"swap", "func f(n int) {\nswitch {\ncase n < 2:\ncall()\ncase n < 3:\n}\n}", []string{
			"case n < 2: call() case n < 3: => case n < 3: case n < 2: call()",
		}},
		{"swap", "func f(v any) {\nswitch v.(type) {\ncase int:\ncall()\ncase string, nil:\ncall()\n}\n}", nil},
		{"swap", "func f(v any) {\nswitch v.(type) {\ncase error:\nv = 1\ncase *int:\nv = 2\n}\n}", []string{
			"case error: v = 1 case *int: v = 2 => case *int: v = 2 case error: v = 1",
		}},
		{"other-name", "type s struct{ a, b int; c string }\n\nfunc f(x s) int {\nreturn x.a\n}", []string{
			"return x.a => return x.b",
		}},
		{"other-name", "const red, blue = kind(1), kind(2)\n\ntype kind int\n\nfunc f() (kind, bool) {\n" +
			"return red, true\n}", []string{
			"return red, true => return blue, true", "return red, true => return red, false",
		}},
		{"drop-error", "func f(n int) error {\nif err := fails(); err != nil || n < 0 {\nreturn err\n}\n" +
			"return nil\n}", []string{
			"if err := fails(); err != nil || n < 0 { => if err := fails(); (false && err != nil) || n < 0 {",
			"return err => return nil",
		}},
		{"off-by-one", "func f(a []int) int {\nreturn a[0] + len(a)\n}", []string{
			"return a[0] + len(a) => return a[(0 + 1)] + len(a)",
			"return a[0] + len(a) => return a[0] + (len(a) + 1)",
			"return a[0] + len(a) => return a[0] + (len(a) - 1)",
		}},
		{"alias", "func f(a []int) ([]int, []int) {\nreturn slices.Clone(a), append([]int(nil), a...)\n}", []string{
			"return slices.Clone(a), append([]int(nil), a...) => return a, append([]int(nil), a...)",
			"return slices.Clone(a), append([]int(nil), a...) => return slices.Clone(a), a",
		}},
	} {
		m := fixture(t, map[string]string{"p.go": prelude + c.code + "\n"})
		if got := of(m, c.operator); !slices.Equal(got, c.want) {
			t.Errorf("%s of %s:\n%s\nwant\n%s", c.operator, c.code, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// What package invariant checks never fails, so damage there would say nothing of tests.
func TestGuardsAreLeftAlone(t *testing.T) {
	t.Parallel()
	m := fixture(t, map[string]string{
		"invariant/invariant.go": "package invariant\n\nfunc Check(ok bool) {}\n",
		"p.go": "package p\n\nimport \"fixture/invariant\"\n\n" +
			"func f(a, b int) {\ninvariant.Check(a < b)\n}\n",
	})
	for _, p := range m.points() {
		t.Errorf("%s at line %d", p.operator, p.line)
	}
}

func TestNamesOfFunctions(t *testing.T) {
	t.Parallel()
	m := fixture(t, map[string]string{"p.go": "package p\n\nvar v = 1\n\ntype s[T any] struct{}\n\n" +
		"func (*s[T]) f() int { return 2 }\n\nfunc g() int { return 3 }\n"})
	names := map[string]int{}
	for _, p := range m.points() {
		names[p.function] = p.line
	}
	if want := map[string]int{"": 3, "s.f": 7, "g": 9}; !maps.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}
