package world

import (
	"context"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/spec"
)

// looking is the part of users that looks at what became of documents and requests. A look reads the store as of one
// moment, and takes time before and after it: it is none of the store's transactions, so that what everybody else does
// is as if nobody had looked.
type looking struct{ *users }

// looks is how often a user who did something to a job looks at it; the pauses in between grow fourfold.
const looks = 7

// follow has every fourth user who does something to a job look at it, while that is under way and later.
func (u looking) follow(id string, j *JobDoc) {
	if u.looks.Int(4) < 3 {
		return
	}
	u.w.Engine.Go(nil, "look", func() {
		pause := 4 * u.w.Config.StoreLatency
		for range looks {
			_ = u.w.Engine.Sleep(context.Background(), u.looks.Duration(0, pause))
			u.look(id, j, Way(u.looks.Int(int(InList)+1)))
			pause *= 4
		}
	})
}

// Way is where users look.
type Way uint8

// Ways: the job by its id, the document itself, the list of the jobs of its database, in pages.
const (
	AtJob Way = iota
	AtDocument
	InList
)

// Sight is what a user was told of a job.
type Sight struct {
	JobID string
	Asked instant.Time
	Found bool           // whether there is the job, or the document
	View  *jobstore.View // of the job; nil if the user looked at the document
	Body  []byte         // the document; nil if the user looked at the job
}

// look has a user look once. One of a request has no document, and is in no list when it is over.
func (u looking) look(id string, j *JobDoc, way Way) {
	s := &Sight{JobID: id, Asked: u.w.Engine.Now()}
	u.takeTime()
	told := true
	switch {
	case way == AtDocument && j != nil:
		told = u.readDocument(s, j)
	case way == InList && j != nil:
		told = u.readList(s, j)
	default:
		_, rec, err := u.w.store.Find(u.w.db.Glance(), id)
		if told = err == nil; rec != nil {
			s.found(rec)
		}
	}
	if u.takeTime(); told {
		u.w.emit(Looked{s})
	}
}

// takeTime is the way of a request or of its answer.
func (u looking) takeTime() {
	_ = u.w.Engine.Sleep(context.Background(), u.looks.Duration(0, u.w.Config.StoreLatency))
}

func (s *Sight) found(rec *jobstore.Record) {
	view := rec.View()
	s.Found, s.View = true, &view
}

// readDocument tells nothing if the database has been made again.
func (u looking) readDocument(s *Sight, j *JobDoc) (told bool) {
	db, err := u.w.store.Docs.Open(u.w.db.Glance(), j.tenant.name)
	if err != nil || jobstore.DocumentJobs(db.Instance)+j.id != s.JobID {
		return false
	}
	d, err := db.Read(j.id, docs.Want{})
	if s.Found = err == nil; s.Found {
		s.Body = d.Body
	}
	return err == nil || isRefusal(err)
}

// listed is the length of the pages that users read.
const listed = 5

// readList reads pages until one has the job, or there is none left. It tells nothing if the database has been made
// again: users name it, and see the jobs of the new one.
func (u looking) readList(s *Sight, j *JobDoc) (told bool) {
	l := jobstore.Listing{Filter: jobstore.Filter{Documents: true, Instance: s.JobID[:instanceLen]}, Limit: listed}
	for {
		db, err := u.w.store.Docs.Open(u.w.db.Glance(), j.tenant.name)
		if err != nil || jobstore.DocumentJobs(db.Instance)+j.id != s.JobID {
			return false
		}
		page, err := jobstore.Lists{Store: u.w.store, Reader: u.w.db.Present()}.Page(l)
		if err != nil {
			return false
		}
		for _, job := range page.Jobs {
			if job.ID == s.JobID {
				s.found(job.Record)
				return true
			}
		}
		if page.Next == nil {
			return true
		}
		l.At = *page.Next
		u.takeTime()
	}
}

// instanceLen is the length of the beginning of a job's id that names the database.
var instanceLen = len(jobstore.DocumentJobs([16]byte{}))

// Write is a write of a replication document, with what its user knew. The world fills it in until the write is told.
type Write struct {
	JobID string
	Token uint64
	At    instant.Time // when the user began
	Sent  []byte       // the document as it was sent last; nil as long as none was, and a deletion says so
	Seen  uint64       // the token of the revision that the user saw, be it a deletion; 0 when there was none
	// Brought is a write that comes from elsewhere as it is: its user saw nothing before.
	Brought bool
	Wrong   bool   // the document asks for no valid replication
	Over    string // the revision that it replaces; empty if there was none, or it was deleted
}

// Facts about what users ask for, and see. What becomes of a write is told by DocumentWritten or WriteRefused with the
// same token, and otherwise not known.
type (
	// WriteBegins is a write that may happen from now on.
	WriteBegins struct{ Write *Write }
	// DropBegins is a replicator database that is about to be deleted; DatabaseDropped follows.
	DropBegins struct{ Instance [16]byte }
	// RequestBegins is a request to _replicate that may be carried out from now on; RequestAnswered has the same
	// replication. Each attempt begins with the same again: one may have landed without its frontend being told.
	RequestBegins struct {
		ID          string
		Replication *spec.Replication
		At          instant.Time
	}
	// CancelBegins is a request that may be canceled from now on; RequestCanceled has the same time.
	CancelBegins struct {
		ID string
		At instant.Time
	}
	// Looked is a user who is told what became of a job.
	Looked struct{ *Sight }
)

func (WriteBegins) fact()   {}
func (DropBegins) fact()    {}
func (RequestBegins) fact() {}
func (CancelBegins) fact()  {}
func (Looked) fact()        {}
