package oracle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
	"couchrelay/sim/world"
)

// documents are the invariants of replication documents: that users find them as they wrote them, with their jobs. What
// a commit makes of a document and its job is for the specification to say (specified.go).
type documents struct{ *chronicle }

var documentSubject = subject{
	invariants: []Invariant{
		{"S3b", "A replication document that was written is there, as it was written last."},
		{"S3c", "A replication document has a job, which does what the document says."},
		{"S4f", "A replication document that was deleted stays deleted, and its job is gone."},
		{"S4g", "The job of a document has this document, in a database that exists."},
		{"S4j", "No list and no look-up shows a job of a database that was deleted."},
		{"S19", "A write that happened is not answered with a conflict."},
	},
	begin: func(c *chronicle) {
		d := &documents{c}
		c.on.writeRefused.add(d.checkRefusedWrite)
		c.on.ticked.add(func(world.Ticked) { d.checkLists() })
		c.on.atRest.add(func(struct{}) { d.checkAtRest(); d.checkLists() })
	},
}

// told is the state that a replication document tells of its job, and the token of its last write by a user.
type told struct {
	State string `json:"_replication_state"`
	Token uint64 `json:"n"`
	Tag   string `json:"tag"`
}

func toldBy(d *docs.Document) (t told) {
	_ = json.Unmarshal(d.Body, &t) // a body that is no object tells nothing
	return t
}

// checkRefusedWrite is S19: a user who is told of a conflict tries again with another revision, and would
// overwrite a later write of another user.
func (d *documents) checkRefusedWrite(f world.WriteRefused) {
	t := f.Doc.Tenant()
	if found := d.document(t, f.Doc.ID()); found != nil && toldBy(found).Token == f.Token {
		d.Fail("S19", "the write of %s %s as %d happened, and was answered %v",
			t.Name(), f.Doc.ID(), f.Token, f.Err)
	}
}

// isOver reports whether there is a job, and it is over for good.
func (s *shadow) isOver() bool { return s != nil && s.header != nil && s.record.State.Terminal() }

// checkAtRest compares the answers to users with the documents there are. Documents whose last write had no
// answer are left out, as their users know nothing.
func (d *documents) checkAtRest() {
	for _, key := range slices.Sorted(maps.Keys(d.docs)) {
		if truth := d.docs[key]; !truth.j.Unsure() {
			found := d.document(truth.j.Tenant(), truth.j.ID())
			if truth.j.Forked() { // which of the leaves it is the specification says
				truth = &docTruth{j: truth.j, present: found != nil}
				d.checkJob(key, truth, found)
				continue
			}
			d.checkWritten(key, truth, found)
			d.checkJob(key, truth, found)
		}
	}
	d.checkJobs()
}

// checkWritten is S3b, and S4f for the document itself.
func (d *documents) checkWritten(key string, truth *docTruth, found *docs.Document) {
	switch {
	case truth.present && found == nil:
		d.Fail("S3b", "document %s was written, and is gone", key)
	case !truth.present && found != nil:
		d.Fail("S4f", "document %s was deleted, and is there", key)
	case truth.present && toldBy(found).Token != truth.token:
		d.Fail("S3b", "document %s was written as %d, and is %s", key, truth.token, found.Body)
	}
}

// checkJob is S3c, and S4f for the job of the document. A job that is over is excused from following its
// document: users may change that and keep the state in it, which does not begin anything.
func (d *documents) checkJob(key string, truth *docTruth, found *docs.Document) {
	id := truth.j.JobID()
	s := d.shadows[id]
	has := s != nil && s.header != nil
	switch {
	case truth.present && !has:
		d.Fail("S3c", "document %s has no job", key)
		return
	case !truth.present && has:
		d.Fail("S4f", "document %s is deleted, but its job is %v", key, s.header)
		return
	case !has || found == nil:
		return
	}
	if !s.isOver() && !d.follows(id, found) {
		d.Fail("S3c", "the job of document %s does something else than %s", key, found.Body)
	}
}

// follows reports whether a job agrees with its document.
func (d *documents) follows(id string, doc *docs.Document) bool {
	rep, err := d.w.Store().Spec(d.w.Present(), id)
	return err == nil && rep != nil && asWritten(d.w.Config(), rep, doc.Body)
}

// checkJobs is S4g. Jobs of deleted databases wait for the sweep as long as the store notes such a database.
func (d *documents) checkJobs() {
	of := map[string]*world.Tenant{}
	for _, t := range d.w.Tenants() {
		of[jobstore.DocumentJobs(t.Instance())] = t
	}
	for _, id := range d.ids() {
		s := d.shadows[id]
		if s.header == nil || s.record.Transient() {
			continue
		}
		if t := of[s.record.Instance]; t == nil && !d.sweeping() {
			d.Fail("S4g", "job %s belongs to a database that was deleted", id)
		} else if t != nil && d.document(t, s.record.DocID) == nil {
			d.Fail("S4g", "job %s has no document", id)
		}
	}
}

// checkLists is S4j. It looks only while there are such jobs. A deletion that has not been answered yet may have
// happened, so only the jobs of requests and of databases that are there have to be listed.
func (d *documents) checkLists() {
	hidden, shown := map[string]bool{}, map[string]bool{}
	for id, s := range d.shadows {
		if _, dropped := d.dropped[s.instance()]; dropped {
			hidden[id] = true
		}
	}
	if len(hidden) == 0 {
		return
	}
	there := d.instances()
	for id, s := range d.shadows {
		request := s.header != nil && s.record.Transient() && !s.record.State.Terminal()
		if s.header != nil && !hidden[id] && (request || there[s.instance()]) {
			shown[id] = true
		}
	}
	for _, of := range []bool{false, true} {
		ids, err := d.listed(of)
		if err != nil {
			d.unreadable("list of jobs", err)
			return
		}
		for _, id := range ids {
			if hidden[id] {
				d.Fail("S4j", "job %s of a database that was deleted is listed", id)
			}
			delete(shown, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(shown)) {
		d.Fail("S4j", "job %s is not listed, and its database was not deleted", id)
	}
	for _, id := range slices.Sorted(maps.Keys(hidden)) {
		if _, found, err := d.w.Store().Find(d.w.Present(), id); err == nil && found != nil {
			d.Fail("S4j", "job %s of a database that was deleted is found", id)
		}
	}
}

// listed reads a list of jobs. It has several pages without an index, as a page looks at a bounded number of rows.
func (d *documents) listed(documents bool) (ids []string, err error) {
	l := jobstore.Listing{Filter: jobstore.Filter{Documents: documents}, Limit: 1 << 20}
	for at := &l.At; at != nil; {
		l.At = *at
		page, err := jobstore.Lists{Store: d.w.Store(), Reader: d.w.Present()}.Page(l)
		if err != nil {
			return nil, err
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		at = page.Next
	}
	return ids, nil
}

// instances are those of the replicator databases that the store has.
func (c *chronicle) instances() map[string]bool {
	there := map[string]bool{}
	for _, t := range c.w.Tenants() {
		err := c.w.ReadDatabase(t, func(db *docs.Database) error {
			there[jobstore.DocumentJobs(db.Instance)] = true
			return nil
		})
		if err != nil {
			c.unreadable("database "+t.Name(), err)
		}
	}
	return there
}

// instance is that of the database to which the job belongs, empty without one.
func (s *shadow) instance() string {
	if s.header == nil {
		return ""
	}
	return s.record.Instance
}

// sweeping reports whether deleted databases still wait for the sweep of their jobs.
func (d *documents) sweeping() bool {
	rows, err := d.w.Present().GetRange(d.w.Store().Keys.Dropped.Range(), kv.RangeOptions{Limit: 1})
	return err == nil && len(rows) > 0
}

// written is a replication document as users of this world write it.
type written struct {
	Source, Target  endpoint
	Continuous      bool
	CreateTarget    bool     `json:"create_target"`
	WinningRevsOnly bool     `json:"winning_revs_only"`
	UseCheckpoints  bool     `json:"use_checkpoints"`
	UseBulkGet      bool     `json:"use_bulk_get"`
	BatchSize       int      `json:"worker_batch_size"`
	Processes       int      `json:"worker_processes"` // 0 for those of the configuration
	Connections     int      `json:"http_connections"`
	Retries         int      `json:"retries_per_request"`
	Interval        int64    `json:"checkpoint_interval"`
	DocIDs          []string `json:"doc_ids"`
	Filter          string
	QueryParams     json.RawMessage `json:"query_params"`
	Selector        json.RawMessage
	SinceSeq        json.RawMessage `json:"since_seq"`
	Params          struct{ Q int } `json:"create_target_params"`
	OnRefusal       string          `json:"on_refusal"`
}

// asWritten reports whether a replication is the one that its user wrote in a document. It reads the document
// by itself, and does not ask the core's parser.
func asWritten(conf *world.Config, rep *spec.Replication, body []byte) bool {
	w := written{
		UseCheckpoints: true, UseBulkGet: true, BatchSize: conf.BatchSize, Connections: usualConnections,
		Retries: conf.Retries, Interval: conf.CheckpointInterval.Milliseconds(),
	}
	if json.Unmarshal(body, &w) != nil {
		return false
	}
	if w.OnRefusal == "skip" {
		w.OnRefusal = ""
	}
	batches := spec.Batches{WorkerProcesses: w.Processes, WorkerBatchSize: w.BatchSize}
	if w.Processes == 0 {
		batches.WorkerProcesses, batches.MaxWorkers = conf.Workers, mostWorkers(conf)
	}
	slices.Sort(w.DocIDs)
	var params []peer.Param
	if w.Params.Q != 0 {
		params = []peer.Param{{Name: "q", Value: fmt.Sprint(w.Params.Q)}}
	}
	databases := w.Source.isAt(rep.Source) && w.Target.isAt(rep.Target) &&
		rep.CreateTarget == w.CreateTarget && slices.Equal(rep.CreateTargetParams, params)
	selection := slices.Equal(rep.Filter.DocIDs, w.DocIDs) && rep.Filter.Name == w.Filter &&
		bytes.Equal(rep.Filter.QueryParams, w.QueryParams) && bytes.Equal(rep.Filter.Selector, w.Selector) &&
		bytes.Equal(rep.SinceSeq, w.SinceSeq) && rep.WinningRevsOnly == w.WinningRevsOnly
	manner := rep.Continuous == w.Continuous && rep.UseCheckpoints == w.UseCheckpoints &&
		rep.UseBulkGet == w.UseBulkGet && rep.Batches == batches &&
		rep.CheckpointInterval.Milliseconds() == w.Interval
	requests := rep.Source.Connections == max(2, w.Connections) && rep.Target.Connections == w.Connections
	for _, e := range []spec.Endpoint{rep.Source, rep.Target} {
		requests = requests && e.Retries == w.Retries && shownCompression(e) == conf.Compression
	}
	return databases && selection && manner && requests && string(rep.OnRefusal) == w.OnRefusal
}

// usualConnections is the http_connections of a replication that sets none.
const usualConnections = 20

// unsigned splits a URL into one without a user and a password, and these, as USER:PASSWORD.
func unsigned(url string) (plain, userinfo string) {
	scheme, rest, _ := strings.Cut(url, "://")
	userinfo, place, signed := strings.Cut(rest, "@")
	if !signed {
		return url, ""
	}
	return scheme + "://" + place, userinfo
}

// userinfoOf is who asks an endpoint, as USER:PASSWORD; empty for nobody.
func userinfoOf(e spec.Endpoint) string {
	if !e.Credentials.IsSet() {
		return ""
	}
	return e.Credentials.User.Reveal() + ":" + e.Credentials.Password.Reveal()
}

// shownCompression is the compression of an endpoint, as it is written.
func shownCompression(e spec.Endpoint) string { return cmp.Or(string(e.Compression), "auto") }

// mostWorkers is the bound of the batches of a replication whose user set none: 32, unless another number of workers or
// a bound is configured.
func mostWorkers(c *world.Config) int {
	if c.MaxWorkers == 0 && c.Workers == 4 {
		return 32
	}
	return c.MaxWorkers
}
