package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"couchrelay/core/ejson"
	"couchrelay/core/spec"
)

const jobsPath, docsPath, holdsPath = "/_scheduler/jobs", "/_scheduler/docs", "/_scheduler/holds"

// page are the flags of a list.
type page struct {
	Limit  int    `help:"How many to show at most." default:"100" placeholder:"N"`
	Cursor string `help:"Go on where an earlier list ended; its last line has the cursor." placeholder:"CURSOR"`
}

// choice are the flags that choose jobs.
type choice struct {
	State      []string `help:"${filters_state}" placeholder:"STATE" complete:"state"`
	ServerHost string   `help:"Only jobs that touch this server." placeholder:"HOST[:PORT]"`
	User       string   `help:"Only jobs of this user." placeholder:"NAME"`
	Error      string   `help:"Only jobs with this error, such as db_not_found." placeholder:"ERROR"`
	Node       string   `help:"Only jobs that this node runs." placeholder:"NAME"`
}

// filters are the flags of a list of jobs.
type filters struct {
	page
	choice
	Descending bool `help:"List the last ones first."`
}

// query is the query that a list is asked for with.
func (p page) query() url.Values {
	q := url.Values{"limit": {strconv.Itoa(p.Limit)}}
	setIf(q, "cursor", p.Cursor)
	return q
}

func (f filters) query() url.Values {
	q := f.page.query()
	setIf(q, "states", strings.Join(f.State, ","))
	setIf(q, "server", f.ServerHost)
	setIf(q, "user", f.User)
	setIf(q, "error", f.Error)
	setIf(q, "node", f.Node)
	if f.Descending {
		q.Set("descending", "true")
	}
	return q
}

func setIf(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// end tells how many there are, and how to see more.
func (s *screen) end(what string, shown int, answer ejson.Value) {
	total, has := answer.Get("total_rows")
	if has && total.Kind == ejson.Number {
		s.line("%d of %s %s", shown, plain(total), what)
	}
	if cursor := plain(member(answer, "cursor")); cursor != "" {
		s.line("more: --cursor %s", cursor)
	}
}

// jobsCommand lists jobs.
type jobsCommand struct {
	remote
	filters
	Database string `help:"Only jobs of this replicator database." placeholder:"NAME"`
}

// Help is kong's.
func (jobsCommand) Help() string {
	return "Lists the jobs of documents and of requests to _replicate, the more important columns first; on a " +
		"terminal those without room are left out. --json has all of them." + examples(
		"All jobs, a page of them:", "couchrelay jobs",
		"Those that crash or were paused, at one server:",
		"couchrelay jobs --state crashing,paused --server-host db1.example.com",
		"The ids of those with an error, for a script:",
		"couchrelay jobs --error unauthorized --limit 10000 --json | jq -r '.jobs[].id'")
}

func (c *jobsCommand) Run(w *window) error {
	q := c.query()
	setIf(q, "database", c.Database)
	return c.show(w, "GET", jobsPath, q, nil, func(s *screen, v ejson.Value) {
		list := s.need(v, "jobs")
		s.list(list, "state", "id! waits_for?job|id|job", "document doc_id", "error info.error", "source", "target",
			"node", "waits held_by|waits_for", "database", "since start_time")
		s.end("jobs", len(list.Elems), v)
	})
}

// docsCommand lists replication documents, or shows one.
type docsCommand struct {
	remote
	filters
	Database string `arg:"" optional:"" default:"_replicator" help:"${docs_database}" placeholder:"DATABASE"`
	Doc      string `arg:"" optional:"" help:"The id of a document: show all that is known of it." placeholder:"DOC"`
}

// Help is kong's.
func (docsCommand) Help() string {
	return "Lists the replications of documents in any state, with the reasons of failures, or all that is known of " +
		"one document." + examples(
		"Documents of all replicator databases that failed:", "couchrelay docs '*' --state failed",
		"One document:", "couchrelay docs _replicator nightly-orders")
}

func (c *docsCommand) Run(w *window) error {
	path := docsPath + "/" + spec.EscapeName(c.Database)
	if c.Doc != "" {
		err := c.show(w, "GET", path+"/"+spec.EscapeName(c.Doc), nil, nil, (*screen).fields)
		return naming("document "+c.Database+"/"+c.Doc, err)
	}
	q := c.query()
	if c.Database == "*" {
		path = docsPath
		q.Set("database", "*")
	}
	return c.show(w, "GET", path, q, nil, func(s *screen, v ejson.Value) {
		list := s.need(v, "docs")
		s.list(list, "state", "document! doc_id", "error info.error", "source", "target", "node",
			"waits held_by|waits_for", "errors error_count", "updated last_updated", "id waits_for?job|id|job")
		s.end("documents", len(list.Elems), v)
	})
}

// one are the flags and the argument of commands about one job.
type one struct {
	remote
	ID string `arg:"" help:"The job's own id, or that of its replication, as jobs lists them." placeholder:"ID"`
}

func (o *one) path(more string) string { return jobsPath + "/" + url.PathEscape(o.ID) + more }

// jobCommand shows a job.
type jobCommand struct{ one }

// Help is kong's.
func (jobCommand) Help() string {
	return "Shows all that is known of a job, with its history." +
		examples("Show a job:", "couchrelay job "+someJob)
}

func (c *jobCommand) Run(w *window) error {
	return naming("job "+c.ID, c.show(w, "GET", c.path(""), nil, nil, (*screen).fields))
}

// naming adds to the answer that something is missing what it is: the service answers as CouchDB does, with "missing".
func naming(what string, err error) error {
	if isMissing(err) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// explainCommand tells why a job runs or does not.
type explainCommand struct{ one }

// Help is kong's.
func (explainCommand) Help() string {
	return "Says in a sentence why a job runs or does not, and what that follows from." +
		examples("Explain a job:", "couchrelay explain "+someJob)
}

func (c *explainCommand) Run(w *window) error {
	return c.show(w, "GET", c.path("/explain"), nil, nil, (*screen).fields)
}

// failuresCommand lists the documents that a job's target refused.
type failuresCommand struct {
	one
	page
}

// Help is kong's.
func (failuresCommand) Help() string {
	return "Lists the documents that the target of a job refused, and why." +
		examples("The first twenty:", "couchrelay failures "+someJob+" --limit 20")
}

func (c *failuresCommand) Run(w *window) error {
	return c.show(w, "GET", c.path("/failures"), c.query(), nil, func(s *screen, v ejson.Value) {
		list := s.need(v, "failures")
		s.list(list, "document! id", "status", "error", "reason", "attempts", "last", "first", "rev")
		s.end("refused documents", len(list.Elems), v)
		if stored := plain(member(v, "stored")); stored != "" && stored != plain(member(v, "total_rows")) {
			s.line("%s are stored, the others only counted", stored)
		}
	})
}

// order is a command that has something done to a job.
type order struct {
	one
	Reason string `help:"Why, for the job's history and other users." placeholder:"TEXT"`
}

// give gives the order of this name, and says that it is done.
func (o *order) give(w *window, name, done string) error {
	body := map[string]string{}
	if o.Reason != "" {
		body["reason"] = o.Reason
	}
	return o.show(w, "POST", o.path("/"+name), nil, body, func(s *screen, v ejson.Value) {
		state, id := plain(member(v, "state")), plain(s.need(v, "id"))
		switch changed := member(v, "changed"); {
		case state == "running" && name == "pause": // also when it is given again
			s.line("job %s stops, with a checkpoint, and is paused then", id)
		case changed.Kind == ejson.False:
			s.line("nothing was to be done; job %s is %s", id, state)
		default:
			s.line("job %s %s", id, done)
		}
		if note := plain(member(v, "note")); note != "" {
			s.line("%s", note)
		}
	})
}

// The commands that have something done to a job. Each may be given again, and says whether it changed anything.
type (
	pauseCommand  struct{ order }
	resumeCommand struct{ order }
	retryCommand  struct{ order }
	resetCommand  struct{ order }
	cancelCommand struct{ order }
)

// someJob is an id for examples.
const someJob = "c3ea6b4cefdc0f0804973a398c3178c0+continuous"

func orderHelp(what, name, reason string) string {
	return what + examples("Say why, too:", "couchrelay "+name+" "+someJob+` --reason "`+reason+`"`)
}

const again = " Given again, it changes nothing, with status 0."

// Help is kong's.
func (pauseCommand) Help() string {
	return orderHelp("Stops a job with a checkpoint, until it is resumed. An edit of its document does not resume "+
		"it."+again, "pause", "disks are full")
}

// Help is kong's.
func (resumeCommand) Help() string {
	return orderHelp("Lets a paused job run again."+again, "resume", "disks are changed")
}

// Help is kong's.
func (retryCommand) Help() string {
	return orderHelp("Ends the wait of a job that crashed, and runs one again that failed, or that completed and "+
		"left refused documents out, when there is a slot. Refused documents are tried again."+again,
		"retry", "password is corrected")
}

// Help is kong's.
func (resetCommand) Help() string {
	return orderHelp("Discards a job's checkpoints on both sides: it compares the databases from the beginning. "+
		"Given again before a run has done that, it changes nothing, with status 0.", "reset", "target was restored")
}

// Help is kong's.
func (cancelCommand) Help() string {
	return orderHelp("Removes a job for good, with its replication document if it has one. Given again, there is no "+
		"such job, and the status is 3.", "cancel", "moved")
}

func (c *pauseCommand) Run(w *window) error  { return c.give(w, "pause", "is paused") }
func (c *resumeCommand) Run(w *window) error { return c.give(w, "resume", "is resumed") }
func (c *retryCommand) Run(w *window) error {
	return c.give(w, "retry", "runs again when it has a slot")
}
func (c *resetCommand) Run(w *window) error  { return c.give(w, "reset", "starts over") }
func (c *cancelCommand) Run(w *window) error { return c.give(w, "cancel", "is canceled") }

// holdCommand has the commands for holds.
type holdCommand struct {
	List holdListCommand `cmd:"" help:"List the holds in force."`
	Add  holdAddCommand  `cmd:"" help:"Stop the jobs of a replicator database, or those that touch a server."`
	Lift holdLiftCommand `cmd:"" help:"Let the jobs of a hold run again, spread over time."`
}

// Help is kong's.
func (holdCommand) Help() string {
	return "A hold keeps all jobs of a replicator database, or all that touch a server, from running; those that run " +
		"stop with a checkpoint." + examples(
		"Before the maintenance of a server:",
		"couchrelay hold add --server-host db1.example.com:5984 --reason upgrade",
		"Afterwards:", "couchrelay hold lift server:db1.example.com:5984")
}

type holdListCommand struct{ remote }

// Help is kong's.
func (holdListCommand) Help() string {
	return "Lists the holds with their ids, reasons and the number of jobs that each keeps from running." +
		examples("List them:", "couchrelay hold list")
}

func (c *holdListCommand) Run(w *window) error {
	return c.show(w, "GET", holdsPath, nil, nil, func(s *screen, v ejson.Value) {
		list := s.need(v, "holds")
		s.list(list, "id!", "jobs", "reason", "by", "at")
		s.end("holds", len(list.Elems), v)
	})
}

type holdAddCommand struct {
	remote
	Database   string `help:"Hold the jobs of this replicator database." placeholder:"NAME" xor:"what"`
	ServerHost string `help:"Hold the jobs that touch this server." placeholder:"HOST[:PORT]" xor:"what"`
	Reason     string `help:"Why, for other users." placeholder:"TEXT" required:""`
}

// Help is kong's.
func (holdAddCommand) Help() string {
	return "Stops the jobs of a replicator database, or those that touch a server, until the hold is lifted. Jobs " +
		"that come later are held, too. Exactly one of --database and --server-host is needed." +
		examples("Hold the jobs of a database:",
			`couchrelay hold add --database nightly/_replicator --reason "move to new disks"`)
}

// Validate is kong's. Flags that are required would both stand in the usage.
func (c *holdAddCommand) Validate() error {
	if c.Database == "" && c.ServerHost == "" {
		return errors.New("needs --database or --server-host")
	}
	return nil
}

func (c *holdAddCommand) Run(w *window) error {
	body := map[string]string{"reason": c.Reason}
	if c.Database != "" {
		body["database"] = c.Database
	} else {
		body["server"] = c.ServerHost
	}
	return c.show(w, "POST", holdsPath, nil, body, func(s *screen, v ejson.Value) {
		done := "is in force"
		if member(v, "changed").Kind == ejson.False {
			done = "was in force already, and keeps its reason"
		}
		s.line("hold %s %s", plain(s.need(v, "id")), done)
	})
}

type holdLiftCommand struct {
	remote
	ID string `arg:"" help:"The hold's id, as hold list shows it." placeholder:"ID"`
}

// Help is kong's.
func (holdLiftCommand) Help() string {
	return "Lets the jobs of a hold run again. They come back over a minute, and not all at once." +
		examples("Lift a hold:", "couchrelay hold lift server:db1.example.com:5984")
}

func (c *holdLiftCommand) Run(w *window) error {
	return c.show(w, "DELETE", holdsPath+"/"+url.PathEscape(c.ID), nil, nil, func(s *screen, v ejson.Value) {
		s.line("hold %s is lifted; its jobs come back over a minute", plain(s.need(v, "id")))
	})
}

// nodesCommand lists the nodes of the service.
type nodesCommand struct{ remote }

// Help is kong's.
func (nodesCommand) Help() string {
	return "Lists the nodes, with the jobs that each runs and when it was last seen." +
		examples("List them:", "couchrelay nodes")
}

func (c *nodesCommand) Run(w *window) error {
	return c.show(w, "GET", "/_scheduler/nodes", nil, nil, func(s *screen, v ejson.Value) {
		list := s.need(v, "nodes")
		s.list(list, "name!", "status", "running", "max max_jobs", "seen last_seen", "version", "roles",
			"started start_time", "given_up")
		s.end("nodes", len(list.Elems), v)
	})
}

// followsCommand lists the databases that the service follows.
type followsCommand struct{ remote }

// Help is kong's.
func (followsCommand) Help() string {
	return "Lists the databases whose documents are followed: the node that does it, how many changes and states are " +
		"to come, and the last error." + examples("List them:", "couchrelay follows")
}

func (c *followsCommand) Run(w *window) error {
	return c.show(w, "GET", "/_scheduler/follow", nil, nil, func(s *screen, v ejson.Value) {
		list := s.need(v, "follow")
		s.list(list, "name!", "node", "changes changes_pending", "states states_pending", "error", "next next_try",
			"url", "sequence", "reason")
		s.end("followed databases", len(list.Elems), v)
	})
}
