package revtree

import "testing"

// TestLastGeneration: a revision of the last generation that there may be is stored and read like any other.
func TestLastGeneration(t *testing.T) {
	rev, err := MakeRev(maxGen, "a")
	if err != nil {
		t.Fatal(err)
	}
	var tree Tree
	tree.Insert(rev, nil, Leaf{})
	got, rest, err := Decode(tree.Append(nil))
	if err != nil || len(rest) > 0 || !got.Has(rev) {
		t.Errorf("%v, %d bytes left, %+v", err, len(rest), got)
	}
}

// TestEmptyTree: a tree without revisions is read as it was written, with what stands behind it.
func TestEmptyTree(t *testing.T) {
	var tree Tree
	for _, behind := range []string{"", "x"} {
		got, rest, err := Decode(append(tree.Append(nil), behind...))
		if err != nil || got.Len() != 0 || string(rest) != behind {
			t.Errorf("%v, %q is left, %d revisions", err, rest, got.Len())
		}
	}
}
