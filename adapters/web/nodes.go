package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
)

// Host is the process that serves, as far as requests see or change it. Its methods are called from many
// goroutines.
type Host interface {
	// NodeName is what the node is called at present.
	NodeName() string
	// Roles are the node's, for good.
	Roles() node.Roles
	// MaintenanceMode is false, true or nolb.
	MaintenanceMode() string
	// SetMaintenanceMode changes it until the configuration is read again. Its error says what is accepted.
	SetMaintenanceMode(string) error
}

// forOperators are the first segments of paths that a node without the role api_frontend serves too.
var forOperators = []string{"", "_up", "_node", "_membership"}

// checkRole refuses, on a node that is no frontend, what clients of a frontend ask for.
func (s *service) checkRole(path []string) error {
	if s.Host.Roles().Has(node.APIFrontend) || slices.Contains(forOperators, path[0]) || strings.Join(path, "/") == "_scheduler/nodes" {
		return nil
	}
	return &Error{Status: http.StatusMisdirectedRequest, Name: "not_a_frontend",
		Reason: "this node has not the role api_frontend; send the request to one that has, see /_scheduler/nodes"}
}

// maintained answers /_up on a node that load balancers shall leave out.
func (s *service) maintained(w http.ResponseWriter) (is bool, err error) {
	switch s.Host.MaintenanceMode() {
	case "true":
		return true, s.sendJSON(w, http.StatusNotFound, map[string]string{"status": "maintenance_mode"})
	case "nolb":
		return true, s.sendJSON(w, http.StatusNotFound, map[string]string{"status": "nolb"})
	}
	return false, nil
}

// nodeView is a node as GET /_scheduler/nodes shows it.
type nodeView struct {
	Name     string      `json:"name"`
	Version  string      `json:"version"`
	Roles    node.Roles  `json:"roles"`
	Status   node.Status `json:"status"` // lost: it is silent, and its jobs are being given to others
	Running  int         `json:"running"`
	MaxJobs  int         `json:"max_jobs"`
	Started  string      `json:"start_time"`
	LastSeen string      `json:"last_seen"` // by the node's own clock
}

const lost node.Status = "lost"

// nodes reads the registry, in the order of names.
func (s *service) nodes(r *http.Request) ([]nodeView, error) {
	members, err := kv.RunWith(r.Context(), s.DB, glance, func(tx kv.Tx) ([]node.Member, error) { return node.Members(tx.Snapshot(), s.Store) })
	if err != nil {
		return nil, err
	}
	views := make([]nodeView, len(members))
	for i, m := range members {
		views[i] = nodeView{
			Name: m.Info.Name, Version: m.Info.Version, Roles: m.Info.Roles, Status: m.Info.Status, Running: m.Info.Running,
			MaxJobs: m.Info.MaxJobs, Started: m.Info.Started.ISO8601(), LastSeen: m.Info.Seen.ISO8601(),
		}
		if m.Expired {
			views[i].Status = lost
		}
	}
	slices.SortStableFunc(views, func(a, b nodeView) int { return cmp.Compare(a.Name, b.Name) })
	return views, nil
}

// listNodes answers GET /_scheduler/nodes.
func (s *service) listNodes(w http.ResponseWriter, r *http.Request) error {
	views, err := s.nodes(r)
	if err != nil {
		return err
	}
	return s.sendJSON(w, http.StatusOK, struct {
		Total int        `json:"total_rows"`
		Nodes []nodeView `json:"nodes"`
	}{len(views), views})
}

// membership answers GET /_membership as CouchDB does: all_nodes are those that are alive, cluster_nodes those that
// are still registered.
func (s *service) membership(w http.ResponseWriter, r *http.Request, _ jobstore.Writer) error {
	views, err := s.nodes(r)
	if err != nil {
		return err
	}
	answer := struct {
		All     []string `json:"all_nodes"`
		Cluster []string `json:"cluster_nodes"`
	}{[]string{}, []string{}}
	for _, v := range views {
		answer.Cluster = append(answer.Cluster, v.Name)
		if v.Status != lost {
			answer.All = append(answer.All, v.Name)
		}
	}
	return s.sendJSON(w, http.StatusOK, answer)
}

// maintenancePath is the one setting that requests can read and change.
const maintenancePath = "_config/couchdb/maintenance_mode"

// node answers GET /_node/NAME, where _local is this one, and requests for its setting maintenance_mode.
func (s *service) node(w http.ResponseWriter, r *http.Request, path []string) error {
	if len(path) == 0 {
		return ErrMissing
	}
	name, rest := path[0], strings.Join(path[1:], "/")
	if name == "_local" {
		name = s.Host.NodeName()
	}
	switch {
	case rest == "":
		return s.only(w, r, http.MethodGet, func(w http.ResponseWriter, r *http.Request, _ jobstore.Writer) error {
			return s.oneNode(w, r, name)
		})
	case rest == maintenancePath && name != s.Host.NodeName():
		return &Error{Status: http.StatusNotFound, Name: "not_found", Reason: "ask node " + name + " itself, as _local"}
	case rest == maintenancePath && r.Method == http.MethodPut:
		return s.only(w, r, http.MethodPut, s.setMaintenance)
	case rest == maintenancePath:
		return s.only(w, r, http.MethodGet, func(w http.ResponseWriter, r *http.Request, _ jobstore.Writer) error {
			return s.sendJSON(w, http.StatusOK, s.Host.MaintenanceMode())
		})
	}
	return &Error{Status: http.StatusNotImplemented, Name: "not_implemented",
		Reason: "of a node's configuration only " + maintenancePath + " can be asked for; change the file, and send SIGHUP"}
}

func (s *service) oneNode(w http.ResponseWriter, r *http.Request, name string) error {
	views, err := s.nodes(r)
	if err != nil {
		return err
	}
	for _, v := range views {
		if v.Name == name {
			return s.sendJSON(w, http.StatusOK, v)
		}
	}
	return &Error{Status: http.StatusNotFound, Name: "not_found", Reason: "no such node; see /_membership"}
}

// setMaintenance takes the new value as a JSON string, and answers with the old one.
func (s *service) setMaintenance(w http.ResponseWriter, r *http.Request, _ jobstore.Writer) error {
	const bound = 100
	var mode string
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bound)).Decode(&mode); err != nil {
		return BadRequest(`the body must be a JSON string, such as "true"`)
	}
	old := s.Host.MaintenanceMode()
	if err := s.Host.SetMaintenanceMode(mode); err != nil {
		return BadRequest("%s", err)
	}
	return s.sendJSON(w, http.StatusOK, old)
}
