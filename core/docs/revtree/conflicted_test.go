package revtree

import (
	"fmt"
	"testing"
)

// TestConflicted: a feed with all leaves reads those documents only that have more than one, deleted ones among them.
func TestConflicted(t *testing.T) {
	var tree Tree
	for _, c := range []struct {
		rev       string
		ancestors []string
		leaf      Leaf
		want      bool
	}{
		{"1-a", nil, Leaf{}, false}, {"2-b", []string{"a"}, Leaf{}, false},
		{"2-c", []string{"a"}, Leaf{Deleted: true}, true},
	} {
		tree.Insert(mustRev(t, c.rev), c.ancestors, c.leaf)
		if tree.Conflicted() != c.want {
			t.Errorf("after %s: %v", c.rev, !c.want)
		}
	}
}

// TestDescendantsOfMany: in a tree with as many leaves and revisions as a document may have the leaves that follow from
// a revision are found by one way up from each.
func TestDescendantsOfMany(t *testing.T) {
	const leaves, long = 1000, 28
	var tree Tree
	for i := range leaves {
		var ancestors []string
		for j := range long {
			ancestors = append(ancestors, fmt.Sprint(i, " ", j))
		}
		tree.Insert(Rev{Gen: long + 2, ID: fmt.Sprint("leaf ", i)}, append(ancestors, "root"), Leaf{})
	}
	for range 500 {
		got := tree.Descendants(Rev{Gen: 1, ID: "root"})
		if len(got) != leaves || got[0].ID != "leaf 999" {
			t.Fatalf("%d leaves, the first is %v", len(got), got[0])
		}
	}
}
