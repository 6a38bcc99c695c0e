package relay

import (
	"errors"
	"reflect"
	"sync"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// sight says which jobs a user sees: those of its own requests, and those of the databases of which it is a member.
// Only an admin, and the user of a request, sees all of a job.
type sight struct {
	user  web.User
	all   bool              // the user is an admin of the server
	names map[string]string // of the databases; the values begin the ids of their jobs
	// admin has the beginnings of ids of the databases whose admin the user is, member those of all.
	admin, member map[string]bool

	node    string // this one
	numbers func() map[string]jobstore.Stats
	now     instant.Time
}

// databasesAtOnce is how many databases one transaction asks for their members.
const databasesAtOnce = 200

// sightOf reads what a user may see.
func (s *service) sightOf(q *web.Request) (sight, error) {
	v := sight{user: q.User, all: q.User.Admin(), node: s.Host.NodeName(), now: s.now()}
	v.numbers = sync.OnceValue(func() map[string]jobstore.Stats { return s.Numbers(q.Context()) })
	v.names, v.admin, v.member = map[string]string{}, map[string]bool{}, map[string]bool{}
	for start, more := "", !v.all; more; {
		names, err := web.Run(q, s.DB, glance, func(tx kv.Tx) ([]string, error) {
			names, err := s.Store.Docs.Names(tx, start, databasesAtOnce)
			for _, name := range names {
				if err := v.look(s, tx, name); err != nil {
					return nil, err
				}
			}
			return names, err
		})
		if err != nil {
			return v, err
		}
		if more = len(names) == databasesAtOnce; more {
			start = names[len(names)-1] + "\x00"
		}
	}
	return v, nil
}

// look notes what the user is in a database.
func (v *sight) look(s *service, tx kv.Tx, name string) error {
	if !jobstore.IsReplicatorDB(name) {
		return nil
	}
	db, err := s.Store.Docs.Open(tx, name)
	if errors.Is(err, docs.ErrNoDatabase) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := db.Security()
	if err != nil {
		return err
	}
	security, err := docs.ParseSecurity(text)
	if err != nil || !security.Admits(v.user.Name, v.user.Roles) {
		return err
	}
	prefix := jobstore.DocumentJobs(db.Instance)
	v.names[name], v.member[prefix] = prefix, true
	v.admin[prefix] = security.Administers(v.user.Name, v.user.Roles)
	return nil
}

// sees reports whether the user may know of a job.
func (v sight) sees(rec *jobstore.Record) bool {
	if rec.Transient() {
		return v.all || rec.User == v.user.Name && rec.State != jobstore.Unreadable
	}
	return v.all || v.member[rec.Instance]
}

// goesOn is where a list goes on that came to a position. A database that the user does not see is passed as a whole:
// the position would tell the id of one of its documents.
func (v sight) goesOn(p jobstore.Position, descending bool) jobstore.Position {
	prefix := p.Database()
	if v.all || prefix == "" || v.member[prefix] {
		return p
	}
	return jobstore.PastDatabase(prefix, descending)
}

// steers reports whether the job is the user's, though it is no owner of a document.
func (v sight) steers(rec *jobstore.Record) bool {
	return v.all || rec.Transient() && rec.User == v.user.Name || v.admin[rec.Instance]
}

// view is what the user is told of a job. Of the runs of this node that is the present, of others what was stored.
func (v sight) view(jobID string, rec *jobstore.Record) jobstore.View {
	shown := rec.View()
	if rec.State == jobstore.Running && rec.Node == v.node {
		if n, copies := v.numbers()[jobID]; copies && !reflect.DeepEqual(n, rec.Stats) {
			shown.Stats, shown.LastUpdated = &n, v.now
		}
	}
	if v.steers(rec) {
		return shown
	}
	return shown.Redacted()
}

// enters reports whether the user may see the jobs of a database; empty stands for all that it sees.
func (v sight) enters(database string) bool {
	_, member := v.names[database]
	return v.all || member || database == ""
}

var errNotMember = web.Forbidden("You are not allowed to access this db.")

// mustSteer refuses users that may not steer the job with an id, or look into it: all but the user of a request, the
// owner of a document and admins. A job that a user does not see is as if there were none.
func (s *service) mustSteer(q *web.Request, id string) error {
	v, err := s.sightOf(q)
	if err != nil || v.all {
		return err
	}
	_, err = web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (struct{}, error) {
		_, rec, err := s.Store.Find(tx, id)
		switch {
		case err != nil:
			return struct{}{}, err
		case rec == nil || !v.sees(rec):
			return struct{}{}, noJob(id)
		case v.steers(rec):
			return struct{}{}, nil
		}
		owner, err := jobstore.OwnerOfJob(s.Store, tx, rec)
		if err == nil && (owner == "" || owner != q.User.Name) {
			err = web.Forbidden("only the owner of the document, an admin of its database or of the server may do that")
		}
		return struct{}{}, err
	})
	return err
}
