package web

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"

	"github.com/benbjohnson/clock"
)

// ServiceOptions are what the service's interface works with.
type ServiceOptions struct {
	DB      kv.Database
	Store   *jobstore.Store
	Clock   clock.Clock
	Admins  Admins
	Version string // of couchrelay
	Host    Host
	Limits  Limits
	// Health says why the service cannot work, or nil. It may wait as long as the context.
	Health func(context.Context) error
}

// Service serves replication as CouchDB does: /_replicate, /_scheduler, /_active_tasks, the replicator
// databases, /_membership, /_node, and / and /_up. A node without the role api_frontend serves only what
// operators need.
func Service(o ServiceOptions) http.Handler {
	s := &service{ServiceOptions: o}
	s.databases = Databases(Options{
		Store: o.DB, Docs: o.Store.Docs, Access: s.access, List: s.mayList, Clock: o.Clock, Limits: o.Limits,
		UUID: o.Store.Config.Server.UUID,
	})
	return s
}

type service struct {
	ServiceOptions
	databases http.Handler
}

// sweepLimit is how many jobs of a deleted database are removed in one transaction.
const sweepLimit = 100

// ServeHTTP answers a request.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, err := splitPath(r.URL.EscapedPath())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if _, err := parseQuery(r.URL.RawQuery); err != nil {
		s.fail(w, r, err) // handlers read URL.Query, which leaves out what is malformed
		return
	}
	if err := s.Admins.checkHost(r); err != nil {
		s.fail(w, r, err)
		return
	}
	if err := s.checkRole(path); err != nil {
		s.fail(w, r, err)
		return
	}
	switch path[0] {
	case "_up":
		err = s.up(w, r)
	case "_replicate":
		err = s.only(w, r, http.MethodPost, s.replicate)
	case "_scheduler":
		err = s.only(w, r, http.MethodGet, func(w http.ResponseWriter, r *http.Request, _ jobstore.Writer) error {
			return s.scheduler(w, r, path[1:])
		})
	case "_membership":
		err = s.only(w, r, http.MethodGet, s.membership)
	case "_node":
		err = s.node(w, r, path[1:])
	case "_active_tasks":
		err = s.only(w, r, http.MethodGet, s.activeTasks)
	default:
		s.databases.ServeHTTP(w, r)
		if r.Method == http.MethodDelete && len(path) == 1 {
			s.sweep(context.WithoutCancel(r.Context()))
		}
		return
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// only lets admins call a handler with one method.
func (s *service) only(w http.ResponseWriter, r *http.Request, method string, h func(http.ResponseWriter, *http.Request, jobstore.Writer) error) error {
	by, err := s.Admins.who(r)
	if err != nil {
		return err
	}
	if r.Method != method && !(method == http.MethodGet && r.Method == http.MethodHead) {
		w.Header().Set("Allow", method)
		return &Error{Status: 405, Name: "method_not_allowed", Reason: "Only " + method + " allowed"}
	}
	return h(w, r, by)
}

// access lets admins use replicator databases, in which every write makes or changes a job.
func (s *service) access(r *http.Request, database string) (Access, error) {
	by, err := s.Admins.who(r)
	if err != nil {
		return Access{}, err
	}
	if !jobstore.IsReplicatorDB(database) {
		if r.Method == http.MethodPut {
			return Access{}, Forbidden("couchrelay hosts replicator databases only: _replicator and names that end in /_replicator")
		}
		return Access{}, docs.ErrNoDatabase
	}
	return Access{
		Members: docs.ReplicationMembers,
		Write: func(tx kv.Tx, db *docs.Database, edits []docs.Edit) ([]docs.Written, error) {
			return s.Store.WriteDocs(tx, db, edits, by, s.now())
		},
		Drop: func(tx kv.Tx, db *docs.Database) error {
			s.Store.Drop(tx, db.Instance)
			return nil
		},
	}, nil
}

// mayList lets admins list the databases, as CouchDB does unless admin_only_all_dbs is false.
func (s *service) mayList(r *http.Request) error {
	_, err := s.Admins.who(r)
	return err
}

// sweep removes the jobs of a database that was just deleted. What it does not get to, a node does.
func (s *service) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		done, err := kv.Run(ctx, s.DB, func(tx kv.Tx) (bool, error) { return s.Store.SweepDropped(tx, sweepLimit) })
		if done || err != nil {
			return
		}
	}
}

// up tells load balancers whether to send requests here.
func (s *service) up(w http.ResponseWriter, r *http.Request) error {
	if is, err := s.maintained(w); is {
		return err
	}
	if s.Health != nil {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		if err := s.Health(ctx); err != nil {
			return s.sendJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "unavailable", "reason": err.Error()})
		}
	}
	return s.sendJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *service) now() instant.Time { return instant.Of(s.Clock.Now()) }

func (s *service) sendJSON(w http.ResponseWriter, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "must-revalidate")
	setServerHeaders(h)
	w.WriteHeader(status)
	_, err = w.Write(append(body, '\n'))
	return err
}

func (s *service) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // who only stopped sending still listens, and would take silence for 200
	}
	answer := errorOf(err)
	if answer.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="couchrelay"`)
	}
	_ = s.sendJSON(w, answer.Status, map[string]string{"error": answer.Name, "reason": answer.Reason})
}

// parameter is a query parameter that must be a whole number, not negative.
func parameter(r *http.Request, name string, absent int) (int, error) {
	query := r.URL.Query()
	if !query.Has(name) {
		return absent, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	var reason string
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n < 0:
		reason = name + " not in range of [0,infinity]"
	case err != nil:
		reason = name + " must be an integer"
	default:
		return n, nil
	}
	return 0, &Error{Status: 400, Name: "query_parse_error", Reason: reason}
}

// requireJSON refuses bodies that are not declared as JSON.
func requireJSON(r *http.Request) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); !strings.EqualFold(kind, "application/json") {
		return &Error{Status: 415, Name: "bad_content_type", Reason: "Content-Type must be application/json"}
	}
	return nil
}
