package lab

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/workload"
)

// Queue answers the requests of nodes, and has the jobs of users. Everything takes effect at once and in the
// order of the calls.
type Queue interface {
	// Perform answers a request. Its errors are those that node.OutcomeOf knows.
	Perform(q node.Request, now instant.Time) (node.Result, error)
	// Submit makes a job of the workload, Remove removes it in whatever state it is.
	Submit(job int, now instant.Time) error
	Remove(job int, now instant.Time) error
	// Share sets the shares of an account of the workload.
	Share(account int, shares int64, now instant.Time) error
	// Signal and Calls are the counters that nodes await; see node.Arm.
	Signal(p jobs.Part) (int64, error)
	Calls(worker string) (int64, error)
	// Due is when a job that waits after a crash may run again, 0 if it does not wait.
	Due(job int) instant.Time
	// Number is the place of a job in the workload, by the id that nodes know it by.
	Number(id string) int
}

// instance is that of the replicator database of an account, with which the ids of its jobs begin.
func instance(account int) (id [16]byte) {
	id[0], id[1], id[2], id[3] = 7, byte(account>>16), byte(account>>8), byte(account)
	return id
}

// jobID is the id of a document's job, as jobstore makes it. Production makes other ids for the jobs of users, of
// their requests: so such jobs that came at one moment may go in another order there, and to other nodes.
func jobID(w *workload.Workload, n int) string {
	i := instance(w.Jobs[n].Account)
	return hex.EncodeToString(i[:]) + "|" + w.Jobs[n].ID
}

// NewModel returns a model of the queue without jobs; Submit makes them.
func NewModel(c Config) *Model {
	w := c.Workload
	m := &Model{
		backoff: c.Settings.Replicator.Backoff, jobs: make([]modelJob, len(w.Jobs)), ids: make([]string, len(w.Jobs)),
		numbers: make(map[string]int32, len(w.Jobs)), accounts: newAccounts(c.Settings.Replicator.Sharing),
	}
	for i, a := range w.Accounts {
		m.accounts.byName[a.Name] = i
		m.accounts.list = append(m.accounts.list, account{name: a.Name, shares: c.sharesOf(i)})
		rec := &jobstore.Record{Database: a.Name}
		if !jobstore.IsReplicatorDB(a.Name) {
			rec = &jobstore.Record{User: a.Name[len(userAccount):]}
		}
		m.records = append(m.records, rec)
	}
	at := make([]int32, len(w.Jobs))
	for i := range w.Jobs {
		m.ids[i] = jobID(w, i)
		m.numbers[m.ids[i]] = int32(i)
		m.jobs[i].account, m.jobs[i].one = int32(w.Jobs[i].Account), !w.Jobs[i].Continuous
		m.jobs[i].weight = int16(cmp.Or(w.Jobs[i].Weight, schedule.DefaultWeight))
		m.jobs[i].bucket = uint8(jobs.Bucket(m.ids[i]))
		at[i] = -1
	}
	byID := func(a, b int32) int { return cmp.Compare(m.ids[a], m.ids[b]) }
	m.waiting = index{at: at, rank: ranks(len(w.Jobs), byID)}
	m.ready = index{at: at, rank: ranks(len(w.Jobs), func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.Jobs[a].Submit, w.Jobs[b].Submit), byID(a, b))
	})}
	return m
}

// ranks are the places of n jobs in an order.
func ranks(n int, compare func(a, b int32) int) []int32 {
	order, rank := make([]int32, n), make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, compare)
	for r, job := range order {
		rank[job] = int32(r)
	}
	return rank
}

// userAccount begins the names of accounts that are no databases.
const userAccount = "user:"

// Number is Queue's.
func (m *Model) Number(id string) int { return int(m.numbers[id]) }

// Due is Queue's.
func (m *Model) Due(job int) instant.Time {
	if !m.isWaiting(int32(job)) {
		return 0
	}
	return instant.Time(m.waiting.heap[m.waiting.at[job]].place.Key)
}

// sharesOf are the shares of an account at the beginning.
func (c *Config) sharesOf(account int) int64 {
	a := c.Workload.Accounts[account]
	if s, set := c.Settings.Replicator.Sharing.Shares[a.Name]; set {
		return s
	}
	return a.Shares
}

// Check returns an error that names the field with which no run is possible.
func (c *Config) Check() error {
	switch {
	case c.Workload == nil:
		return fmt.Errorf("no workload")
	case c.Nodes < 1 || c.Nodes > maxNodes:
		return fmt.Errorf("nodes = %d: must be from 1 to %d", c.Nodes, maxNodes)
	case c.Duration <= 0:
		return fmt.Errorf("duration = %s: must be above 0", c.Duration)
	case c.Latency < 0 || c.Checkpoint <= 0 || c.StopTime < 0:
		return fmt.Errorf("latency = %s and stop time = %s must not be negative, checkpoint = %s must be above 0",
			c.Latency, c.StopTime, c.Checkpoint)
	}
	for _, f := range c.Failures {
		if f.Node < 0 || f.Node >= c.Nodes || f.At < 0 || f.For < 0 {
			return fmt.Errorf("failure of node %d at %s for %s: nodes are 0 to %d, times are not negative",
				f.Node, f.At, f.For, c.Nodes-1)
		}
	}
	for _, a := range c.Workload.Accounts {
		if !jobstore.IsAccount(a.Name) {
			return fmt.Errorf("account %q: must be a replicator database (_replicator, or a name that ends in "+
				"/_replicator), or %sNAME", a.Name, userAccount)
		}
	}
	return nil
}

const maxNodes = 1000
