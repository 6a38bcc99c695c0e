package relay

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"couchrelay/adapters/web"
	"couchrelay/core/kv"
	"couchrelay/core/node"
)

// Host is the process that serves, as far as requests see or change it. Its methods may be called from
// several goroutines at once.
type Host interface {
	// NodeName is the present name of the node.
	NodeName() string
	// Roles are the roles of the node; they never change.
	Roles() node.Roles
	// Settings are the keys of a section of the configuration with their values in force, as files have them; nil
	// for sections that are not told.
	Settings(section string) map[string]string
	// MaintenanceMode is false, true or nolb.
	MaintenanceMode() string
	// SetMaintenanceMode changes it until the configuration is read again. Its error says what is accepted.
	SetMaintenanceMode(string) error
}

// nodeView is a node as GET /_scheduler/nodes shows it.
type nodeView struct {
	Name     string      `json:"name"`
	Version  string      `json:"version"`
	Roles    node.Roles  `json:"roles"`
	Status   node.Status `json:"status"` // lost: it is silent, and its jobs are being given to others
	Running  int         `json:"running"`
	MaxJobs  int         `json:"max_jobs"`
	Started  timestamp   `json:"start_time"`
	LastSeen timestamp   `json:"last_seen"` // by the node's own clock

	// Of a node that is gone: when it was given up, and by which node, by whose clock that is.
	GivenUp   *timestamp `json:"given_up,omitempty"`
	GivenUpBy string     `json:"given_up_by,omitempty"`
}

const lost node.Status = "lost"

// viewOf shows what a node said of itself.
func viewOf(i *node.Info) nodeView {
	return nodeView{
		Name: i.Name, Version: i.Version, Roles: i.Roles, Status: i.Status, Running: i.Running, MaxJobs: i.MaxJobs,
		Started: timestamp(i.Started), LastSeen: timestamp(i.Seen),
	}
}

// nodes reads the registry, in the order of names, with the nodes that were given up a while ago.
func (s *service) nodes(q *web.Request) ([]nodeView, error) {
	var gone []node.Gone
	members, err := web.Run(q, s.DB, glance, func(tx kv.Tx) ([]node.Member, error) {
		list, err := node.Members(tx.Snapshot(), s.Store)
		if err == nil {
			gone, err = node.Departed(tx.Snapshot(), s.Store, list)
		}
		return list, err
	})
	if err != nil {
		return nil, err
	}
	views := make([]nodeView, 0, len(members)+len(gone))
	for _, m := range members {
		v := viewOf(&m.Info)
		if m.Expired {
			v.Status = lost
		}
		views = append(views, v)
	}
	for _, g := range gone {
		v, at := viewOf(&g.Info), timestamp(g.At)
		v.Status, v.GivenUp, v.GivenUpBy = lost, &at, g.By
		views = append(views, v)
	}
	slices.SortStableFunc(views, func(a, b nodeView) int { return cmp.Compare(a.Name, b.Name) })
	return views, nil
}

// listNodes answers GET /_scheduler/nodes.
func (s *service) listNodes(q *web.Request) error {
	views, err := s.nodes(q)
	if err != nil {
		return err
	}
	return q.SendJSON(http.StatusOK, struct {
		Total int        `json:"total_rows"`
		Nodes []nodeView `json:"nodes"`
	}{len(views), views})
}

// membership answers GET /_membership as CouchDB does: all_nodes are the nodes that are alive,
// cluster_nodes all that are still registered.
func (s *service) membership(q *web.Request) error {
	views, err := s.nodes(q)
	if err != nil {
		return err
	}
	answer := struct {
		All     []string `json:"all_nodes"`
		Cluster []string `json:"cluster_nodes"`
	}{[]string{}, []string{}}
	for _, v := range views {
		if v.GivenUp != nil {
			continue
		}
		answer.Cluster = append(answer.Cluster, v.Name)
		if v.Status != lost {
			answer.All = append(answer.All, v.Name)
		}
	}
	return q.SendJSON(http.StatusOK, answer)
}

// maintenancePath is the one setting that requests can change.
const maintenancePath = "_config/couchdb/maintenance_mode"

// nodeName returns the name of the node that the path names; _local is this one.
func (s *service) nodeName(q *web.Request) string {
	if name := q.Param("node"); name != "_local" {
		return name
	}
	return s.Host.NodeName()
}

// noSetting answers requests for all other settings.
func noSetting(*web.Request) error {
	return web.NotImplemented("of a node's configuration only _config/replicator, _config/replicator.shares and " +
		maintenancePath + " can be asked for, and only the last can be set; change the file, and send SIGHUP")
}

// settings answers with a section of the configuration.
func (s *service) settings(q *web.Request) error {
	if err := s.local(q); err != nil {
		return err
	}
	section := s.Host.Settings(q.Param("section"))
	if section == nil {
		return noSetting(q)
	}
	return q.SendJSON(http.StatusOK, section)
}

// oneNode answers GET /_node/NAME.
func (s *service) oneNode(q *web.Request) error {
	views, err := s.nodes(q)
	if err != nil {
		return err
	}
	name := s.nodeName(q)
	for _, v := range views {
		if v.Name == name {
			return q.SendJSON(http.StatusOK, v)
		}
	}
	return web.NotFound("no such node; see /_membership")
}

// local refuses requests for the setting of another node.
func (s *service) local(q *web.Request) error {
	if name := s.nodeName(q); name != s.Host.NodeName() {
		return web.NotFound("ask node " + name + " itself, as _local")
	}
	return nil
}

// maintenance answers with the setting as a JSON string.
func (s *service) maintenance(q *web.Request) error {
	if err := s.local(q); err != nil {
		return err
	}
	return q.SendJSON(http.StatusOK, s.Host.MaintenanceMode())
}

// setMaintenance takes the new value as a JSON string, and answers with the old one.
func (s *service) setMaintenance(q *web.Request) error {
	if err := s.local(q); err != nil {
		return err
	}
	const bound = 100
	var mode string
	if err := json.NewDecoder(http.MaxBytesReader(q.W, q.Body, bound)).Decode(&mode); err != nil {
		return web.BadRequest(`the body must be a JSON string, such as "true"`)
	}
	old := s.Host.MaintenanceMode()
	if err := s.Host.SetMaintenanceMode(mode); err != nil {
		return web.BadRequest("%s", err)
	}
	return q.SendJSON(http.StatusOK, old)
}
