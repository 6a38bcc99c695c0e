package protocol

import (
	"cmp"
	"slices"

	"couchrelay/core/peer"

	json "github.com/go-json-experiment/json/v1"
)

// log is a replication log, as far as it decides where a run begins.
type log struct {
	entries []entry // the checkpoint above the history, and those in it; none when there is no log
	history []string
	made    string // instance_start_time of the database that it was written for
	mark    string // of the first log of the database
	lone    *lone
	head    head
	// lists are those that checkpoints rely on, by session: their writer goes on trying to copy revisions of that.
	lists map[string]List
	// states are the lists of their writers as they were then, by session.
	states map[string]List
	began  map[string]began // by session
	fails  bool             // it cannot be read
}

// List is a job's list of refused documents, as checkpoints know it.
type List struct {
	Job     string `json:"job"`     // a digest of its id
	Changes int64  `json:"changes"` // of the list so far
}

// entry is a checkpoint: up to seq everything is on the target.
type entry struct {
	session string
	seq     peer.Seq
}

// began is the run that wrote a checkpoint: when its job was made, and where it began.
type began struct {
	made string
	seq  peer.Seq
}

// lone is by what a target's log knows a source that stores none.
type lone struct {
	Session string          `json:"session_id"`
	Start   string          `json:"instance_start_time"`
	ID      string          `json:"last_id"`
	Rev     string          `json:"last_rev"`
	Others  []string        `json:"last_others"`
	Seq     json.RawMessage `json:"last_seq"`

	NewestID     string   `json:"newest_id"`
	NewestRev    string   `json:"newest_rev"`
	NewestOthers []string `json:"newest_others"`
}

// last is the question for the last change, and newest that for the newest one of then.
func (l *lone) last() peer.FindRev {
	op := peer.FindRev{ID: l.ID, Revs: append([]string{l.Rev}, l.Others...)}
	if _, numbered := peer.Seq(l.Seq).Number(); numbered {
		op.At = peer.Seq(l.Seq)
	}
	return op
}

func (l *lone) newest() peer.FindRev {
	return peer.FindRev{ID: l.NewestID, Revs: append([]string{l.NewestRev}, l.NewestOthers...)}
}

// asks are the questions that tell whether a source is the one that it was, in their order.
func (l *lone) asks() []peer.FindRev {
	if l.NewestID == "" {
		return []peer.FindRev{l.last()}
	}
	return []peer.FindRev{l.last(), l.newest()}
}

func equal(a, b peer.FindRev) bool {
	return a.ID == b.ID && a.At == b.At && slices.Equal(a.Revs, b.Revs)
}

// head is what the newest entry in a history says of its run.
type head struct {
	Start    json.RawMessage `json:"start_last_seq"`
	End      json.RawMessage `json:"end_last_seq"`
	Recorded json.RawMessage `json:"recorded_seq"`
}

// readLog reads a log. Most are read again and again: when they are written to a database, when they are there, and
// when they go to the other one.
func (r *Run) readLog(body []byte) log {
	if s := &r.save; string(body) != s.text {
		s.text, s.log = string(body), readLog(body)
	}
	return r.save.log
}

func readLog(body []byte) (l log) {
	var told struct {
		Session string            `json:"session_id"`
		Seq     json.RawMessage   `json:"source_last_seq"`
		Made    string            `json:"instance_start_time"`
		Mark    string            `json:"mark"`
		Lone    *lone             `json:"source_read_only"`
		Relies  bool              `json:"unfinished"`
		List    List              `json:"list"`
		History []json.RawMessage `json:"history"`
	}
	if len(body) == 0 {
		return log{}
	}
	if err := json.Unmarshal(body, &told); err != nil {
		return log{fails: true}
	}
	l.made, l.mark, l.lone = told.Made, told.Mark, told.Lone
	l.lists, l.states, l.began = map[string]List{}, map[string]List{}, map[string]began{}
	if told.Session != "" {
		l.entries = append(l.entries, entry{told.Session, peer.Seq(told.Seq)})
	}
	for i, raw := range told.History {
		var e struct {
			Session string `json:"session_id"`
			List    List   `json:"list"`
			State   List   `json:"list_state"`
			Made    string `json:"start_time"`
			head
		}
		if json.Unmarshal(raw, &e) != nil {
			return log{fails: true}
		}
		if i == 0 {
			l.head = e.head
		}
		if told.Session != "" {
			l.entries = append(l.entries, entry{e.Session, peer.Seq(e.Recorded)})
		}
		if e.List != (List{}) {
			l.lists[e.Session] = e.List
		}
		l.states[e.Session] = cmp.Or(e.State, e.List)
		l.began[e.Session] = began{e.Made, peer.Seq(e.Start)}
		l.history = append(l.history, string(raw))
	}
	l.fails = told.List != l.lists[told.Session] || told.Relies != (told.List != List{})
	return l
}

// state is the list of a job as its newest checkpoint tells it that tells any.
func (l *log) state(job string) List {
	for _, e := range l.entries {
		if s := l.states[e.session]; s.Job == job {
			return s
		}
	}
	return List{}
}

// session is the session id of the log's newest checkpoint; empty for a log without checkpoints.
func (l *log) session() string {
	if len(l.entries) == 0 {
		return ""
	}
	return l.entries[0].session
}

func (l *log) has(session string) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool { return e.session == session })
}

// known reports whether an instance_start_time tells anything.
func known(start string) bool { return start != "" && start != "0" }

// firstRev is the revision of a _local document that was written once.
const firstRev = "0-1"

// trusted are the checkpoints of a database's log that count. A log that was written for another database
// of that name counts for nothing. Servers that number their changes may give the time of their own start
// instead, but take a log without its revision only as the first one: there only first logs are in doubt.
func (s *side) trusted() []entry {
	if s.foreign() {
		return nil
	}
	return s.log.entries
}

// foreign reports whether a log was written for another database.
func (s *side) foreign() bool {
	other := known(s.log.made) && known(s.start) && s.log.made != s.start
	return other && (s.clustered || s.rev == firstRev)
}

// common is the newest checkpoint that the run's logs have and at which it may begin, by what it may rely on. So it may
// if the target has a later one that relies on nothing and covers as much. It is zero if there is none. passed are
// those of the target that do not help.
func (r opener) common() (e entry, passed []entry) {
	target := r.start.sides[peer.Target].trusted()
	for _, e := range r.start.sides[peer.Source].trusted() {
		for _, o := range target[:slices.Index(target, e)+1] {
			if r.may(o.session) && (o == e || r.covers(o, e)) {
				return e, passed
			}
			passed = append(passed, o)
		}
	}
	return entry{}, passed
}

// covers reports whether a checkpoint of the target relies on nothing, and covers what an older one does. The number in
// front of a sequence does not tell of two runs, unless the newer one began at the older.
func (r opener) covers(newer, older entry) bool {
	log := r.start.sides[peer.Target].log
	by := log.began[newer.session]
	follows := by == log.began[older.session] || by.seq == older.seq
	asFar := newer.seq == older.seq || follows && !newer.seq.Before(older.seq)
	return asFar && log.lists[newer.session] == (List{})
}
