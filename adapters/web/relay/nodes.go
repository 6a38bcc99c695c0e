package relay

import (
	"cmp"
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
	// MaintenanceMode is false, true or nolb.
	MaintenanceMode() string
	configuration
}

// nodeView is a node as GET /_scheduler/nodes shows it.
type nodeView struct {
	Name     string      `json:"name"`
	Version  string      `json:"version"`
	Roles    node.Roles  `json:"roles"`
	Status   node.Status `json:"status"`  // lost: it is silent, and its jobs are being given to others
	Running  int         `json:"running"` // 0 of a lost node
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

// lose shows a node as lost. What it said of its jobs is not true any more: they are being given to others.
func (v *nodeView) lose() { v.Status, v.Running = lost, 0 }

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
			v.lose()
		}
		views = append(views, v)
	}
	for _, g := range gone {
		v, at := viewOf(&g.Info), timestamp(g.At)
		v.GivenUp, v.GivenUpBy = &at, g.By
		v.lose()
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
		By    string     `json:"answered_by"`
	}{len(views), views, s.Host.NodeName()})
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

// nodeName returns the name of the node that the path names; _local is this one.
func (s *service) nodeName(q *web.Request) string {
	if name := q.Param("node"); name != "_local" {
		return name
	}
	return s.Host.NodeName()
}

// noPart answers requests for all that CouchDB's nodes tell and these do not.
func noPart(*web.Request) error {
	return web.NotImplemented("of a node there are its state (/_node/NAME), _config, _stats, _system, _prometheus, " +
		"_rekey, _check and _backup; see also /_scheduler/nodes")
}

// clusterSetup answers GET /_cluster_setup, which Fauxton asks: there is nothing to set up.
func (s *service) clusterSetup(q *web.Request) error {
	views, err := s.nodes(q)
	if err != nil {
		return err
	}
	state := "single_node_enabled"
	if len(views) > 1 {
		state = "cluster_finished"
	}
	return q.SendJSON(http.StatusOK, map[string]string{"state": state})
}

// noSetup answers requests that set up a cluster.
func noSetup(*web.Request) error {
	return web.NotImplemented("nodes that share a store are a cluster, and need no setup")
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
