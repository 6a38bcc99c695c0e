package relay

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/adapters/web/couchdb"
	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/users"
)

// databases is the part of the service that holds databases: those of replications, and _users.
type databases struct{ *service }

func (s databases) routes() []web.Route {
	return couchdb.Routes(couchdb.Options{
		Store: s.DB, Docs: s.Store.Docs, Clock: s.Clock, UUID: s.Store.Config.Server.UUID,
		Features: []string{"scheduler"},
		Members:  docs.ReplicationMembers, View: s.view, Prepare: s.prepare, Write: s.write,
		Drop: s.drop, Dropped: s.sweep, Functions: s.Functions,
		Wrote: func(q *web.Request, edits []docs.Edit, written []docs.Written) {
			reportUnknown(s.Logger, q, edits, written)
		},
	})
}

// view hides what a reader must not see: of _users all documents but its own, of replications of other owners what may
// be secret.
func (s databases) view(q *web.Request, d *docs.Document) (*docs.Document, error) {
	switch {
	case q.Admin:
		return d, nil
	case q.Param("db") == users.Database:
		if err := (users.By{Name: q.User.Name}).MayRead(d.ID); err != nil {
			return nil, err
		}
		return d, nil
	case docs.IsLocal(d.ID), strings.HasPrefix(d.ID, "_design/"):
		return d, nil
	}
	if owner := jobstore.OwnerOf(d.Body); owner != "" && owner == q.User.Name {
		return d, nil
	}
	body, err := jobstore.Redact(d.Body)
	if err != nil {
		return nil, err
	}
	return d.With(body), nil
}

// maxPasswords bounds the keys that one request may have derived.
const maxPasswords = 100

var errManyPasswords = &web.Error{Status: http.StatusRequestEntityTooLarge, Name: "too_large",
	Reason: "a request may have " + strconv.Itoa(maxPasswords) + " documents with a `password`; send the others later"}

// prepare puts keys in the place of passwords of users.
func (s databases) prepare(q *web.Request, edits []docs.Edit) error {
	if q.Param("db") != users.Database {
		return nil
	}
	count := 0
	for i := range edits {
		password, has, err := users.Password(edits[i].Body)
		if err != nil {
			return err
		}
		if !has || edits[i].Deleted {
			continue
		}
		if count++; count > maxPasswords {
			return errManyPasswords
		}
		key, err := s.Login.Derive(q, password)
		if err != nil {
			return err
		}
		if edits[i].Body, err = users.WithKey(edits[i].Body, key); err != nil {
			return err
		}
	}
	return nil
}

// write writes replication documents together with their jobs, and users.
func (s databases) write(q *web.Request, tx kv.Tx, db *docs.Database, edits []docs.Edit) ([]docs.Written, error) {
	if db.Name == users.Database {
		by := users.By{Name: q.User.Name, Admin: q.Admin}
		writer := jobstore.Writer{Name: q.User.Name, Admin: q.Admin, Roles: q.User.Roles}
		ask, most, err := jobstore.Validators(s.Store, db, writer)
		if err != nil {
			return nil, err
		}
		db.Validate = func(next, prev *docs.Document, _ bool) error {
			if err := mayWriteUser(db, by, next, prev); err != nil {
				return err
			}
			return ask(next, prev)
		}
		return updateUsers(db, by, edits[:most(len(edits))])
	}
	by := jobstore.Writer{Name: q.User.Name, Admin: q.Admin, Roles: q.User.Roles}
	return s.Store.WriteDocs(tx, db, edits, by, s.now())
}

// updateUsers writes users. As in CouchDB a document of which the user may not know is missing before it is a conflict,
// or the answer would tell which users there are.
func updateUsers(db *docs.Database, by users.By, edits []docs.Edit) ([]docs.Written, error) {
	hidden := func(e docs.Edit) bool { return by.Name != "" && errors.Is(by.MayRead(e.ID), docs.ErrMissing) }
	known, err := db.Update(slices.DeleteFunc(slices.Clone(edits), hidden))
	if err != nil {
		return nil, err
	}
	var written []docs.Written
	for _, e := range edits {
		switch {
		case hidden(e):
			written = append(written, docs.Written{ID: e.ID, Rev: e.Rev, Err: docs.ErrMissing})
		case len(known) == 0:
			return written, nil // the others are written by the next transaction
		default:
			written, known = append(written, known[0]), known[1:]
		}
	}
	return written, nil
}

// mayWriteUser refuses what a user must not write in place of prev, which may be nil. The winner counts, too: the roles
// of a branch are those of another time, so only admins make branches, and only they choose the branch that wins.
func mayWriteUser(db *docs.Database, by users.By, next, prev *docs.Document) error {
	if by.Admin {
		return by.Validate(next, prev)
	}
	winner, err := db.Read(next.ID, docs.Want{Deleted: true, Conflicts: true})
	if err != nil && !errors.Is(err, docs.ErrMissing) {
		return err
	}
	wins := winner == nil || winner.Deleted || prev != nil && prev.Rev == winner.Rev
	if prev == nil {
		prev = winner
	}
	switch err := by.Validate(next, prev); {
	case err != nil:
		return err
	case next.Deleted && wins && winner != nil && len(winner.Meta.Conflicts) > 0:
		return docs.Forbidden("Only admins may delete the winner among conflicts.")
	case !next.Deleted && !wins:
		return docs.ErrConflict
	}
	return nil
}

// drop notes that the jobs of a database have to go with it.
func (s databases) drop(tx kv.Tx, db *docs.Database) {
	if jobstore.IsReplicatorDB(db.Name) {
		s.Store.Drop(tx, db.Instance)
	}
}
