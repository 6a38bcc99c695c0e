package revtree

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// insert takes a path as people write it: "3-c 2-b 1-a", the newest first, "!" before a deleted one.
func insert(t *testing.T, tree *Tree, path string) Insertion {
	t.Helper()
	text, deleted := strings.CutPrefix(path, "!")
	revs := strings.Fields(text)
	var ancestors []string
	for _, r := range revs[1:] {
		ancestors = append(ancestors, mustRev(t, r).ID)
	}
	return tree.Insert(mustRev(t, revs[0]), ancestors, Leaf{Deleted: deleted})
}

func show(leaves []LeafRev) string {
	var b strings.Builder
	for _, l := range leaves {
		fmt.Fprintf(&b, "%s%s ", map[bool]string{true: "!"}[l.Deleted], l.Rev)
	}
	return strings.TrimSpace(b.String())
}

func TestInsert(t *testing.T) {
	for _, c := range []struct {
		name, paths, leaves string
	}{
		{"first", "1-a", "1-a"},
		{"edit", "1-a, 2-b 1-a", "2-b"},
		{"twice", "2-b 1-a, 2-b 1-a", "2-b"},
		{"older arrives later", "2-b 1-a, 1-a", "2-b"},
		{"conflict", "2-b 1-a, 2-c 1-a", "2-c 2-b"},
		{"longer branch wins", "2-z 1-a, 3-c 2-b 1-a", "3-c 2-z"},
		{"deleted loses to shorter", "1-a, !3-c 2-b 1-x", "1-a !3-c"},
		{"all deleted", "!2-b 1-a, !2-c 1-a", "!2-c !2-b"},
		{"same id in other generations", "2-a 1-a, 3-a 2-a 1-a", "3-a"},
		{"joined by a longer history", "4-d, 2-b 1-a, 4-d 3-c 2-b 1-a", "4-d"},
		{"root learns its past", "3-c, 3-c 2-b 1-a, 2-b 1-a", "3-c"},
		{"two leaves on one path", "5-e, 3-c, 6-f 5-e 4-d 3-c", "6-f"},
		{"unknown gap", "1-a, 5-e 4-d", "5-e 1-a"},
		{"history too long for its generation", "2-b 1-a 0-z", "2-b"},
		{"another parent is not believed", "2-b 1-a, 2-b 1-c", "2-b"},
		{"mixed ids", "2-b 1-a, 2-" + hexID + " 1-a", "2-" + hexID + " 2-b"},
	} {
		var tree Tree
		for path := range strings.SplitSeq(c.paths, ", ") {
			insertLoose(t, &tree, path)
		}
		if got := show(tree.Leaves()); got != c.leaves {
			t.Errorf("%s: leaves %q, want %q", c.name, got, c.leaves)
		}
		if w, ok := tree.Winner(); !ok || w != tree.Leaves()[0] {
			t.Errorf("%s: winner %v is not the first leaf", c.name, w)
		}
	}
}

// insertLoose allows generation 0 in a path, as a client may send it.
func insertLoose(t *testing.T, tree *Tree, path string) {
	if head, _, found := strings.Cut(path, " 0-"); found {
		rev := mustRev(t, strings.Fields(head)[0])
		tree.Insert(rev, []string{"a", "z"}, Leaf{})
		return
	}
	insert(t, tree, path)
}

func TestInsertReports(t *testing.T) {
	var tree Tree
	insert(t, &tree, "2-b 1-a")
	insert(t, &tree, "4-d")
	for _, c := range []struct {
		path           string
		added, changed bool
		superseded     string
	}{
		{"2-b 1-a", false, false, ""},
		{"1-a", false, false, ""},
		{"3-c 2-b 1-a", true, true, "2-b"},
		{"3-x 2-b", true, true, ""},
		{"4-d 3-c 2-b", false, true, "3-c"},
		{"!5-e 4-d", true, true, "4-d"},
	} {
		got := insert(t, &tree, c.path)
		if got.Added != c.added || got.Changed != c.changed || show(got.Superseded) != c.superseded {
			t.Errorf("insert %s: %+v, want %+v", c.path, got, c)
		}
	}
}

func TestQueries(t *testing.T) {
	var tree Tree
	for _, path := range []string{"4-d 3-c 2-b 1-a", "3-x 2-b 1-a", "!2-z 1-a", "9-q"} {
		insert(t, &tree, path)
	}
	if got := fmt.Sprint(tree.Path(mustRev(t, "4-d"))); got != "[d c b a]" {
		t.Errorf("path %s", got)
	}
	for rev, want := range map[string]string{
		"1-a": "4-d 3-x !2-z", "2-b": "4-d 3-x", "3-c": "4-d", "4-d": "4-d", "9-q": "9-q", "2-q": "",
	} {
		if got := show(tree.Descendants(mustRev(t, rev))); got != want {
			t.Errorf("descendants of %s: %q, want %q", rev, got, want)
		}
	}
	insert(t, &tree, "9-q 8-p")
	insert(t, &tree, "9-q 8-forged 7-past")
	if got := fmt.Sprint(tree.Path(mustRev(t, "9-q"))); got != "[q p]" {
		t.Errorf("a forged history was grafted: %s", got)
	}
	for missing, want := range map[string]string{
		"5-n": "[4-d 3-x 2-z]", "1-n 4-n": "[3-x 2-z]", "2-n": "[]", "": "[]",
	} {
		var revs []Rev
		for _, m := range strings.Fields(missing) {
			revs = append(revs, mustRev(t, m))
		}
		if got := fmt.Sprint(tree.PossibleAncestors(revs)); got != want {
			t.Errorf("possible ancestors of %q: %s, want %s", missing, got, want)
		}
	}
	for asked, want := range map[string]string{
		"": "[]", "2-b 9-q 2-z": "[]", "5-n 2-b 3-n 5-n 3-x 3-n": "[5-n 3-n]",
		"5-n " + strings.Repeat("2-b 3-n ", manyRevs) + "7-past": "[5-n 3-n 7-past]",
	} {
		var revs []Rev
		for _, a := range strings.Fields(asked) {
			revs = append(revs, mustRev(t, a))
		}
		if got := fmt.Sprint(tree.Missing(revs)); got != want {
			t.Errorf("missing of %q: %s, want %s", asked, got, want)
		}
	}
	if leaf, ok := tree.Leaf(mustRev(t, "2-z")); !ok || !leaf.Deleted {
		t.Error("deleted leaf not found")
	}
	if _, ok := tree.Leaf(mustRev(t, "2-b")); ok {
		t.Error("an inner revision is no leaf")
	}
}

// twin is a revision tree as the definition has it: each known revision with its parent.
type twin map[Rev]Rev

func (w twin) insert(path []Rev) {
	for i, rev := range path {
		if _, known := w[rev]; !known {
			w[rev] = Rev{}
		}
		if i > 0 {
			w[path[i-1]] = rev
		}
	}
}

func (w twin) leaves() []Rev {
	inner := map[Rev]bool{}
	for _, parent := range w {
		inner[parent] = true
	}
	var leaves []Rev
	for rev := range w {
		if !inner[rev] {
			leaves = append(leaves, rev)
		}
	}
	return leaves
}

func (w twin) path(rev Rev) []string {
	var ids []string
	for ; !rev.IsZero(); rev = w[rev] {
		ids = append(ids, rev.ID)
	}
	return ids
}

func (w twin) stem(limit int) {
	keep := map[Rev]bool{}
	for _, leaf := range w.leaves() {
		for i := 0; i < limit && !leaf.IsZero(); i++ {
			keep[leaf] = true
			leaf = w[leaf]
		}
	}
	maps.DeleteFunc(w, func(rev, _ Rev) bool { return !keep[rev] })
	for rev, parent := range w {
		if !keep[parent] {
			w[rev] = Rev{}
		}
	}
}

func (w twin) compare(t *rapid.T, tree *Tree) {
	var got, want []Rev
	for _, l := range tree.Leaves() {
		got = append(got, l.Rev)
		if tree.nodes[tree.find(l.Rev)].leaf.Chunks != int(l.Gen) {
			t.Fatalf("leaf %v lost what it keeps", l)
		}
	}
	want = w.leaves()
	slices.SortFunc(want, func(a, b Rev) int { return b.Compare(a) })
	slices.SortFunc(got, func(a, b Rev) int { return b.Compare(a) })
	if !slices.Equal(got, want) || tree.Len() != len(w) {
		t.Fatalf("leaves %v of %d, want %v of %d", got, tree.Len(), want, len(w))
	}
	for rev := range w {
		if path := tree.Path(rev); !tree.Has(rev) || !slices.Equal(path, w.path(rev)) {
			t.Fatalf("path of %v: %v, want %v", rev, path, w.path(rev))
		}
	}
}

// genPaths draws the whole history of one document and then pieces of it: paths from any revision back
// to some ancestor, as servers with different limits would send them.
func genPaths(t *rapid.T) [][]Rev {
	var all [][]Rev // full path of each revision
	for range rapid.IntRange(1, 25).Draw(t, "revisions") {
		var parent []Rev
		if len(all) > 0 && rapid.IntRange(0, 9).Draw(t, "root") > 0 {
			parent = rapid.SampledFrom(all).Draw(t, "parent")
		}
		id := fmt.Sprintf("%c%d", 'a'+rune(rapid.IntRange(0, 3).Draw(t, "letter")), len(all))
		if rapid.Bool().Draw(t, "hex") {
			id = fmt.Sprintf("%032x", len(all)*7919)
		}
		all = append(all, append([]Rev{{Gen: int64(len(parent)) + 1, ID: id}}, parent...))
	}
	var paths [][]Rev
	for range rapid.IntRange(1, 20).Draw(t, "paths") {
		p := rapid.SampledFrom(all).Draw(t, "path")
		paths = append(paths, p[:rapid.IntRange(1, len(p)).Draw(t, "known")])
	}
	return paths
}

func insertPath(tree *Tree, path []Rev) Insertion {
	var ancestors []string
	for _, r := range path[1:] {
		ancestors = append(ancestors, r.ID)
	}
	return tree.Insert(path[0], ancestors, Leaf{Deleted: path[0].ID[0] == 'b', Chunks: int(path[0].Gen)})
}

// TestTwin compares the tree with the plain map after every insertion and stemming, and checks that
// what Insert reports is what happened, and that encoding loses nothing.
func TestTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree Tree
		plain := twin{}
		for _, path := range genPaths(t) {
			before := tree.Append(nil)
			done := insertPath(&tree, path)
			known := map[Rev]bool{}
			for _, l := range done.Superseded {
				known[l.Rev] = slices.Contains(plain.leaves(), l.Rev)
			}
			plain.insert(path)
			for rev, wasLeaf := range known {
				if !wasLeaf || slices.Contains(plain.leaves(), rev) {
					t.Fatalf("%v was reported as superseded", rev)
				}
			}
			if done.Changed == bytes.Equal(before, tree.Append(nil)) {
				t.Fatalf("changed: %v", done.Changed)
			}
			plain.compare(t, &tree)
			if limit := rapid.IntRange(1, 30).Draw(t, "limit"); limit <= 10 {
				n := tree.Len()
				scatter(t, &tree)
				if stemmed := tree.Stem(limit); stemmed != (tree.Len() < n) {
					t.Fatalf("stemmed: %v", stemmed)
				}
				plain.stem(limit)
				plain.compare(t, &tree)
			}
			if size, most := len(tree.Append(nil)), tree.Size(); size > most || most > size+3*tree.Len()+5 {
				t.Fatalf("a tree of %d bytes tells its size as %d", size, most)
			}
			copied, rest, err := Decode(append(tree.Append(nil), 7))
			if err != nil || !bytes.Equal(rest, []byte{7}) {
				t.Fatalf("decode: %v, rest %v", err, rest)
			}
			plain.compare(t, &copied)
		}
	})
}

// scatter puts the nodes into any order, as insertions leave them.
func scatter(t *rapid.T, tree *Tree) {
	order := make([]int32, len(tree.nodes)) // new index by old index
	for i := range order {
		order[i] = int32(i)
	}
	order = rapid.Permutation(order).Draw(t, "order")
	nodes := make([]node, len(order))
	for i, n := range tree.nodes {
		if n.parent != none {
			n.parent = order[n.parent]
		}
		nodes[order[i]] = n
	}
	tree.nodes = nodes
}

// TestStemKeepsForEach: the ancestors of a branch are kept for it though a longer one, that was known before, has them
// too.
func TestStemKeepsForEach(t *testing.T) {
	var tree Tree
	insert(t, &tree, "8-h 7-g 6-f 5-e 4-d 3-c 2-b 1-a")
	insert(t, &tree, "5-y 4-d 3-c 2-b 1-a")
	tree.Stem(5)
	if got := tree.Path(mustRev(t, "5-y")); len(got) != 5 {
		t.Errorf("of 5-y %q are kept", got)
	}
}

// TestEnded: of the leaves that a history joins the nearest comes first, wherever they stand.
func TestEnded(t *testing.T) {
	for _, paths := range [][]string{{"1-a", "3-c"}, {"3-c", "1-a"}} {
		var tree Tree
		for _, path := range paths {
			insert(t, &tree, path)
		}
		if got := show(tree.Ended(mustRev(t, "4-d"), []string{"c", "b", "a"})); got != "3-c 1-a" {
			t.Errorf("after %q: %s", paths, got)
		}
	}
}

// TestConvergence inserts the same paths in two orders.
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := genPaths(t)
		var a, b Tree
		for _, p := range paths {
			insertPath(&a, p)
		}
		for _, p := range rapid.Permutation(append(paths, paths...)).Draw(t, "order") {
			insertPath(&b, p)
		}
		if !bytes.Equal(a.Append(nil), b.Append(nil)) || !slices.Equal(a.Leaves(), b.Leaves()) {
			t.Fatalf("leaves %v and %v", a.Leaves(), b.Leaves())
		}
	})
}

func TestDecodeHostile(t *testing.T) {
	var tree Tree
	insert(t, &tree, "3-c 2-b 1-a")
	insert(t, &tree, "!3-"+hexID+" 2-b")
	good := tree.Append(nil)
	for n := range good {
		if _, _, err := Decode(good[:n]); err != ErrMalformed {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	read := func(t interface{ Fatalf(string, ...any) }, b []byte) {
		tree, rest, err := Decode(b)
		if err == nil && len(rest) > len(b) {
			t.Fatalf("more left than given: %v", tree)
		}
		for i, n := range tree.nodes {
			if n.rev.Gen < 1 || n.rev.ID == "" || int(n.parent) >= i {
				t.Fatalf("%x is read as a tree with revision %s behind %d as %d", b, n.rev, n.parent, i)
			}
		}
	}
	for at := range good {
		for value := range 256 {
			b := bytes.Clone(good)
			b[at] = byte(value)
			read(t, b)
		}
	}
	rapid.Check(t, func(t *rapid.T) { read(t, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })
	if _, _, err := Decode(bytes.Repeat([]byte{0xff}, 20)); err == nil {
		t.Error("a number of 20 bytes is decoded")
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, revs := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(revs), func(b *testing.B) {
			var tree Tree
			var parent []string
			for g := range revs {
				id := fmt.Sprintf("%032x", g)
				tree.Insert(Rev{int64(g) + 1, id}, parent, Leaf{})
				parent = []string{id}
			}
			encoded := tree.Append(nil)
			b.ReportAllocs()
			for b.Loop() {
				tree, _, _ := Decode(encoded)
				tree.Insert(Rev{int64(revs) + 1, hexID}, parent, Leaf{})
				tree.Stem(1000)
				tree.Append(nil)
			}
		})
	}
}
