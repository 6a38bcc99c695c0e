package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"couchrelay/adapters/terminal"
	"couchrelay/core/explain"
	"couchrelay/core/jobstore"
	"couchrelay/core/spec"
)

// importCommand takes the replications of a CouchDB over.
type importCommand struct{ move }

// exportCommand gives them back.
type exportCommand struct{ move }

// Help is kong's.
func (importCommand) Help() string {
	return "Copies the replicator databases of a CouchDB with their revisions, their _security, shares and " +
		"settings of the scheduler. The jobs wait behind holds until --take-over stops the CouchDB's own " +
		"replicator (its max_jobs becomes 0) and lifts them; each goes on from its checkpoint then. Jobs of requests " +
		"to the CouchDB's _replicate are listed, and stop then. May be repeated. export is the way back." + examples(
		"See what there is to do:", "couchrelay import http://adm@couch:5984 --dry-run",
		"Do it:", "couchrelay import http://adm@couch:5984 --take-over")
}

// Help is kong's.
func (exportCommand) Help() string {
	return "Copies the replicator databases of a couchrelay into a CouchDB, with their revisions and _security. With " +
		"--take-over it holds the jobs here first, waits for their last checkpoints, and lets the CouchDB's own " +
		"replicator run again, which knows neither pauses nor holds: there must be none. Without it the CouchDB's " +
		"max_jobs must be 0. Documents that it cannot run, with tokens or secrets by name, say, are refused." +
		examples("Give all back:", "couchrelay export http://adm@couch:5984 --take-over")
}

func (c *importCommand) Run(w *window) error { return c.run(w, true) }
func (c *exportCommand) Run(w *window) error { return c.run(w, false) }

// move are the flags of both ways, and what both need.
type move struct {
	remote
	CouchDB  string `arg:"" name:"couchdb" help:"${move_couch_db}" placeholder:"URL"`
	DryRun   bool   `help:"Only say what there is to do."`
	TakeOver bool   `help:"Stop the replications where they run, and start them where they are copied to."`

	couch remote
	node  string // the path of the service's node
	out   io.Writer
	// stopped is whether the CouchDB's replicator runs no jobs, since its max_jobs is 0. Then an import holds no
	// jobs here: no other side runs them.
	stopped bool
	refused int                 // revisions
	ignored map[string][]string // documents, by the fields of theirs that a CouchDB ignores
}

// Bounds of a move.
const (
	moveBatch = 200             // documents in a request
	stopWait  = 2 * time.Minute // for the last checkpoints of the side that gives its jobs away
	stopPoll  = time.Second     // between two looks at it
)

func (m *move) run(w *window, in bool) error {
	m.out = w.to
	if m.JSON {
		return misused(errors.New("--json: import and export have no answer of the service to print"))
	}
	couch := serverURL(m.CouchDB)
	if couch == nil || couch.User.Username() == "" {
		return misused(errors.New("the CouchDB must be a URL with an admin, such as http://adm@couch:5984, whose " +
			"password is in COUCHDB_PASSWORD"))
	}
	if _, has := couch.User.Password(); !has {
		couch.User = url.UserPassword(couch.User.Username(), os.Getenv("COUCHDB_PASSWORD"))
	}
	if same := redacted(m.CouchDB); same == redacted(m.Server) {
		return misused(fmt.Errorf("the CouchDB and the service are both %s: one of them must be another server", same))
	}
	// Also between two requests a signal does not end the process: what state both sides are in is to be said.
	ctx, stop := signal.NotifyContext(m.context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m.within = ctx
	m.couch = remote{Server: couch.String(), Timeout: m.Timeout, within: ctx}
	if err := m.sameUUID(in); err != nil {
		return err
	}
	if in {
		return m.importAll()
	}
	return m.exportAll()
}

// replicators are the names of a server's replicator databases.
func replicators(server *remote) (names []string, err error) {
	err = server.into("GET", "/_all_dbs", nil, nil, &names)
	return slices.DeleteFunc(names, func(name string) bool { return !jobstore.IsReplicatorDB(name) }), err
}

func (m *move) say(format string, args ...any) {
	fmt.Fprintln(m.out, terminal.Clean(fmt.Sprintf(format, args...)))
}

// sameUUID demands that both servers compute the same replication ids: else all would be copied again.
func (m *move) sameUUID(in bool) error {
	var couch, here struct{ UUID string }
	err := errors.Join(m.couch.into("GET", "/", nil, nil, &couch), m.remote.into("GET", "/", nil, nil, &here))
	if err == nil {
		m.node, err = m.remote.node()
	}
	if err == nil && m.node != localNode {
		err = m.remote.into("GET", m.node+"/_config/couchdb/uuid", nil, nil, &here.UUID)
	}
	switch {
	case err != nil:
		return err
	case couch.UUID == here.UUID:
		return nil
	case !in:
		return fmt.Errorf("the CouchDB has the server uuid %s and the couchrelay %s, so checkpoints would not be "+
			"found: set [couchdb] uuid of one to that of the other, and restart it", couch.UUID, here.UUID)
	case m.DryRun:
		m.say("[couchdb] uuid = %s (here %s), and a restart", couch.UUID, here.UUID)
		return nil
	}
	if err := m.remote.into("PUT", m.node+"/_config/couchdb/uuid", nil, couch.UUID, nil); err != nil {
		return fmt.Errorf("set [couchdb] uuid = %s, that of the CouchDB, in the configuration and restart the "+
			"service; setting it by request failed: %w", couch.UUID, err)
	}
	return fmt.Errorf("the service has the uuid of the CouchDB, %s, in its configuration now: restart it, and "+
		"run the same command again", couch.UUID)
}

// importAll copies a CouchDB's replications behind holds, which it lifts if it is to take over.
func (m *move) importAll() error {
	before, err := m.maxJobs()
	if err != nil {
		return err
	}
	m.stopped = before.stopped()
	if err := m.tellRequests(); err != nil {
		return err
	}
	if err := m.settings(); err != nil {
		return err
	}
	if _, err = m.copyHere(); err != nil {
		return err
	}
	if !m.DryRun && !m.stopped && !m.TakeOver {
		m.say("the jobs are held: run this with --take-over, or stop the CouchDB's replicator " +
			"([replicator] max_jobs = 0) and lift the holds (couchrelay hold lift)")
	}
	if err := m.checkRefused("taken over"); err != nil || !m.TakeOver {
		return err
	}
	if m.DryRun {
		if !m.stopped {
			m.say("the CouchDB's max_jobs becomes 0, and is %s; then the jobs run here", before.words())
		}
		return nil
	}
	if err := m.stopCouchDB(before); err != nil {
		return err
	}
	if err := m.startHere(); err != nil {
		return fmt.Errorf("the CouchDB's replicator is stopped, and its replications run nowhere until this is "+
			"done: %w", err)
	}
	m.say("taken over: the jobs come back within a minute")
	return nil
}

// startHere waits until the CouchDB's replicator has stopped, copies what was written until then, and lifts the holds.
func (m *move) startHere() error {
	if err := awaitCouchDB(m); err != nil {
		return err
	}
	names, err := m.copyHere()
	if err := errors.Join(err, m.checkRefused("taken over")); err != nil {
		return err
	}
	return m.liftHolds(names)
}

// liftHolds lifts the holds of moves on databases. One that an operator had put there stays.
func (m *move) liftHolds(names []string) error {
	for _, name := range names {
		path := holdsPath + "/database:" + url.PathEscape(name)
		var hold struct{ Reason string }
		err := m.remote.into("GET", path, nil, nil, &hold)
		switch {
		case err != nil:
		case ofMove(hold.Reason):
			err = m.remote.into("DELETE", path, nil, nil, nil)
		default:
			m.say("%s: the jobs stay behind a hold of another reason: %q", name, hold.Reason)
		}
		if err != nil && !isMissing(err) {
			return err
		}
	}
	return nil
}

// copyHere copies a CouchDB's replicator databases, and returns their names. The jobs are held if the CouchDB runs
// them.
func (m *move) copyHere() (names []string, err error) {
	if names, err = replicators(&m.couch); err != nil {
		return nil, err
	}
	for _, name := range names {
		if !m.DryRun {
			if err := m.create(&m.remote, name); err != nil {
				return nil, err
			}
		}
		if !m.stopped {
			if err := m.hold(name, importFrom); err != nil {
				return nil, err
			}
		}
		if err := m.database(&m.couch, &m.remote, name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// checkRefused fails a move that leaves documents behind. So a side does not take over while the other one has
// replications that it lacks: these would run nowhere.
func (m *move) checkRefused(takenOver string) error {
	if m.refused == 0 {
		return nil
	}
	so := "their documents are not copied"
	if m.TakeOver {
		so = "nothing is " + takenOver
	}
	return fmt.Errorf("%s refused, so %s: change or delete their documents, and run the command again",
		explain.Count(m.refused, "revision"), so)
}

// exportAll copies replications into a CouchDB, which runs them from then on if it is to take over. A try does what it
// can, and fails for what would keep the move itself from beginning.
func (m *move) exportAll() error {
	names, err := m.ownReplicators()
	if err != nil {
		return err
	}
	refusal, err := m.mayExport(names)
	switch {
	case err != nil:
		return err
	case m.DryRun:
		if err := errors.Join(m.copyThere(names), refusal); err != nil || !m.TakeOver {
			return err
		}
		m.say("the jobs here become held; then the CouchDB gets its max_jobs back, and runs them")
		return nil
	case refusal != nil:
		return refusal
	case !m.TakeOver:
		return m.copyThere(names)
	}
	if err := rehearse(*m, names); err != nil {
		return err
	}
	if err := m.giveBack(names); err != nil {
		return fmt.Errorf("the jobs here may be held, and run nowhere until this is done: %w", err)
	}
	m.say("given back: the CouchDB runs the replications; the jobs here stay held")
	return nil
}

// mayExport returns a refusal of what would have the CouchDB run jobs that this service runs too, or that must not run.
// A try without a take-over tells what the latter are, as one comes next.
func (m *move) mayExport(names []string) (refusal, err error) {
	there, err := m.maxJobs()
	if err != nil {
		return nil, err
	}
	if !m.TakeOver && !there.stopped() {
		refusal = errors.New("the CouchDB would run the replications beside this service: use --take-over, or set " +
			"its [replicator] max_jobs to 0")
	}
	if !m.TakeOver && !m.DryRun {
		return refusal, nil
	}
	kept, err := m.kept(names)
	if err != nil || len(kept) == 0 {
		return refusal, err
	}
	knows := "the CouchDB knows neither pauses nor holds, and would run what must not run: " +
		strings.Join(kept, "; ") + ". Resume these jobs and lift these holds, or delete the documents, and run the " +
		"command again"
	if m.TakeOver {
		return errors.New(knows), nil
	}
	m.say("%s", knows)
	return refusal, nil
}

// kept says what operators and documents keep from running here.
func (m *move) kept(names []string) (kept []string, err error) {
	paused, err := m.jobsHere("paused", names)
	if err != nil {
		return nil, err
	}
	if n := len(paused); n > 0 {
		kept = append(kept, fmt.Sprintf("%s paused (%s)", explain.Count(n, "job"), some(paused, ", ")))
	}
	var all struct {
		Holds []struct{ ID, Database, Reason string }
	}
	if err := m.remote.into("GET", holdsPath, nil, nil, &all); err != nil {
		return nil, err
	}
	for _, h := range all.Holds {
		if !ofMove(h.Reason) && (h.Database == "" || slices.Contains(names, h.Database)) {
			kept = append(kept, fmt.Sprintf("%s is held (%q)", h.ID, h.Reason))
		}
	}
	return kept, nil
}

// some joins the first maxNamed entries of a list, and tells how many more there are.
func some(list []string, between string) string {
	more := ""
	if n := len(list) - maxNamed; n > 0 {
		list, more = list[:maxNamed], fmt.Sprintf("%sand %d more", between, n)
	}
	return strings.Join(list, between) + more
}

// giveBack holds the jobs here, copies their documents and has the CouchDB run them.
func (m *move) giveBack(names []string) error {
	for _, name := range names {
		if err := m.hold(name, exportTo); err != nil {
			return err
		}
	}
	err := m.await("the couchrelay", func() (int, error) {
		running, err := m.jobsHere("running", names)
		return len(running), err
	})
	if err != nil {
		return err
	}
	if err := m.copyThere(names); err != nil {
		return err
	}
	return m.startCouchDB()
}

// rehearse fails for what shows before any job is held that the CouchDB cannot get all documents.
func rehearse(m move, names []string) error {
	var said strings.Builder
	out := m.out
	m.DryRun, m.out = true, &said
	err := m.copyThere(names)
	if err != nil {
		fmt.Fprint(out, &said)
	}
	return err
}

// copyThere copies replicator databases to the CouchDB.
func (m *move) copyThere(names []string) error {
	m.ignored = map[string][]string{}
	for _, name := range names {
		if !m.DryRun {
			if err := m.create(&m.couch, name); err != nil {
				return err
			}
		}
		if err := m.database(&m.remote, &m.couch, name); err != nil {
			return err
		}
	}
	for _, field := range slices.Sorted(maps.Keys(m.ignored)) {
		m.say("the CouchDB ignores `%s` of %s", field, some(m.ignored[field], ", "))
	}
	return m.checkRefused("given back")
}

// ownReplicators are the names of the service's replicator databases without mirrors, whose documents are elsewhere: a
// copy would run them once more, and no edit of them would reach it.
func (m *move) ownReplicators() ([]string, error) {
	var all struct{ Follow []struct{ Name string } }
	if err := m.remote.into("GET", "/_scheduler/follow", nil, nil, &all); err != nil && !isMissing(err) {
		return nil, err
	}
	names, err := replicators(&m.remote)
	for _, mirror := range all.Follow {
		if i := slices.Index(names, mirror.Name); i >= 0 {
			names = slices.Delete(names, i, i+1)
			m.say("%s: is followed, and stays as it is", mirror.Name)
		}
	}
	return names, err
}

// The reasons of holds begin with these.
const (
	importFrom = "import from "
	exportTo   = "export to "
)

// ofMove reports whether a hold is one of a move, by its reason.
func ofMove(reason string) bool {
	return strings.HasPrefix(reason, importFrom) || strings.HasPrefix(reason, exportTo)
}

// hold keeps the jobs of a database here from running, unless this is only a try.
func (m *move) hold(name, why string) error {
	if m.DryRun {
		return nil
	}
	hold := map[string]string{"database": name, "reason": why + redacted(m.CouchDB)}
	return m.remote.into("POST", holdsPath, nil, hold, nil)
}

// jobsHere lists the jobs of documents of some databases in a state, as database/document.
func (m *move) jobsHere(state string, names []string) (list []string, err error) {
	query := url.Values{"states": {state}, "limit": {"1000"}}
	for {
		var page struct {
			Jobs []struct {
				Database *string
				Document string `json:"doc_id"`
			}
			Cursor string
		}
		if err := m.remote.into("GET", jobsPath, query, nil, &page); err != nil {
			return nil, err
		}
		for _, j := range page.Jobs {
			if j.Database != nil && slices.Contains(names, *j.Database) {
				list = append(list, *j.Database+"/"+j.Document)
			}
		}
		if page.Cursor == "" {
			return list, nil
		}
		query.Set("cursor", page.Cursor)
	}
}

// create creates a database unless it is there.
func (m *move) create(to *remote, name string) error {
	err := to.into("PUT", "/"+spec.EscapeName(name), nil, nil, nil)
	if r, is := errors.AsType[*rejection](err); is && r.status == http.StatusPreconditionFailed {
		return nil
	}
	return err
}

func isMissing(err error) bool {
	r, is := errors.AsType[*rejection](err)
	return is && r.status == http.StatusNotFound
}

// into asks, and reads the answer into result, which may be nil. Since there are two servers, errors of answers name
// the one that was asked.
func (r *remote) into(method, path string, query url.Values, body, result any) error {
	raw, err := r.fetch(method, path, query, body)
	if _, is := errors.AsType[*rejection](err); is {
		return fmt.Errorf("%s %s%s: %w", method, redacted(r.Server), path, err)
	}
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("%s %s%s: the answer is not as expected: %w", method, redacted(r.Server), path, err)
	}
	return nil
}

func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.User = nil
	return strings.TrimSuffix(u.String(), "/")
}
