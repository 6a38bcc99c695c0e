package docs

import (
	"slices"
	"strings"
	"unicode/utf8"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/json"
)

// Document is one revision of a document.
type Document struct {
	ID string
	// Rev is the revision. In a new edit it is the revision to replace, zero for none. Local documents have
	// generation 0 and a number.
	Rev       revtree.Rev
	Ancestors []string // ids of the revisions before Rev, as far as known, the parent's first
	Deleted   bool
	// Body is a JSON object without white space and without the members that this struct holds. Numbers,
	// strings and the order of members are as the writer spelled them.
	Body        []byte
	Attachments []Attachment
	Meta        Meta
}

// With returns the revision with another body, for readers that must not see its own. The name of the revision is made
// up, so that nobody takes the two for the same.
func (d *Document) With(body []byte) *Document {
	c := *d
	c.Body = body
	parent := revtree.Rev{Gen: d.Rev.Gen - 1}
	if len(d.Ancestors) > 0 {
		parent.ID = d.Ancestors[0]
	}
	c.Rev = newRev(parent, &c)
	return &c
}

// Meta is information about a document that a reader may ask for. Fields that were not asked for are nil.
type Meta struct {
	Conflicts        []revtree.Rev // other leaves that are not deleted
	DeletedConflicts []revtree.Rev // other leaves that are deleted
	RevsInfo         []RevInfo     // this revision and those before it, newest first
	LocalSeq         *Seq          // of the document's last change
}

// RevInfo is whether a revision can be read.
type RevInfo struct {
	Rev    revtree.Rev
	Status string // available, deleted or missing
}

// maxIDSize keeps keys under the store's limit: an id is in no key twice, and its zero bytes take two.
const maxIDSize = 4096

// localPrefix begins the ids of documents that do not replicate.
const localPrefix = "_local/"

// IsLocal reports whether id names a local document.
func IsLocal(id string) bool { return strings.HasPrefix(id, localPrefix) }

// ValidID checks a document id by CouchDB's rules.
func ValidID(id string) error {
	switch {
	case id == "":
		return illegalID("Document id must not be empty")
	case id == "_design/" || id == localPrefix:
		return illegalID("Illegal document id `" + id + "`")
	case len(id) > maxIDSize:
		return illegalID("Document id is too long")
	case !utf8.ValidString(id):
		return illegalID("Document id must be valid UTF-8")
	case id[0] == '_' && !strings.HasPrefix(id, "_design/") && !IsLocal(id):
		return illegalID("Only reserved document ids may start with underscore.")
	}
	return nil
}

// ReplicationMembers are the names with an underscore that documents of replicator databases may have.
var ReplicationMembers = []string{"_replication_state", "_replication_state_time", "_replication_state_reason",
	"_replication_id", "_replication_stats"}

// ParseDocument reads a document as clients write it. Members whose names are in allowed stay in the body.
// Other unknown names that begin with an underscore are refused. raw is not kept.
func ParseDocument(raw []byte, allowed ...string) (*Document, error) {
	value, err := compact(raw)
	if err != nil {
		return nil, err
	}
	if value[0] != '{' {
		return nil, ErrNotObject
	}
	d := &Document{Body: append(make([]byte, 0, len(value)), '{')}
	for rawName, val := range members(value) {
		name := unquote(rawName)
		if !strings.HasPrefix(name, "_") || slices.Contains(allowed, name) {
			if len(d.Body) > 1 {
				d.Body = append(d.Body, ',')
			}
			d.Body = append(append(append(d.Body, rawName...), ':'), val...)
		} else if err := d.setMember(name, val); err != nil {
			return nil, err
		}
	}
	d.Body = append(d.Body, '}')
	return d, nil
}

func (d *Document) setMember(name string, value []byte) (err error) {
	switch name {
	case "_id":
		if value[0] != '"' {
			return illegalID("Document id must be a string")
		}
		d.ID = unquote(value)
		err = ValidID(d.ID)
	case "_rev":
		rev, err := parseRevValue(value)
		if d.Rev.IsZero() { // else _revisions said it
			d.Rev = rev
		}
		return err
	case "_revisions":
		err = d.setRevisions(value)
	case "_deleted":
		if string(value) != "true" && string(value) != "false" {
			return invalidDocument("Bad special document member: _deleted")
		}
		d.Deleted = string(value) == "true"
	case "_attachments":
		d.Attachments, err = parseAttachments(value)
	case "_revs_info", "_local_seq", "_conflicts", "_deleted_conflicts": // what a reader was told
	default:
		return invalidDocument("Bad special document member: %s", name)
	}
	return err
}

// ParseRev reads a revision, also of a local document. The error is ErrRev.
func ParseRev(s string) (revtree.Rev, error) {
	if n, found := strings.CutPrefix(s, "0-"); found && n != "" {
		return revtree.Rev{ID: n}, nil
	}
	rev, err := revtree.ParseRev(s)
	if err != nil {
		return revtree.Rev{}, ErrRev
	}
	return rev, nil
}

func parseRevValue(value []byte) (revtree.Rev, error) {
	if value[0] != '"' {
		return revtree.Rev{}, ErrRev
	}
	return ParseRev(unquote(value))
}

// setRevisions reads {"start": generation, "ids": [the revision's own, its parent's, ...]}.
func (d *Document) setRevisions(value []byte) error {
	var r struct {
		Start *int64
		IDs   []string
	}
	if json.Decode(value, &r) != nil || r.Start == nil {
		return invalidDocument("_revisions must have an integer start and ids, an array of strings.")
	}
	if len(r.IDs) == 0 {
		return nil
	}
	if *r.Start == 0 { // a local document
		d.Rev = revtree.Rev{ID: r.IDs[0]}
		return nil
	}
	r.IDs = r.IDs[:min(int64(len(r.IDs)), max(*r.Start, 1))] // there is nothing before generation 1
	for i, id := range r.IDs {
		rev, err := revtree.MakeRev(*r.Start-int64(i), id)
		if err != nil {
			return invalidDocument("RevId isn't a valid hexadecimal")
		}
		r.IDs[i] = rev.ID
	}
	d.Rev, d.Ancestors = revtree.Rev{Gen: *r.Start, ID: r.IDs[0]}, r.IDs[1:]
	return nil
}
