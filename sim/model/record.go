package model

import (
	"cmp"
	"fmt"
	"strings"

	"couchrelay/core/json"
	"couchrelay/core/node"
)

// record is what the model knows of a job's data.
type record struct {
	identity
	user        string
	state       string
	err         string
	repID       string
	weight      int64 // 0 for the default
	paused      bool  // by a user, or by the document
	node        string
	lastStart   int64
	lastUpdated int64
	expires     int64
}

// identity is what a job is from its beginning to its end.
type identity struct {
	Database string `json:"database"` // empty for a job of a request
	Instance string `json:"instance"`
	DocID    string `json:"doc_id"`
	Source   string `json:"source"`
	Target   string `json:"target"`
	Created  int64  `json:"created"`
}

// States of records.
const (
	statePending   = "pending"
	stateRunning   = "running"
	stateCrashing  = "crashing"
	stateCompleted = "completed"
	stateFailed    = "failed"
)

func (r *record) decode(data string) error {
	var stored struct {
		identity
		User             string    `json:"user"`
		State            string    `json:"state"`
		Error            string    `json:"error"`
		RepID            string    `json:"rep_id"`
		Weight           int64     `json:"weight"`
		Pause            *struct{} `json:"pause"`
		PausedByDocument bool      `json:"paused_by_document"`
		Node             string    `json:"node"`
		LastStart        int64     `json:"last_start"`
		LastUpdated      int64     `json:"last_updated"`
		Expires          int64     `json:"expires"`
	}
	err := json.DecodeRecord([]byte(data), &stored)
	*r = record{
		identity: stored.identity, user: stored.User, state: stored.State, err: stored.Error, repID: stored.RepID,
		weight: stored.Weight, paused: stored.Pause != nil || stored.PausedByDocument, node: stored.Node,
		lastStart: stored.LastStart, lastUpdated: stored.LastUpdated, expires: stored.Expires,
	}
	return err
}

func (r *record) ofRequest() bool { return r.Database == "" }

// account is whose shares the job uses.
func (r *record) account() string {
	if r.ofRequest() {
		return "user:" + r.user
	}
	return r.Database
}

// excess is by how much the weight exceeds the default.
func (r *record) excess() int64 {
	const usual = 100
	return cmp.Or(r.weight, usual) - usual
}

// judgeRecord says what is wrong with the record of a job that a commit has changed.
func (c *Commit) judgeRecord(ch *change) error {
	was, r, last := &ch.was.record, &ch.found.record, ch.path.last()
	made := last == adds || last == addsOver
	held, holds := c.Request.(node.HeldRequest)
	own := holds && held.HeldJob().JobID == ch.id
	switch want := c.stateAfter(ch, last); {
	case ch.found.state == absent:
		return nil
	case r.state != want:
		return fmt.Errorf("its record is %s, and should be %s", r.state, want)
	case !made && r.identity != was.listed(r, last == rewrites):
		return fmt.Errorf("it was %+v and is %+v", was.identity, r.identity)
	case !made && r.repID != was.repID && !own && (last != rewrites || r.repID != ""):
		return fmt.Errorf("it was replication %q and is %q", was.repID, r.repID)
	case !made && c.Request != nil && (r.weight != was.weight || r.paused != was.paused || r.user != was.user):
		return fmt.Errorf("what users said of it was %+v and is %+v", *was, *r)
	}
	return cmp.Or(c.judgeTimes(ch), c.judgeLot(ch))
}

// listed is the identity that the record after a transition has. An edit of a document that is over says anew what its
// job is listed by.
func (i identity) listed(r *record, anew bool) identity {
	if anew {
		i.Source, i.Target = r.Source, r.Target
	}
	return i
}

// stateAfter is the state of a record after a transition. That of a job whose worker vanished is put right by the
// next one that writes it.
func (c *Commit) stateAfter(ch *change, last transition) string {
	_, accepted := c.Request.(node.Accept)
	_, completed := c.Request.(node.Complete)
	was := ch.was.record.state
	switch {
	case last == adds, last == queues:
		return statePending
	case last == backsOff:
		return stateCrashing
	case last == addsOver && ch.found.record.state == stateCompleted, last == finishes && completed:
		return stateCompleted
	case last == addsOver, last == finishes:
		return stateFailed
	case last == updates && accepted:
		return stateRunning
	case ch.found.state == pending && was == stateRunning && ch.data != nil:
		return statePending
	}
	return was
}

// judgeTimes judges what a record says of the node and of times.
func (c *Commit) judgeTimes(ch *change) error {
	r, last := &ch.found.record, ch.path.last()
	accept, accepted := c.Request.(node.Accept)
	ends := last == queues || last == backsOff || last == finishes
	if accepted && last == updates && (r.node != accept.Node || r.lastStart != int64(c.Wall)) {
		return fmt.Errorf("it runs on %q since %d", r.node, r.lastStart)
	}
	if ends && (r.node != "" || r.lastUpdated != int64(c.Wall)) {
		return fmt.Errorf("it names node %q, and tells of a change at %d", r.node, r.lastUpdated)
	}
	if (r.expires != 0) != (ch.found.state == finished && r.ofRequest()) {
		return fmt.Errorf("it is forgotten at %d", r.expires)
	}
	if last == backsOff && (ch.found.label != crashLabel(ch) || ch.found.due <= int64(c.Wall)) {
		return fmt.Errorf("it crashed with %q", r.err)
	}
	if ch.found.state != finished && ch.found.spec == "" {
		return fmt.Errorf("it has no replication")
	}
	return nil
}

// judgeLot judges where a job stands that is not to run. Holds and pauses are looked at again when its turn comes.
func (c *Commit) judgeLot(ch *change) error {
	r, lot, last := &ch.found.record, ch.found.lot, ch.path.last()
	put := last == adds || last == queues || last == backsOff || last == parks
	switch {
	case lot == "paused" && !r.paused, put && r.paused && lot != "paused":
		return fmt.Errorf("it is paused: %v", r.paused)
	case strings.HasPrefix(lot, lotBehind) && lot != lotBehind+r.repID:
		return fmt.Errorf("it is replication %q", r.repID)
	case put && strings.HasPrefix(lot, "held/"):
		return fmt.Errorf("it is under a hold before its turn")
	}
	return nil
}
