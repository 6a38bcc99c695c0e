package oracle

import (
	"encoding/json"
	"fmt"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/spec"
	"couchrelay/sim/world"
)

// register is a replication document with its job, or the job of a request, as one user after the other would see it.
// A job goes on by itself: it may have ended wherever that is not known.
type register struct {
	token   uint64 // of the last write of the document, be it a deletion
	there   bool
	dropped bool           // the database is gone, for ever
	over    jobstore.State // how the job ended, as far as that is known
	doc     meaning        // what the document asks for
	job     meaning        // what the job does, or is listed by
	// The job was made by a user who began to write between these two moments.
	earliest, latest instant.Time
	paused           sureness // by an order
}

// sureness is what follows from all answers to users about one property of a job: it holds, it does not, or it may.
type sureness uint8

const (
	no sureness = iota
	yes
	unsure
)

// meaning is what a document or request asks for. Everything else that is changed in this world is no concern of the
// job.
type meaning struct {
	any            bool // it is not known
	Source, Target string
	by             [2]string // who asks each of them
	Continuous     bool
	Paused         bool
	Weight         int64
}

// same reports whether two ask for the same replication, which goes on when a user pauses or weighs it.
func (m meaning) same(other meaning) bool {
	return m.Source == other.Source && m.Target == other.Target && m.by == other.by &&
		m.Continuous == other.Continuous
}

func meaningOf(r *spec.Replication) meaning {
	return meaning{
		Source: r.Source.URL, Target: r.Target.URL, by: [2]string{askedBy(r.Source), askedBy(r.Target)},
		Continuous: r.Continuous, Paused: r.Paused, Weight: orUsual(r.Weight),
	}
}

// usualWeight is the weight of a job whose document names none.
const usualWeight = 100

func orUsual(weight int64) int64 {
	if weight == 0 {
		return usualWeight
	}
	return weight
}

// databasePrefix is the beginning of the ids of the jobs of a database.
func databasePrefix(instance [16]byte) string { return jobstore.DocumentJobs(instance) }

// deed is what a user did, or was told. It reports whether it may have come next, and what it leaves.
type deed interface {
	on(register) (after register, may bool)
}

// anew has a user make the job at a moment, in place of any that there was.
func (s *register) anew(job meaning, from, to instant.Time) {
	s.paused = s.perhapsAnew()
	s.over, s.job, s.earliest, s.latest = "", job, from, to
}

// perhapsAnew is what is known of the pause of a job that is made anew, if it is: it goes on for one that is not over.
func (s *register) perhapsAnew() sureness {
	switch {
	case !s.there || s.over != "":
		return no
	case s.paused == yes:
		return unsure
	}
	return s.paused
}

// listed has a job that is over be listed by what its document says by now, of which nothing pauses it any more.
func (s *register) listed(as meaning, wrong bool) {
	as.any = as.any || s.job.any || wrong
	as.Paused = s.job.Paused
	s.job = as
}

// goOn has a user ask for the same again, from whom the job is only if it was over.
func (s *register) goOn(job meaning, at instant.Time) {
	s.paused, s.job = s.perhapsAnew(), job
	s.earliest, s.latest = min(s.earliest, at), max(s.latest, at)
}

// wrote is a write or deletion of a document.
type wrote struct {
	*world.Write
	sure   bool // its user was told that it happened
	moment *moment
}

func (w *wrote) String() string {
	return fmt.Sprintf("after %d write %d, known %v: %s", w.Seen, w.Token, w.sure, w.Sent)
}

// on compares the revision that the user saw: a write that nobody knows of may land late, and then only on that.
func (w *wrote) on(s register) (register, bool) {
	if s.dropped || s.token != w.Seen {
		return s, !w.sure
	}
	var sent struct {
		meaning
		Source, Target endpoint
		Deleted        bool   `json:"_deleted"`
		State          string `json:"_replication_state"`
	}
	if json.Unmarshal(w.Sent, &sent) != nil || w.Brought { // which may ask for nothing that is possible
		sent.meaning = meaning{any: true}
	}
	sent.meaning.Source, sent.by[0] = sent.Source.asks()
	sent.meaning.Target, sent.by[1] = sent.Target.asks()
	sent.Weight = orUsual(sent.Weight)
	state := jobstore.State(sent.State)
	switch {
	case sent.Deleted && !s.there:
		return s, true
	case sent.Deleted:
		return register{token: w.Token}, true
	case state.Terminal() && s.there && s.over != "" && s.over != state:
		return s, !w.sure
	case state.Terminal() && s.there: // as the user read it, and the job is listed by what the document says
		s.over = state
		s.listed(sent.meaning, w.Wrong)
	case !s.there || s.over != "" || w.Wrong || !s.job.any && !s.job.same(sent.meaning):
		latest := w.At
		if w.Brought {
			latest = w.moment.over
		}
		s.anew(sent.meaning, w.At, latest)
		if w.Wrong {
			state = jobstore.Failed
		}
		if state.Terminal() {
			s.over = state
		}
	default:
		s.goOn(sent.meaning, w.At)
	}
	s.token, s.there, s.doc = w.Token, true, sent.meaning
	return s, true
}

// dropped is the deletion of a database.
type dropped struct{}

func (dropped) String() string { return "drop the database" }

func (dropped) on(register) (register, bool) { return register{dropped: true}, true }

// requested is a request to _replicate.
type requested struct {
	job    meaning
	at     instant.Time
	sure   bool
	moment *moment
}

func (r *requested) String() string { return fmt.Sprintf("request %+v, known %v", r.job, r.sure) }

// on has requests that differ in what the id of the job has not replace one another's jobs.
func (r *requested) on(s register) (register, bool) {
	if !s.there || s.over != "" {
		s.anew(r.job, r.at, r.at)
	} else {
		s.goOn(r.job, r.at)
	}
	s.there, s.doc = true, r.job
	return s, true
}

// ordered is an order to a job.
type ordered struct {
	verb  world.Verb
	at    instant.Time
	tells bool // its user is told whether there was anything to do
	sure  bool // it was carried out; with tells, there was
}

func (o *ordered) String() string { return fmt.Sprintf("%s, known %v", o.verb, o.sure) }

// on has an order that is not known to be carried out do so where it can.
func (o *ordered) on(s register) (register, bool) {
	ends := s.over != ""
	switch {
	case o.verb == world.Cancel && !o.tells:
		return register{}, true
	case !s.there, ends && o.verb != world.Retry,
		o.verb == world.Pause && s.paused == yes, o.verb == world.Resume && s.paused == no:
		return s, !o.sure
	}
	switch o.verb {
	case world.Pause:
		s.paused = yes
	case world.Resume:
		s.paused = no
	case world.Cancel:
		return register{}, true
	case world.Retry:
		if ends {
			s.anew(s.doc, o.at, o.at)
		} else { // it waited, or was over
			s.goOn(s.job, o.at)
		}
	}
	return s, true
}

// saw is what a user was told of a job or document.
type saw struct {
	found bool
	at    instant.Time // when
	state jobstore.State
	// One of these two may be there: the job, or the document with the token of its write.
	view   *jobstore.View
	token  uint64
	silent bool // a function may keep the state from the document
	// forgotten is since when a job without a document that was made then may be gone, as its time is over.
	forgotten instant.Time
}

func (o *saw) String() string {
	if v := o.view; v != nil {
		return fmt.Sprintf("see job %s made %s, %s to %s, continuous %v, weight %d, paused %v, by its document %v",
			o.state, v.Created, v.Source, v.Target, v.Continuous, v.Weight, v.Pause != nil, v.PausedByDocument)
	}
	return fmt.Sprintf("see %q, there %v, written as %d", o.state, o.found, o.token)
}

// sightOf is what a user saw.
func (c *chronicle) sightOf(f *world.Sight) *saw {
	o := &saw{found: f.Found, at: c.w.Now(), view: f.View}
	if f.View != nil {
		o.state = f.View.State
	}
	if f.Body != nil {
		var t told
		_ = json.Unmarshal(f.Body, &t) // it is an object
		o.state, o.token, o.silent = jobstore.State(t.State), t.Token, c.forbidden[t.Tag]
	}
	return o
}

// on has a job end, at the latest, before a user is told that it has.
func (o *saw) on(s register) (register, bool) {
	if s.dropped && o.token == 0 && o.view == nil {
		return s, true // who waits for a job of a deleted database sees it until it is swept
	}
	if !o.found {
		if s.there && s.token == 0 && s.earliest <= o.forgotten {
			return register{}, true
		}
		return s, !s.there
	}
	ended := jobstore.State("")
	if o.state.Terminal() {
		ended = o.state
	}
	unknown := s.over == "" || o.silent && ended == ""
	if !s.there || ended != s.over && !unknown || o.token != 0 && o.token != s.token {
		return s, false
	}
	if ended != "" {
		s.over = ended
	}
	if o.view == nil {
		return s, true
	}
	return s, s.shows(o.view)
}

// shows reports whether a job may be shown so, and learns from that which one it is.
func (s *register) shows(v *jobstore.View) bool {
	shown := meaning{Source: v.Source, Target: v.Target, Continuous: v.Continuous, Paused: v.PausedByDocument,
		Weight: v.Weight, by: s.job.by} // which nobody is shown
	paused := no
	if v.Pause != nil {
		paused = yes
	}
	switch {
	case v.Created < s.earliest, v.Created > s.latest, s.paused != unsure && s.paused != paused:
		return false
	case !s.job.any && shown != s.job:
		return false
	case v.State == jobstore.Paused && paused == no && !v.PausedByDocument:
		return false
	}
	s.earliest, s.latest, s.paused = v.Created, v.Created, paused
	return true
}
