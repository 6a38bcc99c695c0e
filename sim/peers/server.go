package peers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/mix"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
	"couchrelay/sim/engine"
	"couchrelay/sim/fakefdb"
)

// Server is one host with databases.
type Server struct {
	Name string
	Traits
	now func() instant.Time
	// Changed, when not nil, is called after every write, with a hash of the database.
	Changed func(server string, hash uint64)
	// Origins, when not nil, has every revision that users made, on all servers.
	Origins *Origins
	// Logged, when not nil, is called for every checkpoint before it is written.
	Logged func(db *DB, id string, body []byte)
	// Lags has, by the names of some databases, documents as they were before their last write: a node of the server
	// may not know that yet.
	Lags map[string]map[string]*docs.Document

	dbs   map[string]*DB
	names []string // of dbs, sorted
	born  int64    // databases so far, for instances
	start string   // when it started, as its databases tell it if they have no time of their own
}

// NewServer returns a server without databases.
func NewServer(name string, t Traits, now func() instant.Time) *Server {
	return &Server{
		Name: name, Traits: t, now: now, dbs: map[string]*DB{}, Lags: map[string]map[string]*docs.Document{},
		start: fmt.Sprint(int64(now())),
	}
}

// Logs in DB.Deny has the database refuse to store logs, with the status of its server.
const Logs = "_local"

// DB is a database. Each has a store of its own, so that it can be put back to an earlier state.
type DB struct {
	Server *Server
	Name   string
	// Deny has the documents that the database's validation function refuses, with its errors, and Logs if the
	// database stores no logs. Documents with an error of docs.Invalid the server cannot read.
	Deny map[string]*docs.Error

	store   *fakefdb.Database
	docs    *docs.Store
	start   string   // another one for each database, and after each restart
	durable Snapshot // of servers that forget
	// Since is when the database was made, or its server started last.
	Since instant.Time
	born  int64 // number of the database among those of its server

	waiters []*waiter           // long polls
	worded  int                 // ends of answers so far
	locals  map[string]localDoc // of all _local documents that there may be; replications alone write them
	copying bool                // the present write is a replication
	views   map[string]*view    // by filter
	history

	// Edited is when the design document with the filter functions was last written, by a user or a
	// replication, or was put back with the database.
	Edited instant.Time

	// Misjudged describes a document that a selector judged wrongly. It is empty while there is none.
	Misjudged string

	known  map[Revision]bool // all revisions that the database has: false for leaves, true for their ancestors
	purged purges
	damaged
}

// history are the changes of a database, and how often it was put back.
type history struct {
	order   []docs.Seq // of all changes so far, by number, from 1
	changed []string   // the documents that they changed
	jumps   jumps      // of their numbers as clients see them
	epoch   int
	cuts    []int64 // by epoch: the number to which it was put back when it ended
	lost    []past  // by epoch: what it had when it ended
}

var root = tuple.Subspace(tuple.Pack("s"))

// DB returns the database with a name, or nil.
func (s *Server) DB(name string) *DB { return s.dbs[name] }

// DBs returns all databases in the order of their names.
func (s *Server) DBs() []*DB {
	list := make([]*DB, len(s.names))
	for i, name := range s.names {
		list[i] = s.dbs[name]
	}
	return list
}

// Create makes a database unless there is one of the name, and returns it.
func (s *Server) Create(name string) *DB {
	if db := s.dbs[name]; db != nil {
		return db
	}
	s.born++
	db := &DB{
		Server: s, Name: name, Deny: map[string]*docs.Error{}, docs: docs.New(root), views: map[string]*view{},
		locals: map[string]localDoc{}, known: map[Revision]bool{}, purged: purges{revs: map[Revision]bool{}},
		start: fmt.Sprint(int64(s.now()), s.born), Since: s.now(), born: s.born,
	}
	db.store = fakefdb.New(fakefdb.WithClock(s.now))
	instance := tuple.UUID{1, byte(s.born >> 8), byte(s.born)}
	db.do(func(tx kv.Tx) error { return db.docs.Create(tx, "db", instance, s.now()) })
	db.Sync()
	s.dbs[name] = db
	s.names = append(s.names, name)
	slices.Sort(s.names)
	return db
}

// Delete removes a database.
func (s *Server) Delete(name string) {
	if db := s.dbs[name]; db != nil && s.DropsPolls {
		db.Hangup(nil, &peer.Failure{Kind: peer.Broken})
	} else if db != nil {
		db.Hangup(nil, noDatabase())
	}
	delete(s.dbs, name)
	s.names = slices.DeleteFunc(s.names, func(n string) bool { return n == name })
}

// do runs a transaction. It cannot fail: all faults are the network's, and the store has none.
func (db *DB) do(f func(kv.Tx) error) {
	must(db, kv.Do(context.Background(), db.store, f))
}

func must(db *DB, err error) {
	if err != nil {
		panic(fmt.Sprintf("peers: %s/%s: %v", db.Server.Name, db.Name, err))
	}
}

// read reads from the open database as it is now.
func read[T any](db *DB, f func(*docs.Database) (T, error)) T {
	open, err := db.docs.Open(db.store.Look(), "db")
	must(db, err)
	result, err := f(open)
	must(db, err)
	return result
}

// Write writes documents as users do, or as a replication does (new_edits=false), and returns the result of
// each.
func (db *DB) Write(edits []docs.Edit) []docs.Written {
	var all []docs.Written
	for _, e := range edits {
		if lags := db.Server.Lags[db.Name]; lags != nil {
			lags[e.ID] = db.Latest(e.ID)
		}
	}
	for len(edits) > 0 {
		var written []docs.Written
		db.do(func(tx kv.Tx) error {
			open, err := db.docs.Open(tx, "db")
			if err != nil {
				return err
			}
			open.Validate = func(next, _ *docs.Document, _ bool) error {
				if said := db.Deny[next.ID]; said != nil {
					return said
				}
				return nil
			}
			written, err = open.Update(edits)
			return err
		})
		for i, w := range written {
			if w.Err == nil {
				db.remember(edits[i], w)
			}
		}
		all = append(all, written...)
		edits = edits[len(written):]
	}
	if slices.ContainsFunc(all, func(w docs.Written) bool { return w.Changed }) {
		db.number()
		db.Hangup(nil, nil)
	}
	if db.Server.Changed != nil {
		db.Server.Changed(db.Server.Name, db.store.Hash())
	}
	return all
}

// number gives numbers to the changes since the last time.
func (db *DB) number() {
	for {
		since := docs.Seq{}
		if n := len(db.order); n > 0 {
			since = db.order[n-1]
		}
		page := read(db, func(open *docs.Database) (docs.Page, error) {
			return open.Changes(docs.Query{Since: since, Limit: 1000})
		})
		for _, row := range page.Rows {
			db.order, db.changed = append(db.order, row.Seq), append(db.changed, row.ID)
		}
		if !page.More {
			return
		}
	}
}

// seq words a number as clients see it.
func (db *DB) seq(n int64) peer.Seq {
	n = db.jumps.shown(n)
	if db.Server.Numeric {
		return peer.Seq(fmt.Sprint(n))
	}
	return peer.Seq(fmt.Sprintf(`"%d%cb%de%d"`, n, db.comma(), db.born, db.epoch))
}

// end words a number at the end of an answer.
func (db *DB) end(n int64) peer.Seq {
	s := db.seq(n)
	if !db.Server.Rewords {
		return s
	}
	db.worded++
	return peer.Seq(fmt.Sprintf(`%sw%d"`, strings.TrimSuffix(string(s), `"`), db.worded))
}

// comma is what comes behind the number in a sequence. Only clusters have a dash.
func (db *DB) comma() rune {
	if db.Server.Clustered() {
		return '-'
	}
	return ':'
}

// Number returns the number of the last change that a sequence covers. A sequence from before the database
// was put back covers at most the changes that are left, as in a cluster.
func (db *DB) Number(s peer.Seq) int64 {
	n, epoch := named(db, s)
	for ; epoch < db.epoch; epoch++ {
		n = min(n, db.cuts[epoch])
	}
	return n
}

// Last is the sequence of the newest change.
func (db *DB) Last() peer.Seq { return db.seq(db.last()) }

// last is the number of the newest change.
func (db *DB) last() int64 { return int64(len(db.order)) }

// Has reports whether the database knows a revision, as a leaf or as an ancestor of one.
func (db *DB) Has(id, rev string) bool { _, has := db.known[Revision{id, rev}]; return has }

// Snapshot is the state of a database at one moment.
type Snapshot struct {
	hash    uint64 // of the store
	pairs   []kv.KeyValue
	known   map[Revision]bool
	order   []docs.Seq
	changed []string
	purges  int // so far
}

// Snapshot takes a backup. The backup shares what is never changed in place: the store's values, and lists
// that only grow.
func (db *DB) Snapshot() Snapshot {
	return Snapshot{
		hash: db.store.Hash(), pairs: db.store.Pairs(), known: maps.Clone(db.known), order: slices.Clip(db.order),
		changed: slices.Clip(db.changed), purges: len(db.purged.ids),
	}
}

// Hidden are the documents that a backup has in changes up to since, and the database by now in later ones: a reader
// that has read up to since finds neither change once the backup is put back.
func (s Snapshot) Hidden(db *DB, since peer.Seq) (ids []string) {
	n := min(int(db.Number(since)), len(db.changed)) // it may have been put back to an older backup meanwhile
	for i, id := range s.changed[:min(n, len(s.changed))] {
		if !slices.Contains(s.changed[i+1:], id) && slices.Contains(db.changed[n:], id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Restore puts the database back to a backup. Clients are not told; sequences from after the backup cover
// less now. What was purged since the backup is purged again: feeds that were read meanwhile had not told of it.
func (db *DB) Restore(s Snapshot) {
	store := fakefdb.New(fakefdb.WithClock(db.Server.now))
	for part := range slices.Chunk(s.pairs, 50) { // values of at most 100 kB, transactions of 10 MB
		if err := kv.Do(context.Background(), store, func(tx kv.Tx) error {
			for _, p := range part {
				tx.Set(p.Key, p.Value)
			}
			return nil
		}); err != nil {
			panic("peers: " + err.Error())
		}
	}
	known := db.known
	db.store, db.known = store, maps.Clone(s.known)
	common := 0 // of what was and what is now: of two backups the newer one may be put back last
	for common < min(len(db.order), len(s.order)) && db.order[common] == s.order[common] {
		common++
	}
	// What a change that is gone had hidden was never offered, and is there again.
	lost := db.changed[common:]
	for i, id := range slices.Backward(s.changed[:common]) {
		if slices.Contains(lost, id) && !slices.Contains(s.changed[i+1:], id) {
			common = i
		}
	}
	db.lost = append(db.lost, past{slices.Clip(db.order), known})
	db.order, db.changed, db.views = slices.Clone(s.order), slices.Clone(s.changed), map[string]*view{}
	for id := range db.locals {
		db.locals[id] = localDoc{}
	}
	for _, id := range db.purged.ids[s.purges:] {
		erase(db, id)
	}
	db.cuts = append(db.cuts, int64(common))
	db.epoch++
	db.Edited = db.Server.now()
	db.Hangup(nil, nil)
}

// Restored returns how often the database was put back.
func (db *DB) Restored() int { return db.epoch }

// Sync makes durable what was written so far.
func (db *DB) Sync() {
	if db.Server.Forgets && db.durable.hash != db.store.Hash() {
		db.durable = db.Snapshot()
	}
}

// Restart gives the database another start and, if the server forgets, puts it back to what was durable.
func (db *DB) Restart() {
	s := db.Server
	s.born++
	s.start, db.start, db.Since = fmt.Sprint(int64(s.now())), fmt.Sprint(int64(s.now()), s.born), s.now()
	if s.Forgets {
		db.Restore(db.durable)
	}
}

// Start tells databases of one name apart, also where clients cannot.
func (db *DB) Start() string { return db.start }

// InstanceStart is the instance_start_time that clients of a database are told.
func InstanceStart(db *DB) string {
	switch db.Server.Starts {
	case StartOfServer:
		return db.Server.start
	case NoStarts:
		return "0"
	}
	return db.start
}

// waiter is a long poll that waits for a change.
type waiter struct {
	owner *engine.Process
	wake  func(*peer.Failure)
}

// wait begins a long poll, which ends with a call of wake. The returned function ends it early, if it has not
// ended.
func (db *DB) wait(owner *engine.Process, wake func(*peer.Failure)) (stop func(*peer.Failure)) {
	w := &waiter{owner, wake}
	db.waiters = append(db.waiters, w)
	return func(f *peer.Failure) {
		if i := slices.Index(db.waiters, w); i >= 0 {
			db.waiters = slices.Delete(db.waiters, i, i+1)
			wake(f)
		}
	}
}

// Hangup ends the long polls of a process, or all of them when owner is nil: with a failure or, when that is
// nil, with the changes that there are.
func (db *DB) Hangup(owner *engine.Process, f *peer.Failure) {
	waiting := db.waiters
	db.waiters = nil
	for _, w := range waiting {
		if owner == nil || w.owner == owner {
			w.wake(f)
		} else {
			db.waiters = append(db.waiters, w)
		}
	}
}

// Hash covers the contents of all databases.
func (s *Server) Hash() uint64 {
	h := uint64(0)
	for _, db := range s.DBs() {
		h = mix.Pair(h, db.store.Hash())
	}
	return h
}

// Hash covers the database's contents.
func (db *DB) Hash() uint64 { return db.store.Hash() }

// Intact returns an error if the reader of a value has changed it, which is the database's own memory.
func (db *DB) Intact() error { return db.store.Intact() }

// Latest returns the winning revision of a document, deleted or not, or nil if there never was one.
func (db *DB) Latest(id string) *docs.Document {
	return read(db, func(o *docs.Database) (*docs.Document, error) {
		doc, err := o.Read(id, docs.Want{Deleted: true})
		if _, missing := err.(*docs.Error); missing {
			return nil, nil
		}
		return doc, err
	})
}

// Leaves are the revisions of a document that no other one follows, with their histories, in any order.
func Leaves(db *DB, id string) []*docs.Document { return db.revs(id, nil) }
