package revtree

import "testing"

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
