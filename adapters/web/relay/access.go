package relay

import (
	"errors"
	"net/http"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/users"
)

// right is who may use a route.
type right int

const (
	toAdmins     right = iota // of the server
	toAdminsOfDB              // of the database in the path, and those of the server
	toListers                 // members; of _replicator and _users, as in CouchDB, only admins of the server
	toMembers                 // of the database in the path, and its admins
	toMonitors                // admins of the server, and users with the role _metrics
	toUsers                   // with a login
	toAll
)

// rule is a row of the table of rights.
type rule struct {
	methods string // with spaces between, or *
	path    string // of routes; one that ends with a slash stands for all below
	right   right
	traits  trait
}

// trait is what else is known of a route.
type trait int

const (
	everywhere trait = 1 << iota // nodes without the role api_frontend answer, too
	reads                        // nothing changes, whatever the method
)

// rules says who may use which route, and which of those that are not read with GET change nothing all the same: all
// others leave a line in the audit log. The first row that fits a route counts, and routes without one are for admins.
// Routes with jobs show users the jobs that they may see; see sight.
var rules = []rule{
	{"GET", "/", toAll, everywhere},
	{"GET", "/_up", toAll, everywhere},
	{"*", "/_session", toAll, 0},
	{"GET", "/_uuids", toAll, 0},
	{"GET", "/_utils/", toAll, 0},
	{"GET", "/_dashboard/", toAll, 0},
	{"*", "/_dbs_info", toAdmins, reads},

	{"GET", "/_node/{node}/_stats", toMonitors, everywhere},
	{"GET", "/_node/{node}/_stats/", toMonitors, everywhere},
	{"GET", "/_node/{node}/_system", toMonitors, everywhere},
	{"GET", "/_node/{node}/_prometheus", toMonitors, everywhere},
	{"*", "/_node/", toAdmins, everywhere},
	{"GET", "/_membership", toAdmins, everywhere},
	{"GET", "/_scheduler/nodes", toAdmins, everywhere},
	{"GET", "/_scheduler/follow", toAdmins, everywhere},
	{"GET", "/_scheduler/accounts", toAdmins, 0},
	{"GET", "/_scheduler/servers", toAdmins, 0},
	{"GET", "/_scheduler/errors", toAdmins, 0},
	{"*", "/_scheduler/holds", toAdmins, 0},
	{"*", "/_scheduler/holds/", toAdmins, 0},
	{"*", "/_scheduler/", toUsers, 0},
	{"GET", "/_active_tasks", toUsers, 0},
	{"POST", "/_replicate", toUsers, 0},

	{"PUT DELETE", "/{db}", toAdmins, 0},
	{"*", "/{db}", toMembers, 0},
	{"*", "/{db}/_all_docs", toListers, reads},
	{"*", "/{db}/_all_docs/queries", toListers, reads},
	{"*", "/{db}/_design_docs", toListers, reads},
	{"*", "/{db}/_design_docs/queries", toListers, reads},
	{"*", "/{db}/_local_docs", toListers, reads},
	{"*", "/{db}/_local_docs/queries", toListers, reads},
	{"*", "/{db}/_changes", toListers, reads},
	{"*", "/{db}/_find", toListers, reads},
	{"*", "/{db}/_explain", toListers, reads},
	{"*", "/{db}/_index", toListers, 0},
	{"*", "/{db}/_index/", toListers, 0},
	{"POST", "/{db}/_bulk_get", toMembers, reads},
	{"POST", "/{db}/_revs_diff", toMembers, reads},
	{"POST", "/{db}/_missing_revs", toMembers, reads},
	{"POST", "/{db}/_ensure_full_commit", toMembers, reads},
	{"POST", "/{db}/_compact", toAdminsOfDB, reads}, // which has nothing to do here
	{"POST", "/{db}/_compact/{rest...}", toAdminsOfDB, reads},
	{"POST", "/{db}/_view_cleanup", toAdminsOfDB, reads},
	{"POST", "/{db}/_purge", toAdmins, 0},
	{"PUT", "/{db}/_security", toAdminsOfDB, 0},
	{"PUT", "/{db}/_revs_limit", toAdminsOfDB, 0},
	{"*", "/{db}/", toMembers, 0},
}

// ruleOf returns the rule of a route.
func ruleOf(method, path string) rule {
	for _, r := range rules {
		below := len(r.path) > 1 && strings.HasSuffix(r.path, "/") && strings.HasPrefix(path, r.path)
		methods := strings.Fields(r.methods)
		for _, m := range methods {
			if (m == "*" || m == method) && (path == r.path || below) {
				return r
			}
		}
	}
	return rule{methods: method, path: path, right: toAdmins}
}

// metricsRole is CouchDB's role of users that may read metrics and nothing else.
const metricsRole = "_metrics"

// gate is the part of the service that keeps users from what is not theirs.
type gate struct{ *service }

// guarded puts the rule of a route before it. What the route itself says of its path comes first: a path that means
// nothing is nothing to ask a password for.
func (s gate) guarded(route web.Route) web.Route {
	r, first := ruleOf(route.Method, route.Path), route.Access
	route.Reads = r.traits&reads != 0
	route.Access = func(q *web.Request) error {
		if r.traits&everywhere == 0 && !s.Host.Roles().Has(node.APIFrontend) {
			return &web.Error{Status: http.StatusMisdirectedRequest, Name: "not_a_frontend",
				Reason: "this node has not the role api_frontend; send the request to one that has, " +
					"see /_scheduler/nodes"}
		}
		if first != nil {
			if err := first(q); err != nil {
				return err
			}
		}
		return s.admit(q, r.right)
	}
	return route
}

// admit refuses users that do not have a right. Answers are CouchDB's.
func (s gate) admit(q *web.Request, needed right) error {
	q.Admin = q.User.Admin()
	switch needed {
	case toAll:
		return nil
	case toUsers:
		if q.Admin || q.User.Name != "" {
			return nil
		}
		return web.Unauthorized("You are not an authenticated user.")
	case toMonitors:
		if q.Admin || q.User.Has(metricsRole) {
			return nil
		}
		return web.Unauthorized("You are not a server admin or read-only metrics user")
	case toAdmins:
		if !q.Admin {
			return web.Unauthorized("You are not a server admin.")
		}
		if q.Param("db") == "" {
			return nil
		}
		return s.hosted(q)
	}
	return s.admitToDatabase(q, needed)
}

// admitToDatabase asks the security object of the database in the path.
func (s gate) admitToDatabase(q *web.Request, needed right) error {
	database := q.Param("db")
	system := database == "_replicator" || database == users.Database
	switch {
	case q.Admin:
		return s.hosted(q)
	case needed == toListers && system:
		return web.Unauthorized("You are not a server admin.")
	}
	security, err := web.Run(q, s.DB, kv.Options{Stale: true, Tag: "security"}, func(tx kv.Tx) (docs.Security, error) {
		db, err := s.Store.Docs.Open(tx, database)
		if err != nil {
			return docs.Security{}, err
		}
		text, err := db.Security()
		if err != nil {
			return docs.Security{}, err
		}
		return docs.ParseSecurity(text)
	})
	missing := errors.Is(err, docs.ErrNoDatabase)
	if err != nil && (!missing || q.User.Name != "") {
		return err
	}
	q.Admin = !missing && security.Administers(q.User.Name, q.User.Roles)
	switch {
	case missing || q.User.Name == "" && !security.Admits("", nil):
		return web.Unauthorized("You are not authorized to access this db.") // also where there is none
	case !security.Admits(q.User.Name, q.User.Roles):
		return web.Forbidden("You are not allowed to access this db.")
	case needed == toAdminsOfDB && !q.Admin && q.User.Name == "":
		return web.Unauthorized("You are not a db or server admin.")
	case needed == toAdminsOfDB && !q.Admin:
		return web.Forbidden("You are not a db or server admin.")
	}
	return nil
}

// hosted refuses databases that are none of this service's kinds: replicator databases, in which every write makes or
// changes a job, and that of users.
func (s gate) hosted(q *web.Request) error {
	database := q.Param("db")
	switch {
	case jobstore.IsReplicatorDB(database), database == users.Database:
		return nil
	case q.Method == http.MethodPut:
		reason := "couchrelay hosts replicator databases only: _replicator and names that end in /_replicator; and " +
			"_users"
		if strings.Contains(q.URL.Path, "/_replicator") {
			reason += "; a slash in the name of a database is %2F in the path"
		}
		return web.Forbidden(reason)
	}
	return docs.ErrNoDatabase
}
