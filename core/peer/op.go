package peer

import (
	"fmt"
	"strconv"
	"strings"
)

// Side is one of a replication's two databases.
type Side uint8

// The two sides.
const (
	Source Side = iota
	Target
)

func (s Side) String() string {
	if s == Target {
		return "target"
	}
	return "source"
}

// Seq is a database's update sequence as JSON text: a string in quotes from a clustered server, a number from
// an old one. Two of them are equal or not; they are never compared for order, and are sent back as they
// came.
type Seq string

// Zero is the sequence before every change.
const Zero Seq = "0"

// Ordinal returns the number in front of a sequence, as digits; it is empty if there is none.
func (s Seq) Ordinal() string {
	n, _, _ := strings.Cut(strings.Trim(string(s), `"`), "-")
	if _, err := strconv.ParseUint(n, 10, 64); err != nil {
		return ""
	}
	return n
}

// Before reports whether a sequence has a smaller number in front than another one. In a cluster that does not mean
// that it is older: another copy may have answered.
func (s Seq) Before(t Seq) bool {
	m, noS := strconv.ParseUint(s.Ordinal(), 10, 64)
	n, noT := strconv.ParseUint(t.Ordinal(), 10, 64)
	return noS == nil && noT == nil && m < n
}

// Number returns a sequence of an unclustered server, which is a number.
func (s Seq) Number() (int64, bool) {
	n, err := strconv.ParseInt(string(s), 10, 64)
	return n, err == nil
}

// Param is one query parameter, in the user's order.
type Param struct{ Name, Value string }

// Op is one operation on one database, or on both. Every Op is answered by one Reply.
type Op interface {
	fmt.Stringer
	op()
}

// Result is what a successful Op returns; each Op names its type.
type Result interface{ result() }

// Reply answers an Op. Failure is nil on success. A ReadChanges or CopyDoc that broke off has both: the rows
// or revisions that arrived whole, and why the answer ended.
type Reply struct {
	Result  Result
	Failure *Failure
}

type (
	// Open reads a database's description: GET /db. It answers Opened.
	Open struct{ Side Side }

	// Create creates the target database: PUT /db?params. A database that exists already is no failure. It
	// answers Created.
	Create struct{ Params []Param }

	// GetLocal reads a checkpoint, GET /db/_local/ID. It answers Local.
	GetLocal struct {
		Side Side
		ID   string // without _local/
	}

	// PutLocal writes a checkpoint, PUT /db/_local/ID. It answers LocalWritten; a conflict is a Failure
	// with status 409.
	PutLocal struct {
		Side Side
		ID   string // without _local/
		Rev  string // of the document to replace, empty if there should be none
		Body []byte // JSON object without _id and _rev
	}

	// GetFilter reads the text of a filter function from the source's design document. It answers
	// Filter.
	GetFilter struct{ DesignDoc, Name string }

	// ReadChanges reads up to Limit rows after Since with the replication's filter, or fewer when they come
	// slowly: GET /db/_changes. It answers Changes.
	//
	// Without Wait it asks for all rows there are (feed=normal) and keeps the server's answer open: the next
	// ReadChanges, if its Since is where this one ended, goes on reading the same answer. So a replication
	// sees the feed as it was at one moment, even if the source is written to faster than it can be copied,
	// and reads no faster than it copies. With Wait it is a long poll: it ends as soon as there are rows, or
	// without rows when the server ends it.
	ReadChanges struct {
		Since Seq
		Limit int
		Wait  bool
	}

	// DiffRevs asks the target which revisions it lacks, POST /db/_revs_diff. It answers Diff.
	DiffRevs struct{ Docs []DocRevs }

	// FetchDocs reads documents, POST /db/_bulk_get, and keeps their bodies under the id of the call until the
	// run releases them. It takes no more documents once Budget bytes have arrived. It answers Fetched.
	FetchDocs struct {
		Docs   []DocRev
		Budget int // bytes; the first document is taken whatever its size
		// Attachments asks for the bytes of attachments, as base64 text inside of the bodies. Attachments that are
		// no newer than a revision in DocRev.Since remain stubs. A document larger than Budget is not taken then.
		// If Attachments is false, no document that has attachments is taken.
		Attachments bool `eventlog:"omitzero"`
	}

	// WriteDocs writes bodies that FetchDocs kept, POST /db/_bulk_docs with new_edits=false. It answers
	// Written.
	WriteDocs struct {
		Docs []Kept
		// Gzip asks for a compressed request (Content-Encoding). It may travel as it is, where that is hardly smaller.
		Gzip bool `eventlog:"omitzero"`
	}

	// CopyDoc streams revisions of one document with their attachments from source to target, GET with
	// open_revs and a PUT for each revision, holding none of them whole. It answers Copied.
	CopyDoc struct {
		ID   string
		Revs []string
		// Since lists ancestors that the target has. Attachments that are no newer than these are sent as
		// stubs.
		Since []string
	}

	// Commit asks a database to make its writes durable, POST /db/_ensure_full_commit. It answers
	// Committed.
	Commit struct{ Side Side }

	// CountPending asks the source how many changes there are after Since. It answers Pending.
	CountPending struct{ Since Seq }

	// FindRev asks whether the source has these revisions of a document, all of them, as leaves or in the history of
	// one: GET with open_revs. It answers RevFound.
	FindRev struct {
		ID   string
		Revs []string
		// At is the number that the document's last change had, if sequences are numbers. A source has the revisions
		// only if its feed has no other document's change there, and does not end before it.
		At Seq `eventlog:"omitzero"`
	}

	// ReadNewest reads the newest change of the source, also one that the replication's filter leaves out: GET
	// /db/_changes with descending and limit. It answers NewestChange.
	ReadNewest struct{}

	// ReadDocs reads the winning revisions of documents of the source, with stubs for attachments: POST
	// /db/_all_docs with keys. It reads no more documents once Budget bytes have arrived. It answers DocsRead.
	ReadDocs struct {
		IDs    []string
		Budget int // bytes; the first document is taken up to a limit of its own
	}

	// EditDocs writes new revisions of documents to the source, each in the place of the revision that its body
	// names: POST /db/_bulk_docs. It answers Edited.
	EditDocs struct{ Docs []NewEdit }
)

// NewEdit is a document with its _id and _rev.
type NewEdit struct {
	ID   string
	Body []byte
}

// DocRevs names revisions of one document.
type DocRevs struct {
	ID   string
	Revs []string
}

// DocRev names one revision, and in Since those of its ancestors that the target has.
type DocRev struct {
	ID, Rev string
	Since   []string
}

// Kept names a document body that a FetchDocs kept.
type Kept struct {
	Fetch uint64 // id of the FetchDocs's call
	Index int    // in its Docs
}

func (Open) op()         {}
func (Create) op()       {}
func (GetLocal) op()     {}
func (PutLocal) op()     {}
func (GetFilter) op()    {}
func (ReadChanges) op()  {}
func (DiffRevs) op()     {}
func (FetchDocs) op()    {}
func (WriteDocs) op()    {}
func (CopyDoc) op()      {}
func (Commit) op()       {}
func (CountPending) op() {}
func (FindRev) op()      {}
func (ReadNewest) op()   {}
func (ReadDocs) op()     {}
func (EditDocs) op()     {}

func (o Open) String() string      { return fmt.Sprintf("open %s", o.Side) }
func (o Create) String() string    { return "create target" }
func (o GetLocal) String() string  { return fmt.Sprintf("get %s _local/%s", o.Side, o.ID) }
func (o PutLocal) String() string  { return fmt.Sprintf("put %s _local/%s rev %q", o.Side, o.ID, o.Rev) }
func (o GetFilter) String() string { return fmt.Sprintf("get filter %s/%s", o.DesignDoc, o.Name) }
func (o ReadChanges) String() string {
	feed := "normal"
	if o.Wait {
		feed = "longpoll"
	}
	return fmt.Sprintf("read changes since %s limit %d %s", o.Since, o.Limit, feed)
}
func (o DiffRevs) String() string { return fmt.Sprintf("diff revs of %d docs", len(o.Docs)) }
func (o FetchDocs) String() string {
	if o.Attachments {
		return fmt.Sprintf("fetch %d docs with attachments", len(o.Docs))
	}
	return fmt.Sprintf("fetch %d docs", len(o.Docs))
}
func (o WriteDocs) String() string {
	if o.Gzip {
		return fmt.Sprintf("write %d docs, compressed", len(o.Docs))
	}
	return fmt.Sprintf("write %d docs", len(o.Docs))
}
func (o CopyDoc) String() string {
	return fmt.Sprintf("copy %q revs %s", o.ID, strings.Join(o.Revs, ","))
}
func (o Commit) String() string       { return fmt.Sprintf("commit %s", o.Side) }
func (o CountPending) String() string { return fmt.Sprintf("count pending since %s", o.Since) }
func (o FindRev) String() string {
	text := fmt.Sprintf("find %q rev %s", o.ID, strings.Join(o.Revs, ","))
	if o.At != "" {
		text += " at " + string(o.At)
	}
	return text
}
func (ReadNewest) String() string { return "read the newest change" }
func (o ReadDocs) String() string { return fmt.Sprintf("read %d docs", len(o.IDs)) }
func (o EditDocs) String() string { return fmt.Sprintf("edit %d docs", len(o.Docs)) }
