package revtree

import (
	"cmp"
	"slices"
)

// Tree is a set of revisions, each with the one it was made from as far as that is known. Where
// history was cut off there is more than one root. The zero value is a document that never was.
//
// A revision has one parent: a history that names another parent for a known revision is believed up
// to that revision only. Servers derive ids from the parent, so this takes a forger.
type Tree struct {
	// nodes holds every revision once. Invariant: a node is a leaf or the parent of another node.
	nodes []node
}

type node struct {
	rev    Rev
	parent int32 // index in nodes of generation rev.Gen-1, or none
	isLeaf bool
	leaf   Leaf
}

const none = -1

// Leaf is what is kept of a revision that nothing follows from.
type Leaf struct {
	Deleted  bool
	Attached bool // it has attachments
	Chunks   int  // how many keys its body takes in the store; 0 when there is nothing to keep
}

// LeafRev is a leaf with its name.
type LeafRev struct {
	Rev
	Leaf
}

// Len is the number of known revisions.
func (t *Tree) Len() int { return len(t.nodes) }

// Clone returns a copy, which changes alone.
func (t *Tree) Clone() Tree { return Tree{slices.Clone(t.nodes)} }

// Insertion says what Insert did.
type Insertion struct {
	Added      bool      // the revision was not known; it is a leaf now
	Changed    bool      // the tree is not what it was: Added, or ancestors were learned
	Superseded []LeafRev // leaves that turned out to be ancestors and are none any more
}

// manyRevs are so many that the tree is not searched for each of them: histories may be as long as requests.
const manyRevs = 16

// Insert merges the history of rev: the ids of its ancestors, the parent's first. Whatever is known
// already stays, so inserting twice does nothing.
func (t *Tree) Insert(rev Rev, ancestors []string, leaf Leaf) Insertion {
	var done Insertion
	find := t.finder(len(ancestors))
	child := find(rev)
	if child == none {
		child = t.add(node{rev: rev, parent: none, isLeaf: true, leaf: leaf})
		done.Added, done.Changed = true, true
	}
	for _, id := range ancestors {
		rev = Rev{Gen: rev.Gen - 1, ID: id}
		if rev.Gen < 1 {
			break
		}
		parent := t.nodes[child].parent
		if parent == none {
			if parent = find(rev); parent == none {
				parent = t.add(node{rev: rev, parent: none})
			}
			t.nodes[child].parent = parent
			done.Changed = true
		} else if t.nodes[parent].rev != rev {
			break
		}
		if p := &t.nodes[parent]; p.isLeaf {
			done.Superseded = append(done.Superseded, LeafRev{p.rev, p.leaf})
			p.isLeaf, p.leaf = false, Leaf{}
		}
		child = parent
	}
	return done
}

func (t *Tree) add(n node) int32 {
	t.nodes = append(t.nodes, n)
	return int32(len(t.nodes) - 1)
}

// finder returns find for as many revisions.
func (t *Tree) finder(revs int) func(Rev) int32 {
	if revs <= manyRevs {
		return t.find
	}
	known := make(map[Rev]int32, len(t.nodes))
	for i := range t.nodes {
		known[t.nodes[i].rev] = int32(i)
	}
	return func(rev Rev) int32 {
		if i, has := known[rev]; has {
			return i
		}
		return none
	}
}

// find looks from the newest, since that is what most callers ask for.
func (t *Tree) find(rev Rev) int32 {
	for i := len(t.nodes) - 1; i >= 0; i-- {
		if n := &t.nodes[i]; n.rev.Gen == rev.Gen && n.rev.ID == rev.ID {
			return int32(i)
		}
	}
	return none
}

// Stem forgets revisions that are limit or more edits older than every leaf that follows from them.
// It reports whether there were any. A limit below 1 counts as 1.
func (t *Tree) Stem(limit int) bool {
	limit = max(limit, 1)
	if len(t.nodes) <= limit {
		return false
	}
	keep := make([]int32, len(t.nodes)) // how many generations, itself included, are kept from each node
	for i := range t.nodes {
		if !t.nodes[i].isLeaf {
			continue
		}
		for at, left := int32(i), int32(min(limit, len(t.nodes))); at != none && keep[at] < left; left-- {
			keep[at] = left
			at = t.nodes[at].parent
		}
	}
	if !slices.Contains(keep, 0) {
		return false
	}
	t.retain(func(i int) bool { return keep[i] > 0 })
	return true
}

// retain drops the nodes that keep refuses; their children become roots.
func (t *Tree) retain(keep func(i int) bool) {
	moved := make([]int32, len(t.nodes))
	kept := int32(0)
	for i := range t.nodes {
		moved[i] = none
		if keep(i) {
			moved[i] = kept
			kept++
		}
	}
	for i, n := range t.nodes {
		if moved[i] != none {
			if n.parent != none {
				n.parent = moved[n.parent]
			}
			t.nodes[moved[i]] = n // moved[i] <= i, and nodes are visited in order
		}
	}
	t.nodes = t.nodes[:kept]
}

// Has reports whether rev is known.
func (t *Tree) Has(rev Rev) bool { return t.find(rev) != none }

// Leaf returns the leaf called rev, and whether there is one.
func (t *Tree) Leaf(rev Rev) (Leaf, bool) {
	if i := t.find(rev); i != none && t.nodes[i].isLeaf {
		return t.nodes[i].leaf, true
	}
	return Leaf{}, false
}

// Ended lists the leaves that a revision with these ancestors, the parent's id first, follows from, the nearest first.
func (t *Tree) Ended(rev Rev, ancestors []string) (leaves []LeafRev) {
	for i := range t.nodes {
		n := &t.nodes[i]
		at := rev.Gen - n.rev.Gen - 1
		if n.isLeaf && at >= 0 && at < int64(len(ancestors)) && ancestors[at] == n.rev.ID {
			leaves = append(leaves, LeafRev{n.rev, n.leaf})
		}
	}
	slices.SortFunc(leaves, func(a, b LeafRev) int { return cmp.Compare(b.Gen, a.Gen) })
	return leaves
}

// Leaves lists the leaves, the winner first: those that are not deleted before the deleted ones, then
// by generation and id from the highest.
func (t *Tree) Leaves() []LeafRev {
	leaves := make([]LeafRev, 0, 1)
	for i := range t.nodes {
		if n := &t.nodes[i]; n.isLeaf {
			leaves = append(leaves, LeafRev{n.rev, n.leaf})
		}
	}
	slices.SortFunc(leaves, compareLeaves)
	return leaves
}

// compareLeaves is a total order: no two leaves have the same name.
func compareLeaves(a, b LeafRev) int {
	if a.Deleted != b.Deleted {
		if a.Deleted {
			return 1
		}
		return -1
	}
	return b.Compare(a.Rev)
}

// Winner is the leaf that stands for the document, and whether there is one at all.
func (t *Tree) Winner() (winner LeafRev, found bool) {
	for i := range t.nodes {
		n := &t.nodes[i]
		if !n.isLeaf {
			continue
		}
		if l := (LeafRev{n.rev, n.leaf}); !found || compareLeaves(l, winner) < 0 {
			winner, found = l, true
		}
	}
	return winner, found
}

// Conflicted reports whether there is more than one leaf.
func (t *Tree) Conflicted() bool {
	leaves := 0
	for i := range t.nodes {
		if t.nodes[i].isLeaf {
			leaves++
		}
	}
	return leaves > 1
}

// Path lists the ids from rev back to its oldest known ancestor, rev's own first; nothing when rev is
// not known.
func (t *Tree) Path(rev Rev) []string {
	var ids []string
	for i := t.find(rev); i != none; i = t.nodes[i].parent {
		ids = append(ids, t.nodes[i].rev.ID)
	}
	return ids
}

// Descendants lists the leaves that are rev or follow from it, in the order of Leaves.
func (t *Tree) Descendants(rev Rev) []LeafRev {
	target := t.find(rev)
	if target == none {
		return nil
	}
	var leaves []LeafRev
	for i := range t.nodes {
		n := &t.nodes[i]
		if !n.isLeaf {
			continue
		}
		at := int32(i)
		for at != none && at != target && t.nodes[at].rev.Gen > rev.Gen {
			at = t.nodes[at].parent
		}
		if at == target {
			leaves = append(leaves, LeafRev{n.rev, n.leaf})
		}
	}
	slices.SortFunc(leaves, compareLeaves)
	return leaves
}

// Missing lists those of some revisions that the tree does not have, each once.
func (t *Tree) Missing(revs []Rev) (missing []Rev) {
	find, listed := t.finder(len(revs)), map[Rev]bool{}
	for _, rev := range revs {
		if !listed[rev] && find(rev) == none {
			missing, listed[rev] = append(missing, rev), true
		}
	}
	return missing
}

// PossibleAncestors lists the leaves that a missing revision may follow from: those of a generation
// below the highest among missing.
func (t *Tree) PossibleAncestors(missing []Rev) []Rev {
	if len(missing) == 0 {
		return nil
	}
	highest := slices.MaxFunc(missing, func(a, b Rev) int { return cmp.Compare(a.Gen, b.Gen) }).Gen
	var revs []Rev
	for _, l := range t.Leaves() {
		if l.Gen < highest {
			revs = append(revs, l.Rev)
		}
	}
	return revs
}
