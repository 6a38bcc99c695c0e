package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/sim/decide"
	"couchrelay/sim/peers"
)

// action is a row of the table of all that users do.
type action struct {
	name  string
	where string // what it meets
	most  int    // the most that a swarm draws for its rate
	// One of these two does it. Before edit is called, a source and a document of it are chosen.
	do   func(u *users, site *decide.Site)
	edit func(u *users, db *peers.DB, id string, site *decide.Site)
	what string // a description
}

// Names that other code needs.
const (
	EditDoc       = "doc-edit"
	DeleteDoc     = "doc-delete"
	ConflictDoc   = "doc-conflict"
	ChangeSharing = "sharing-changed"
	CrashingStorm = "job-crashing-storm"
)

// actions is the table. Users choose among them in this order.
var actions = []action{
	{name: EditDoc, where: "a source", most: 200_000, edit: (*users).edit,
		what: "a document is written"},
	{name: DeleteDoc, where: "a source", most: 200_000, edit: (*users).deleteDoc,
		what: "a document is deleted"},
	{name: ConflictDoc, where: "a source", most: 200_000, edit: (*users).conflictDoc,
		what: "a document gets one or two more leaves"},
	{name: "doc-burst", where: "a source", most: 50_000, edit: (*users).burst,
		what: "many documents are written at once"},
	{name: "doc-huge", where: "a source", most: 50_000, edit: (*users).hugeDoc,
		what: "a document of up to 300 kB is written"},
	{name: "doc-deep-conflict", where: "a source", most: 50_000, edit: (*users).deepConflict,
		what: "a document gets up to 50 more leaves"},
	{name: "doc-heavy-conflict", where: "a source", most: 50_000, edit: (*users).heavyConflict,
		what: "a document gets up to nine more leaves, each too large for some servers"},

	{name: "job-add", where: "a frontend", most: 50_000, do: (*users).addJob,
		what: "a replication document is written"},
	{name: "job-duplicate", where: "a frontend", most: 50_000, do: (*users).duplicateJob,
		what: "a document for a replication that there is already"},
	{name: "job-change", where: "a frontend", most: 50_000, do: (*users).changeJob,
		what: "a document gets another target"},
	{name: "job-touch", where: "a frontend", most: 50_000, do: (*users).touchJob,
		what: "a document changes, its replication does not"},
	{name: "job-weigh", where: "a frontend", most: 50_000, do: weighJob,
		what: "a document gets another weight"},
	{name: "job-remove", where: "a frontend", most: 50_000, do: (*users).removeJob,
		what: "a replication document is deleted"},
	{name: "job-storm", where: "a frontend", most: 20_000, do: (*users).storm, // as many as a small world has
		what: "many documents at once, most of them deleted at once"},
	{name: CrashingStorm, where: "a frontend", most: 5_000, do: crashingStorm,
		what: "up to 150 documents at once whose sources do not exist, most of them deleted later"},
	{name: "request", where: "a frontend", most: 50_000, do: (*users).request,
		what: "POST /_replicate"},
	{name: "request-cancel", where: "a frontend", most: 50_000, do: (*users).cancelRequest,
		what: "what POST /_replicate started is canceled"},
	{name: "tenant-recreated", where: "a frontend", most: 50_000, do: (*users).recreateTenant,
		what: "a replicator database is deleted and made again"},

	{name: ChangeSharing, where: "an operator", most: 100_000, do: (*users).share,
		what: "another policy, priority_coeff and shares are put in force"},
}

// allActions is the table with the rows of users who steer jobs, of those who wait, of those who change what databases
// refuse, of those who replicate documents into the service, of those who write validation functions, of those who
// edit options, of those who make mistakes in that, and of those who write documents on two sides.
var allActions = slices.Concat(actions, controlActions, waitActions, refusalActions, replicatedActions,
	validationActions, optionActions, spoilingActions, forkActions, conflictActions)

// AllActions are the names of all that users can do.
var AllActions = namesOf(allActions, func(a action) string { return a.name })

// actionNamed is the row of a name, nil for a name that is not in the table.
func actionNamed(name string) *action {
	if i := slices.Index(AllActions, name); i >= 0 {
		return &allActions[i]
	}
	return nil
}

// act does an action. An unknown name does nothing: recorded decisions of a scenario may have one.
func (u *users) act(what string, site *decide.Site) {
	switch a := actionNamed(what); {
	case a == nil:
	case a.edit != nil:
		u.editSource(a, site)
	default:
		a.do(u, site)
	}
}

// editSource chooses a source and a document, and does an action on them.
func (u *users) editSource(a *action, site *decide.Site) {
	isTarget := func(db *peers.DB) bool { return !isSource(db.Name) }
	sources := slices.DeleteFunc(u.w.net.databases(), isTarget)
	if len(sources) == 0 {
		return
	}
	db := sources[site.Int(len(sources))]
	id := fmt.Sprint("doc", site.Int(2*u.w.Config.Docs+1))
	u.w.Engine.Logf("users", "%s %s in %s", a.name, id, db)
	a.edit(u, db, id, site)
}

func (u *users) deleteDoc(db *peers.DB, id string, _ *decide.Site) {
	if doc := db.Latest(id); doc != nil && !doc.Deleted {
		deleted := docs.Document{ID: id, Rev: doc.Rev, Deleted: true, Body: []byte("{}")}
		db.Write([]docs.Edit{{Document: deleted, Token: uint64(u.next())}})
	}
}

func (u *users) conflictDoc(db *peers.DB, id string, site *decide.Site) {
	u.conflict(db, id, 1+site.Int(2), docs.Document{})
}

func (u *users) burst(db *peers.DB, _ string, site *decide.Site) {
	for i := range 5 + site.Int(20) {
		u.edit(db, fmt.Sprint("burst", i), site)
	}
}

func (u *users) hugeDoc(db *peers.DB, _ string, site *decide.Site) {
	id := fmt.Sprint("huge", u.next())
	body := []byte(`{"text":"` + strings.Repeat("x", 1000*(1+site.Int(300))) + `"}`)
	db.Write([]docs.Edit{{Document: docs.Document{ID: id, Body: body}, Token: uint64(u.next())}})
}

func (u *users) deepConflict(db *peers.DB, id string, site *decide.Site) {
	u.conflict(db, id, 10+site.Int(40), docs.Document{})
}

func (u *users) heavyConflict(db *peers.DB, id string, site *decide.Site) {
	u.conflict(db, id, 2+site.Int(8), docs.Document{
		Body:        []byte(`"text":"` + strings.Repeat("x", 101_000*(1+site.Int(2))) + `",`),
		Attachments: []docs.Attachment{{Name: "a", Type: "text/plain", Content: docs.Inline, Data: []byte("data")}},
	})
}

func (u *users) addJob(site *decide.Site) {
	u.write(u.newJob(u.newBody(site), site), site, false)
}

func (u *users) storm(site *decide.Site) {
	for range 10 + site.Int(20) {
		j := u.newJob(u.newBody(site), site)
		u.write(j, site, false)
		if site.Int(4) > 0 {
			u.write(j, site, true)
		}
	}
}

// crashingStorm writes documents of jobs that do nothing but crash. Those that stay are few, since they go on crashing
// for as long as the world takes to settle.
func crashingStorm(u *users, site *decide.Site) {
	for range 20 + site.Int(130) {
		body := u.newBody(site)
		body["source"] = URL(u.w.net.servers[0].Name, fmt.Sprint("none", u.next()))
		j := u.newJob(body, site)
		u.write(j, site, false)
		if left := u.w.End().Sub(u.w.Engine.Now()); site.Int(8) > 0 {
			u.w.Engine.After(site.Duration(left/20, left*9/10), nil, "storm over", func() { u.write(j, site, true) })
		}
	}
}

// anyJob chooses a replication document, nil when there was none yet.
func (u *users) anyJob(site *decide.Site) *JobDoc {
	if len(u.jobs) == 0 {
		return nil
	}
	return u.jobs[site.Int(len(u.jobs))]
}

func (u *users) duplicateJob(site *decide.Site) {
	if j := u.anyJob(site); j != nil {
		u.write(u.newJob(j.body, site), site, false)
	}
}

func (u *users) changeJob(site *decide.Site) {
	j := u.anyJob(site)
	if j == nil {
		return
	}
	body := maps.Clone(j.body)
	body["target"] = u.pick(site, false)
	if body["target"] == body["source"] {
		return
	}
	j.body = body
	u.write(j, site, false)
}

func weighJob(u *users, site *decide.Site) {
	if j := u.anyJob(site); j != nil {
		j.body = maps.Clone(j.body)
		weigh(j.body, u.weights)
		u.write(j, site, false)
	}
}

func (u *users) touchJob(site *decide.Site) {
	if j := u.anyJob(site); j != nil {
		j.keeps = !j.busy && u.touch.Int(2) == 1
		u.write(j, site, false)
	}
}

func (u *users) removeJob(site *decide.Site) {
	if j := u.anyJob(site); j != nil {
		u.write(j, site, true)
	}
}

func (u *users) recreateTenant(site *decide.Site) {
	u.recreate(u.tenants[site.Int(len(u.tenants))], site)
}
