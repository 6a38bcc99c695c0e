// Package docs is a CouchDB-compatible document store over kv.Tx: databases, revision trees, changes feed,
// attachments, local documents. The same code hosts the _replicator databases of the service, where the write
// of a document and the job that it creates are one transaction, models the servers of the simulator, and
// serves as an endpoint behind HTTP. It is pure: time, random ids and the store are arguments.
//
// # Keys
//
// All below the root that New is given; the elements are tuples.
//
//	0, name                        a database: instance, creation time, revs limit, and of a mirror what it
//	                               follows and whether that is trusted (a tuple)
//	1, instance, 0                 update sequence (versionstamped value), which feeds watch
//	1, instance, 1 | 2             counters: documents, deleted documents
//	1, instance, 3                 security object
//	1, instance, 4, id             the document's record: revision tree and recent edits
//	1, instance, 5 | 6, id         its entry: place in the feed and winner; 5 when it is alive, 6 when deleted
//	1, instance, 7, stamp, tie, id a row of the feed: winner, whether it is deleted, whether there are conflicts
//	1, instance, 8, id, gen, rev   body and attachment list of a leaf
//	1, instance, 9, id             a local document
//	1, instance, 10, blob, n       piece n of an attachment's bytes
//	2, instance, blob              an upload under way, with the time of its last piece
//
// Records, bodies, local documents and the security object are cut into chunks where they exceed the
// limit of a value; the further chunks have their number as another element.
//
// # Transactions and conflicts
//
// Every transaction reads the database's key, so it conflicts with the deletion or re-creation of the
// database, and each writer reads the records of its documents and their entries. Nothing else of a
// write conflicts: counters are atomic additions, feed rows and the update sequence take the commit's
// versionstamp. Two writers collide only on the same document.
//
// Because of the versionstamps, a transaction that wrote a document can read that document, but neither
// the feed nor the list of documents before it has committed.
//
// Bodies and attachments exist for leaves only: an edit removes those that it supersedes, in the same
// transaction. A read of an older revision answers that it is missing, as in a CouchDB that has been
// compacted.
//
// # Repetition
//
// A transaction whose outcome is unknown is run again. Writing a known revision changes nothing, so
// replicated edits repeat safely. A new edit carries a Token that its request chose; the record keeps
// the tokens of the last edits, so that a repetition finds its own edit and returns its revision,
// and an equal edit of another request conflicts.
package docs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// errMalformed is in the chain of errors for a value that this package cannot have written.
var errMalformed = fmt.Errorf("docs: malformed value: %w", kv.ErrUnreadable)

// malformed is the error for such a value, of which it says where it was found.
func malformed(where string, args ...any) error {
	return fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(where, args...))
}

// Elements of keys, see the package comment.
const (
	keyNames     = 0
	keyInstances = 1
	keyUploads   = 2
)

const (
	keySeq = iota
	keyDocCount
	keyDelCount
	keySecurity
	keyRecord
	keyAlive
	keyDeleted
	keyChanges
	keyBody
	keyLocal
	keyBlob
)

// DefaultRevsLimit is the number of revisions of each branch that a new database remembers.
const DefaultRevsLimit = 1000

// Store holds databases under one root.
type Store struct {
	// DefaultSecurity is the security object of databases that were given none; {} if empty.
	DefaultSecurity string

	names, instances, uploads tuple.Subspace
}

// New returns the store whose keys are in root.
func New(root tuple.Subspace) *Store {
	return &Store{names: root.Sub(keyNames), instances: root.Sub(keyInstances), uploads: root.Sub(keyUploads)}
}

// Database is an open database. It is bound to the transaction that opened it.
type Database struct {
	Name      string
	Instance  tuple.UUID
	Created   instant.Time
	RevsLimit int
	// Follows is the URL of the database that this one mirrors, empty for all others. Trusted reports whether
	// documents of that database count as an admin's. See Mirror.
	Follows string
	Trusted bool
	// Validate, if set, is called before every write of a document that is not local. See Validation.
	Validate Validation

	tx       kv.Tx
	store    *Store
	instance tuple.Subspace
	ordinal  uint16 // of the next document written through this handle

	prefetched bool               // the caller of Update has called Prefetch
	updating   map[string]*record // by Update, which stores what it has changed at its end
}

// Validation checks an edit. It is given the revision that the edit replaces, nil if there is none, and whether the
// edit is a replicated one. It refuses the edit with an *Error; any other error fails the transaction. It may change
// the edit's body, and nothing else. It may Read the document, which is then as the edits before this one have left it.
type Validation func(next, prev *Document, replicated bool) error

// maxNameSize is CouchDB's limit.
const maxNameSize = 238

// ValidName checks a database name by CouchDB's rules.
func ValidName(name string) error {
	plain, system := name, name == "_replicator" || name == "_users" || name == "_global_changes"
	if prefix, found := strings.CutSuffix(name, "/_replicator"); found {
		plain = prefix
	}
	valid := plain != "" && 'a' <= plain[0] && plain[0] <= 'z' && strings.IndexFunc(plain, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789_$()+/-", r)
	}) < 0
	switch {
	case !valid && !system:
		return &Error{Invalid, "illegal_database_name", "Name: '" + name + "'. Only lowercase characters (a-z), " +
			"digits (0-9), and any of the characters _, $, (, ), +, -, and / are allowed. Must begin with a letter."}
	case len(name) > maxNameSize:
		return &Error{Invalid, "database_name_too_long", "At least one path segment of `" + name + "` is too long."}
	}
	return nil
}

// Create creates a database. The instance is a new unique id; a repetition with the same instance succeeds.
// Create fails with ErrExists, or if the name is not valid.
func (s *Store) Create(tx kv.Tx, name string, instance tuple.UUID, now instant.Time) error {
	if err := ValidName(name); err != nil {
		return err
	}
	switch db, err := s.Open(tx, name); {
	case err == nil && db.Instance == instance:
		return nil
	case err == nil:
		return ErrExists
	case !errors.Is(err, ErrNoDatabase):
		return err
	}
	db := &Database{Name: name, Instance: instance, Created: now, RevsLimit: DefaultRevsLimit, tx: tx, store: s,
		instance: s.instances.Sub(instance)}
	db.describe()
	tx.SetVersionstampedValue(db.key(keySeq), pendingSeq(0, 0, ""))
	return nil
}

// Open returns a database, or ErrNoDatabase.
func (s *Store) Open(tx kv.Tx, name string) (*Database, error) {
	if len(name) > maxNameSize {
		return nil, ErrNoDatabase
	}
	value, err := tx.Get(s.names.Pack(name))
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, ErrNoDatabase
	}
	db := &Database{Name: name, tx: tx, store: s}
	if err := describe(db, value); err != nil {
		return nil, fmt.Errorf("%w: database %q: %w", errMalformed, name, err)
	}
	db.instance = s.instances.Sub(db.Instance)
	return db, nil
}

// describe reads the description of a database.
func describe(db *Database, value []byte) error {
	var created int64
	fields := []any{&db.Instance, &created, &db.RevsLimit, &db.Follows, &db.Trusted}
	err := tuple.Subspace(nil).Scan(value, fields[:3]...)
	if err != nil {
		err = tuple.Subspace(nil).Scan(value, fields...)
	}
	db.Created = instant.Time(created)
	return err
}

// Reads returns what a transaction reads that reads a document of a database and replaces it.
func (s *Store) Reads(instance tuple.UUID, id string) (keys [][]byte, bodies kv.Range) {
	db := &Database{instance: s.instances.Sub(instance)}
	keys = [][]byte{db.idKey(keyRecord, id), db.entryKey(id, true), db.entryKey(id, false)}
	return keys, tuple.Subspace(db.idKey(keyBody, id)).Range()
}

// Designs are the rows that tell which design documents a database has. They change with every one of these.
func (s *Store) Designs(instance tuple.UUID) kv.Range {
	db := &Database{instance: s.instances.Sub(instance)}
	return kv.Range{Begin: db.idKey(keyAlive, "_design/"), End: db.idKey(keyAlive, "_design0")}
}

// IsContent reports whether the value under a key is what a client wrote: a document's body, a local document, a piece
// of an attachment or the security object. root is what New was given.
func IsContent(root tuple.Subspace, key []byte) bool {
	rest, in := bytes.CutPrefix(bytes.TrimPrefix(key, root), instancesPrefix)
	if !in || len(rest) < instanceSize {
		return false
	}
	for _, kind := range contentKinds {
		if bytes.HasPrefix(rest[instanceSize:], kind) {
			return true
		}
	}
	return false
}

var (
	instancesPrefix = tuple.Pack(keyInstances)
	instanceSize    = len(tuple.Pack(tuple.UUID{}))
	contentKinds    = [][]byte{
		tuple.Pack(keySecurity), tuple.Pack(keyBody), tuple.Pack(keyLocal), tuple.Pack(keyBlob),
	}
)

func (db *Database) describe() {
	value := tuple.Pack(db.Instance, int64(db.Created), db.RevsLimit)
	if db.Follows != "" {
		value = tuple.AppendBool(tuple.AppendString(value, db.Follows), db.Trusted)
	}
	db.tx.Set(db.store.names.Pack(db.Name), value)
}

// Mirror notes that the database mirrors another one, at a URL without credentials: its documents are written there.
func Mirror(db *Database, url string, trusted bool) {
	db.Follows, db.Trusted = url, trusted
	db.describe()
}

// Delete removes a database with all its content if it is still the same instance. Otherwise it was removed
// before, and Delete does nothing.
func (s *Store) Delete(tx kv.Tx, name string, instance tuple.UUID) error {
	db, err := s.Open(tx, name)
	if errors.Is(err, ErrNoDatabase) || err == nil && db.Instance != instance {
		return nil
	}
	if err != nil {
		return err
	}
	tx.Clear(s.names.Pack(name))
	tx.ClearRange(s.instances.Sub(instance).Range())
	return nil
}

// Names lists up to limit database names from start on, in bytewise order.
func (s *Store) Names(tx kv.Tx, start string, limit int) ([]string, error) {
	from := kv.Range{Begin: s.names.Pack(start), End: s.names.Range().End}
	rows, err := tx.GetRange(from, kv.RangeOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(rows))
	for i, row := range rows {
		if err := s.names.Scan(row.Key, &names[i]); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// StartTime returns the text by which clients tell this instance from an earlier one of the same name: the
// time of its creation in microseconds since 1970, so that databases made within one second differ.
func (db *Database) StartTime() string { return strconv.FormatInt(int64(db.Created), 10) }

// SetRevsLimit sets the number of revisions of each branch that the database remembers. A document's history
// is shortened with its next write.
func (db *Database) SetRevsLimit(limit int) error {
	if limit < 1 {
		return &Error{Invalid, "bad_request", "revs_limit must be a positive integer"}
	}
	db.RevsLimit = limit
	db.describe()
	return nil
}

// Security returns the security object as JSON.
func (db *Database) Security() ([]byte, error) {
	value, _, err := getSplit(db.tx, db.key(keySecurity))
	if value == nil && err == nil {
		value = []byte(cmp.Or(db.store.DefaultSecurity, "{}"))
	}
	return value, err
}

// SetSecurity replaces the security object.
func (db *Database) SetSecurity(object []byte) error {
	value, err := compact(object)
	if err != nil || value[0] != '{' {
		return BadRequest("the security object must be a JSON object")
	}
	if _, err := ParseSecurity(value); err != nil {
		return err
	}
	_, old, err := getSplit(db.tx, db.key(keySecurity))
	if err != nil {
		return err
	}
	clearSplit(db.tx, db.key(keySecurity), putSplit(db.tx, db.key(keySecurity), value), old)
	return nil
}

// Info is a database's description.
type Info struct {
	Docs, Deleted int64
	UpdateSeq     Seq
}

// Info reads the counters, and the sequence of the last change or else of the creation.
func (db *Database) Info() (Info, error) {
	values, err := db.tx.GetAll([][]byte{db.key(keyDocCount), db.key(keyDelCount), db.key(keySeq)})
	if err != nil {
		return Info{}, err
	}
	if len(values[2]) < seqSize {
		return Info{}, malformed("update sequence of database %q", db.Name)
	}
	return Info{kv.Counter(values[0]), kv.Counter(values[1]), seqOf(values[2])}, nil
}

// Watch returns a watch that fires when the database is changed or deleted after the state that this
// transaction sees.
func (db *Database) Watch() kv.Watch { return db.tx.Watch(db.key(keySeq)) }

// start returns the prefix of a kind's keys, with capacity for more.
func (db *Database) start(kind, room int) []byte {
	return tuple.AppendInt(db.instance.Begin(room+2), int64(kind))
}

func (db *Database) key(kind int) []byte { return db.start(kind, 0) }

// idKey returns the key of a kind that is followed by a document id.
func (db *Database) idKey(kind int, id string) []byte {
	return tuple.AppendString(db.start(kind, len(id)+2), id)
}
