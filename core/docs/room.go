package docs

import (
	"fmt"

	"couchrelay/core/docs/revtree"
)

// Limits of one document, which a transaction has to read and write as a whole. An edit that ends a branch is never in
// their way.
const (
	// MaxRecord is how many bytes its revision tree takes at most.
	MaxRecord = 500_000
	// MaxLeaves is how many leaves it has at most.
	MaxLeaves = 1000
	// MaxChunks is how many chunks the bodies of its leaves take together at most.
	MaxChunks = 1000
	// maxWrite is how many bytes the write of a body takes at most, with what is cleared for it. The rest of a
	// transaction is for what belongs to the write, such as the end of a job.
	maxWrite = 8_500_000
	// endGrowth is how many bytes the end of a branch may add to a record that has no room for another revision.
	endGrowth = 300
)

// grown refuses a tree that has become larger than the record's, and is too large. ends reports whether a branch that
// was alive is deleted.
func grown(r *record, tree *revtree.Tree, ends bool) error {
	was, is := sizeOf(&r.tree), sizeOf(tree)
	if ends && is.bytes <= was.bytes+endGrowth {
		was.bytes = is.bytes
	}
	over := func(was, is, limit int) bool { return is > limit && is > was }
	if !over(was.bytes, is.bytes, MaxRecord) && !over(was.leaves, is.leaves, MaxLeaves) &&
		!over(was.chunks, is.chunks, MaxChunks) {
		return nil
	}
	const kB = 1000
	return &Error{TooLarge, "document_too_large", fmt.Sprintf(
		"%s: with this revision it would have %d leaves, with %d kB of bodies, and a history of %d kB; it may have %d "+
			"leaves, %d kB and %d kB. Delete conflicts, or lower _revs_limit.",
		r.id, is.leaves, is.chunks*chunkSize/kB, is.bytes/kB, MaxLeaves, MaxChunks*chunkSize/kB, MaxRecord/kB)}
}

// treeSize is how much a document's tree is.
type treeSize struct{ bytes, leaves, chunks int }

func sizeOf(t *revtree.Tree) treeSize {
	size := treeSize{bytes: t.Size()}
	for _, l := range t.Leaves() {
		size.leaves++
		size.chunks += l.Chunks
	}
	return size
}
