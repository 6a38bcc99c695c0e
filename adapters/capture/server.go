package capture

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// Options of a capture of a server.
type Options struct {
	Names bool          // keep the names of databases, users and documents
	Watch time.Duration // between two looks; there is one look if it is 0
	Clock clock.Clock   // nil for the system's
}

// Bounds of the server's answers.
const (
	pageSize = 500
	maxJobs  = 1_000_000
	maxDocs  = 10_000 // documents that are asked for sizes of one-shots
	maxAsked = 1_000  // documents that are asked whether they are continuous
)

// Server makes a workload of the jobs of a CouchDB or couchrelay. User and password may be in the address; no
// error has the password. All requests end with ctx.
func Server(ctx context.Context, address string, o Options) (*Capture, error) {
	api, err := newClient(address)
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	s := server{api: api, observed: &observed{}, jobs: map[string]*job{}}
	var welcome struct{}
	if _, err := api.get(ctx, "", nil, &welcome); err != nil {
		return nil, fmt.Errorf("%s: %w", api.base, err)
	}
	began, err := s.look(ctx, 0)
	if err != nil {
		return nil, err
	}
	s.configuration(ctx)
	if o.Watch > 0 {
		if err := s.watch(ctx, o, began); err != nil {
			return nil, err
		}
	}
	s.documents(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.note("%d jobs at %s; %s", len(s.observed.jobs), began.UTC().Format(time.RFC3339), s.others)
	if s.parked > 0 {
		s.note("no part of the workload are %d jobs that are paused or held, or wait while another job has their "+
			"replication", s.parked)
	}
	return s.capture(o.Names)
}

// server is a server that is looked at.
type server struct {
	*observed
	api      *client
	jobs     map[string]*job // by id
	kindless []kindless
	parked   int    // jobs of the last look that want no slot
	others   string // how many documents have no job
}

// watch looks a second time.
func (s *server) watch(ctx context.Context, o Options, began time.Time) error {
	wait := o.Clock.Timer(o.Watch)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	seen := map[*job]int{}
	for _, j := range s.observed.jobs {
		seen[j] = len(j.looks)
	}
	now, err := s.look(ctx, o.Watch)
	if err != nil {
		return err
	}
	for _, j := range s.observed.jobs {
		if n, old := seen[j]; old && n == len(j.looks) && j.continuous {
			j.remove = o.Watch
		}
	}
	if drift := now.Sub(began) - o.Watch; drift.Abs() > o.Watch/2 {
		s.note("the two looks are %s apart by the server's clock, and not %s", now.Sub(began), o.Watch)
	}
	return nil
}

// jobView is a job as GET /_scheduler/jobs shows it.
type jobView struct {
	Database *string     `json:"database"`
	ID       *string     `json:"id"`
	PID      *string     `json:"pid"`
	Source   string      `json:"source"`
	User     *string     `json:"user"`
	DocID    *string     `json:"doc_id"`
	Info     *infoView   `json:"info"`
	History  []eventView `json:"history"`
	Start    time.Time   `json:"start_time"`
	Weight   int64       `json:"weight"` // couchrelay alone has this and what follows
	Pause    *struct{}   `json:"pause"`
	HeldBy   string      `json:"held_by"`
	WaitsFor string      `json:"waits_for"`
}

// parked reports whether a job wants no slot, whatever the queue is.
func (v *jobView) parked() bool { return v.Pause != nil || v.HeldBy != "" || v.WaitsFor != "" }

// infoView are counters of a job.
type infoView struct {
	Checked int64    `json:"revisions_checked"`
	Missing int64    `json:"missing_revisions_found"`
	Written int64    `json:"docs_written"`
	Refused int64    `json:"doc_write_failures"`
	Pending *float64 `json:"changes_pending"`
}

func (i *infoView) done() float64 { return done(i.Checked, i.Missing, i.Written, i.Refused) }

type eventView struct {
	At   time.Time `json:"timestamp"`
	Type string    `json:"type"`
}

// taskView is a running job as GET /_active_tasks shows it.
type taskView struct {
	infoView
	Type       string `json:"type"`
	ID         string `json:"replication_id"`
	Continuous bool   `json:"continuous"`
	StartedOn  int64  `json:"started_on"`
}

// look reads all jobs. when is since the first look. The time that it returns is the server's.
func (s *server) look(ctx context.Context, when time.Duration) (now time.Time, err error) {
	var tasks []taskView
	running := map[string]*taskView{}
	if _, err := s.api.get(ctx, "_active_tasks", nil, &tasks); err != nil {
		s.note("running jobs could not be read: %v", err)
	}
	for i := range tasks {
		if tasks[i].Type == "replication" {
			running[tasks[i].ID] = &tasks[i]
		}
	}
	seen := map[string]bool{}
	s.parked = 0
	for at, skip := pageOf(0), 0; at != nil; {
		var page jobsPage
		date, err := s.api.get(ctx, "_scheduler/jobs", at, &page)
		if err != nil {
			return now, fmt.Errorf("%s/_scheduler/jobs: %w", s.api.base, err)
		}
		if now.IsZero() {
			now = date
		}
		if most := max(page.Total, len(s.jobs)+len(page.Jobs)); most > maxJobs {
			return now, fmt.Errorf("%s has %d jobs; %d are read at most", s.api.base, most, maxJobs)
		}
		for i := range page.Jobs {
			v := &page.Jobs[i]
			id := v.key()
			switch {
			case seen[id]: // jobs that come and go move those behind to another page
			case v.parked():
				s.parked++
			default:
				s.see(when, now, id, v, running)
			}
			seen[id] = true
		}
		skip += pageSize
		at = page.next(at, skip)
	}
	return now, nil
}

// jobsPage is a page of the list of jobs.
type jobsPage struct {
	Total  int       `json:"total_rows"`
	Cursor string    `json:"cursor"` // of couchrelay
	Jobs   []jobView `json:"jobs"`
}

// next is where the list goes on behind this page, which was asked for at a place; nil if it ends. A cursor misses no
// job when others end meanwhile, and rows that are skipped are read each time.
func (p *jobsPage) next(at url.Values, skip int) url.Values {
	switch {
	case p.Cursor != "":
		return url.Values{"limit": {fmt.Sprint(pageSize)}, "cursor": {p.Cursor}}
	case at.Has("cursor") || len(p.Jobs) == 0 || skip >= p.Total:
		return nil
	}
	return pageOf(skip)
}

func pageOf(skip int) url.Values {
	return url.Values{"limit": {fmt.Sprint(pageSize)}, "skip": {fmt.Sprint(skip)}}
}

// key tells jobs apart.
func (v *jobView) key() string {
	if v.DocID != nil {
		return v.database() + "/" + *v.DocID
	}
	return text(v.ID) + " of " + text(v.User)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// shard is the name of a part of a database, which CouchDB shows in places.
var shard = regexp.MustCompile(`^shards/[0-9a-f]+-[0-9a-f]+/(.*)\.[0-9]+$`)

func (v *jobView) database() string { return shard.ReplaceAllString(text(v.Database), "$1") }

func (v *jobView) account() string {
	if v.Database == nil {
		return "user:" + text(v.User)
	}
	return v.database()
}

// see notes what a page tells of a job.
func (s *server) see(at time.Duration, now time.Time, id string, v *jobView, running map[string]*taskView) {
	j := s.jobs[id]
	if j == nil {
		j = &job{name: id, account: v.account(), endpoint: hostOf(v.Source)}
		j.continuous = strings.Contains(text(v.ID), "+continuous")
		if v.ID == nil && v.DocID != nil {
			s.kindless = append(s.kindless, kindless{j, v.database(), *v.DocID})
		}
		if at > 0 { // it came between the looks
			j.submit = min(max(at-now.Sub(v.Start), time.Millisecond), at)
		}
		j.age, j.weight = max(0, now.Sub(v.Start)), v.Weight
		s.jobs[id] = j
		s.observed.jobs = append(s.observed.jobs, j)
	}
	j.ran, j.crashes = ranAndCrashed(v.History, now)
	l, info := look{at: at, pending: -1}, v.Info
	if v.PID != nil {
		l.run = 1
		if len(v.History) > 0 {
			l.run = uint64(v.History[0].At.Unix())
		}
	}
	if task := running[text(v.ID)]; task != nil {
		l.run, info = uint64(task.StartedOn), &task.infoView
	}
	if info != nil {
		l.done = info.done()
		if info.Pending != nil {
			l.pending = *info.Pending
		}
	}
	j.looks = append(j.looks, l)
}

// ranAndCrashed sums up the runs of a history, whose newest event is first.
func ranAndCrashed(history []eventView, now time.Time) (ran time.Duration, crashes int) {
	started := time.Time{}
	for _, e := range slices.Backward(history) {
		switch {
		case e.Type == "started":
			started = e.At
			continue
		case e.Type == "crashed", e.Type == "stalled":
			crashes++
		}
		if !started.IsZero() {
			ran += max(0, e.At.Sub(started))
		}
		started = time.Time{}
	}
	if !started.IsZero() {
		ran += max(0, now.Sub(started))
	}
	return ran, crashes
}

// documents reads what documents tell: the sizes of one-shots that have completed, how many have no job, and
// whether a job without an id is continuous.
func (s *server) documents(ctx context.Context) {
	states, read := map[string]int{}, 0
	for _, database := range s.databases() {
		for skip, total := 0, 1; skip < total && read < maxDocs; skip += pageSize {
			var page struct {
				Total int `json:"total_rows"`
				Docs  []struct {
					DocID string    `json:"doc_id"`
					State string    `json:"state"`
					Info  *infoView `json:"info"`
				} `json:"docs"`
			}
			if _, err := s.api.get(ctx, "_scheduler/docs/"+spec.EscapeName(database), pageOf(skip), &page); err != nil {
				s.note("documents of a database could not be read: %v", err)
				break
			}
			if len(page.Docs) == 0 {
				break
			}
			total, read = page.Total, read+len(page.Docs)
			for _, d := range page.Docs {
				size := 0.0
				if d.State == string(jobstore.Completed) && d.Info != nil {
					size = d.Info.done()
				}
				if j := s.jobs[database+"/"+d.DocID]; j != nil { // it may have ended since the first look
					j.size = max(0, size-j.looks[0].done)
					continue
				}
				states[d.State]++
				if size > 0 {
					s.sizes = append(s.sizes, size)
				}
			}
		}
	}
	if read >= maxDocs {
		s.note("only %d documents were read for what completed", read)
	}
	s.others = fmt.Sprintf("no part of the workload are documents in the states completed (%d), failed (%d), "+
		"initializing or error (%d)", states["completed"], states["failed"], states["initializing"]+states["error"])
	s.askKinds(ctx)
}

// databases returns the replicator databases that have jobs.
func (s *server) databases() []string {
	var list []string
	for _, j := range s.observed.jobs {
		if jobstore.IsReplicatorDB(j.account) && !slices.Contains(list, j.account) {
			list = append(list, j.account)
		}
	}
	if len(list) == 0 {
		list = []string{"_replicator"}
	}
	return list
}

// kindless is a job without an id, which would tell whether it is continuous.
type kindless struct {
	*job
	database, document string
}

// askKinds asks the documents of jobs that have no id yet whether they are continuous.
func (s *server) askKinds(ctx context.Context) {
	unknown := max(0, len(s.kindless)-maxAsked)
	for _, k := range s.kindless[:min(len(s.kindless), maxAsked)] {
		var document struct {
			Continuous bool `json:"continuous"`
		}
		if _,
			err := s.api.get(ctx, spec.EscapeName(k.database)+"/"+spec.EscapeName(k.document), nil,
			&document); err != nil {
			unknown++
		}
		k.continuous = document.Continuous
	}
	if unknown > 0 {
		s.note("%d jobs have no id yet; they are taken for one-shots", unknown)
	}
}

// configuration reads the settings, where they are offered.
func (s *server) configuration(ctx context.Context) {
	const path = "_node/_local/_config/"
	if _, err := s.api.get(ctx, path+"replicator", nil, &s.settings); err != nil {
		s.note("[replicator] could not be read: %v", err)
		s.nodes(ctx)
	}
	if _, err := s.api.get(ctx, path+"replicator.shares", nil, &s.shares); err != nil {
		s.note("[replicator.shares] could not be read, so all accounts have the same: %v", err)
	}
}

// nodes asks a couchrelay that does not tell its configuration how many jobs its nodes run.
func (s *server) nodes(ctx context.Context) {
	var list struct {
		Nodes []struct {
			MaxJobs int    `json:"max_jobs"`
			Status  string `json:"status"`
		} `json:"nodes"`
	}
	if _, err := s.api.get(ctx, "_scheduler/nodes", nil, &list); err != nil {
		return // it is no couchrelay, and its configuration is not told: that was noted
	}
	up, most := 0, 0
	for _, n := range list.Nodes {
		if n.Status == "up" {
			up, most = up+1, max(most, n.MaxJobs)
		}
	}
	if up > 0 {
		s.settings = map[string]string{"max_jobs": fmt.Sprint(most)}
		s.note("%d nodes are up; max_jobs of one is %d", up, most)
	}
}
