package revtree

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/bits"
	"slices"
	"strings"
)

// Flags of an encoded node.
const (
	flagLeaf     = 1 << iota
	flagDeleted  // of a leaf
	flagAttached // of a leaf
	flagHex      // the id is 16 bytes that are spelled as hex digits; else a length and the text
	flagRoot     // the generation follows; else a distance back to the parent
	flagsAll     = 1<<iota - 1
)

// ErrMalformed is the error of bytes that Append did not write.
var ErrMalformed = errors.New("malformed revision tree")

// Append appends the tree's encoding: the number of nodes, then the nodes in the order of generation
// and id, so that equal trees have equal encodings and parents come before their children.
func (t *Tree) Append(dst []byte) []byte {
	t.sort()
	dst = binary.AppendUvarint(dst, uint64(len(t.nodes)))
	for i := range t.nodes {
		dst = t.appendNode(dst, i)
	}
	return dst
}

func (t *Tree) appendNode(dst []byte, i int) []byte {
	n := &t.nodes[i]
	isHex := len(n.rev.ID) == 2*packed
	dst = append(dst, flag(n.isLeaf, flagLeaf)|flag(n.leaf.Deleted, flagDeleted)|flag(n.leaf.Attached, flagAttached)|
		flag(isHex, flagHex)|flag(n.parent == none, flagRoot))
	if n.parent == none {
		dst = binary.AppendUvarint(dst, uint64(n.rev.Gen))
	} else {
		dst = binary.AppendUvarint(dst, uint64(i)-uint64(n.parent))
	}
	if isHex {
		dst, _ = hex.AppendDecode(dst, []byte(n.rev.ID))
	} else {
		dst = append(binary.AppendUvarint(dst, uint64(len(n.rev.ID))), n.rev.ID...)
	}
	if n.isLeaf {
		dst = binary.AppendUvarint(dst, uint64(n.leaf.Chunks))
	}
	return dst
}

// Size is about how many bytes the tree's encoding takes, and no fewer.
func (t *Tree) Size() int {
	size := binary.MaxVarintLen32
	for i := range t.nodes {
		n := &t.nodes[i]
		id := len(n.rev.ID) + 2
		if id == 2*packed+2 {
			id = packed
		}
		size += 1 + varintLen(uint64(len(t.nodes))) + id
		if n.parent == none {
			size += varintLen(uint64(n.rev.Gen))
		}
		if n.isLeaf {
			size += varintLen(uint64(n.leaf.Chunks))
		}
	}
	return size
}

func varintLen(v uint64) int { return max(1, (bits.Len64(v)+6)/7) }

func flag(set bool, f byte) byte {
	if set {
		return f
	}
	return 0
}

// sort puts the nodes into the order of their encoding.
func (t *Tree) sort() {
	byRev := func(a, b node) int {
		return cmp.Or(cmp.Compare(a.rev.Gen, b.rev.Gen), strings.Compare(a.rev.ID, b.rev.ID))
	}
	if slices.IsSortedFunc(t.nodes, byRev) {
		return
	}
	order := make([]int32, len(t.nodes)) // old index by new index
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return byRev(t.nodes[a], t.nodes[b]) })
	moved := make([]int32, len(order)) // new index by old index
	for i, old := range order {
		moved[old] = int32(i)
	}
	sorted := make([]node, len(order))
	for i, old := range order {
		sorted[i] = t.nodes[old]
		if sorted[i].parent != none {
			sorted[i].parent = moved[sorted[i].parent]
		}
	}
	t.nodes = sorted
}

// Decode reads a tree and returns the bytes after it. The error is ErrMalformed.
func Decode(b []byte) (Tree, []byte, error) {
	d := decoder{rest: b}
	n := d.uvarint()
	if d.bad || n > uint64(len(b))/2 { // a node takes more than two bytes
		return Tree{}, nil, ErrMalformed
	}
	d.ids.Grow(int(2 * packed * n))
	t := Tree{nodes: make([]node, n, n+1)}
	for i := range t.nodes {
		if !d.node(t.nodes, i) {
			return Tree{}, nil, ErrMalformed
		}
	}
	// The hex ids share one string.
	ids := d.ids.String()
	for i := range t.nodes {
		if t.nodes[i].rev.ID == "" {
			t.nodes[i].rev.ID, ids = ids[:2*packed], ids[2*packed:]
		}
	}
	return t, d.rest, nil
}

type decoder struct {
	rest []byte
	ids  strings.Builder // hex ids, one after the other
	bad  bool
}

func (d *decoder) node(nodes []node, i int) bool {
	if len(d.rest) == 0 {
		return false
	}
	flags, n := d.rest[0], &nodes[i]
	d.rest = d.rest[1:]
	n.parent, n.isLeaf = none, flags&flagLeaf != 0
	n.leaf = Leaf{Deleted: flags&flagDeleted != 0, Attached: flags&flagAttached != 0}
	link := d.uvarint()
	switch {
	case flags&flagRoot != 0 && 0 < link && link <= maxGen:
		n.rev.Gen = int64(link)
	case flags&flagRoot == 0 && 0 < link && link <= uint64(i):
		n.parent = int32(i - int(link))
		n.rev.Gen = nodes[n.parent].rev.Gen + 1
	default:
		return false
	}
	if flags&flagHex != 0 {
		var digits [2 * packed]byte
		d.ids.Write(digits[:hex.Encode(digits[:], d.take(packed))])
	} else if n.rev.ID = string(d.take(d.uvarint())); n.rev.ID == "" || len(n.rev.ID) == 2*packed {
		return false
	}
	if n.isLeaf {
		n.leaf.Chunks = int(d.uvarint() & 0xffffff)
	}
	return !d.bad && flags <= flagsAll
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.bad = true
		return nil
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}
