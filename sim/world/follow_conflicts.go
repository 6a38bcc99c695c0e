package world

import (
	"bytes"
	"encoding/json"
	"fmt"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/jobstore"
	"couchrelay/core/prng"
	"couchrelay/sim/decide"
	"couchrelay/sim/peers"
)

// conflictActions are those of users who write documents of followed databases on two sides of a network, as two
// replicators do. A swarm draws them by themselves.
var conflictActions = []action{
	{name: conflictAction, where: "a followed database", most: 300_000, do: forkFollowed,
		what: "a followed document gets a leaf that wins or loses, or one of its leaves is edited or deleted"},
}

const conflictAction = "followed-conflict"

// drawConflicts has every second world that follows databases be one whose documents have conflicts.
func (c *Config) drawConflicts(seed uint64) {
	if r := prng.Fork(seed, "conflicts"); c.Followed > 0 && r.Intn(2) == 0 {
		for _, a := range conflictActions {
			c.Actions[a.name] = 1 + r.Intn(a.most)
		}
	}
}

// conflicts reports whether documents of followed databases have conflicts.
func (c *Config) conflicts() bool { return c.Actions[conflictAction] > 0 }

func forkFollowed(u *users, _ *decide.Site) {
	f := u.w.follows
	if len(f.list) == 0 {
		return
	}
	one := f.list[f.forks.Int(len(f.list))]
	if one.DB() != nil {
		f.fork(one, fmt.Sprint("f", 1+f.forks.Int(5)))
	}
}

// fork has a document get another leaf, or a leaf be edited or deleted.
func (f *followings) fork(one *Following, id string) {
	leaves := leavesOf(one, id)
	if len(leaves) == 0 || leaves[0].Deleted {
		f.put(one, id, f.newBody(id), false)
		return
	}
	winner := leaves[0]
	other := leaves[f.forks.Int(len(leaves))]
	switch what := f.forks.Int(10); {
	case what < 5:
		f.graft(one, winner, f.newBody(id), f.forks.Int(4)-1)
	case what < 7: // by another replicator, which has run it as well
		state := []string{"completed", "failed"}[f.forks.Int(2)]
		f.runElsewhere(one, winner, state, f.forks.Int(3))
	case what == 7: // deleted on the other side
		f.graft(one, winner, &FollowedDoc{}, f.forks.Int(2))
	case what == 8:
		f.replace(one, other, &FollowedDoc{})
	default:
		f.replace(one, other, f.newBody(id))
	}
}

// graft writes a revision of the other side beside the winner.
func (f *followings) graft(one *Following, winner *docs.Document, d *FollowedDoc, deeper int) {
	f.n++
	e := beside(winner, deeper, f.forks, f.n)
	if e.Body = d.Body; e.Body == nil {
		e.Deleted, e.Body = true, fmt.Appendf(nil, `{"n":%d}`, f.n)
	}
	f.write(one, d, e)
}

// replace writes a revision in place of a leaf, which may be one that loses.
func (f *followings) replace(one *Following, leaf *docs.Document, d *FollowedDoc) {
	e := docs.Edit{Document: docs.Document{ID: leaf.ID, Rev: leaf.Rev, Body: d.Body, Deleted: d.Body == nil}}
	if leaf.Deleted {
		return
	}
	if e.Deleted {
		f.n++
		e.Body = fmt.Appendf(nil, `{"n":%d}`, f.n)
	}
	f.write(one, d, e)
}

// runElsewhere writes the document as another replicator leaves it that has run it as well. That one may accept what
// this service does not.
func (f *followings) runElsewhere(one *Following, winner *docs.Document, state string, deeper int) {
	d := *one.Doc(winner.ID)
	d.State = state
	var body map[string]any
	_ = json.Unmarshal(d.Body, &body) // it is an object
	body["_replication_state"], body["_replication_state_time"] = d.State, "2020-01-01T00:00:00Z"
	if d.State == "failed" {
		body["_replication_state_reason"] = "elsewhere"
	}
	f.n++
	e := beside(winner, deeper, f.forks, f.n)
	e.Body, _ = json.Marshal(body)
	f.write(one, &d, e)
}

// leavesOf are the leaves of a document, the winner first.
func leavesOf(one *Following, id string) []*docs.Document {
	leaves := peers.Leaves(one.DB(), id)
	byRank(leaves)
	return leaves
}

// Doc is a document as it must be: as its user wrote it last, or, where it has conflicts, as the user left it who wrote
// the winner. Replicators may have written their states over that.
func (f *Following) Doc(id string) *FollowedDoc {
	d := f.Docs[id]
	if d == nil || !f.Forked[id] || f.DB() == nil {
		return d
	}
	is := FollowedDoc{Written: d.Written, At: d.At}
	leaves := leavesOf(f, id)
	if len(leaves) == 0 {
		return &is
	}
	rev := leaves[0].Rev
	for i := 0; ; i++ {
		if wrote := f.wrote[firstWrite{id, rev}]; wrote != nil {
			is = *wrote
			is.Written = d.Written
			return &is
		}
		if i == len(leaves[0].Ancestors) {
			return &is
		}
		rev = revtree.Rev{Gen: rev.Gen - 1, ID: leaves[0].Ancestors[i]}
	}
}

// CompletedElsewhere reports whether another replicator has completed what a document asks for now: in the winner or in
// a leaf beside it, which may be gone.
func (f *Following) CompletedElsewhere(id string) bool {
	is := f.Doc(id)
	for at, wrote := range f.wrote {
		if at.id == id && wrote.State == string(jobstore.Completed) && bytes.Equal(wrote.Body, is.Body) {
			return true
		}
	}
	return false
}
