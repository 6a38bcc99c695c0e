package oracle

import (
	"cmp"
	"slices"
	"strings"

	json "github.com/go-json-experiment/json/v1"

	"couchrelay/core/checkpoint"
	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// A replication log holds the checkpoints of a replication in each of its two databases. Its meaning is
// defined here once more, without the core's package checkpoint.

// logs are logs as they were read, by their text, since each is looked at again and again.
type logs map[string]log

// log has the checkpoints of a log: its own, and the ones of its history.
type log struct {
	entries []entry          // nil with err
	made    string           // instance_start_time of the database that the log was written for
	lists   map[string]list  // what its checkpoints cover is on the target, but for these, by session
	states  map[string]list  // the lists of their writers as they were then, by session
	began   map[string]begin // by session
	lone    *lone            // in a target's log that counts without one on the source; else nil
	err     error
}

// entry is a checkpoint in a log: up to seq, everything is on the target.
type entry struct{ session, seq string }

// begin is the run that wrote a checkpoint: when its job was made, and where it began.
type begin struct{ made, seq string }

// list is a job's list of refused documents, as checkpoints know it.
type list struct {
	Job     string `json:"job"`
	Changes int64  `json:"changes"`
}

// lone is by what a log on the target knows a source that stores none: the session of the log that the source
// has from before, its instance_start_time, and the last change that was read of it: the document's leaves; and those
// of the newest change that it had then, unless that is the same, or is not known.
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

// maxLogs is how many logs are remembered.
const maxLogs = 256

func (l logs) read(body []byte) log {
	read, known := l[string(body)]
	if !known {
		read = readLog(body)
		if len(l) == maxLogs {
			clear(l)
		}
		l[string(body)] = read
	}
	return read
}

// entries are nil for no log, and for one that cannot be read (S11b).
func (l logs) entries(body []byte) []entry { return l.read(body).entries }

// head is the newest checkpoint of a log.
func (l logs) head(body []byte) (entry, error) {
	read := l.read(body)
	if read.err != nil {
		return entry{}, read.err
	}
	return read.entries[0], nil
}

func readLog(body []byte) log {
	var l struct {
		SessionID     string          `json:"session_id"`
		SourceLastSeq json.RawMessage `json:"source_last_seq"`
		InstanceStart string          `json:"instance_start_time"`
		Lone          *lone           `json:"source_read_only"`
		History       []struct {
			SessionID   string          `json:"session_id"`
			RecordedSeq json.RawMessage `json:"recorded_seq"`
			List        list            `json:"list"`
			State       list            `json:"list_state"`
			StartTime   string          `json:"start_time"`
			StartSeq    json.RawMessage `json:"start_last_seq"`
		} `json:"history"`
	}
	if err := json.Unmarshal(body, &l); err != nil {
		return log{err: err}
	}
	all, began := []entry{{l.SessionID, string(l.SourceLastSeq)}}, map[string]begin{}
	lists, states := map[string]list{}, map[string]list{}
	for _, h := range l.History {
		all = append(all, entry{h.SessionID, string(h.RecordedSeq)})
		began[h.SessionID] = begin{h.StartTime, string(h.StartSeq)}
		if h.List != (list{}) {
			lists[h.SessionID] = h.List
		}
		states[h.SessionID] = cmp.Or(h.State, h.List)
	}
	return log{entries: all, made: l.InstanceStart, lists: lists, states: states, began: began, lone: l.Lone}
}

// state is the list of a job as its newest checkpoint in a log tells it that tells any.
func (l log) state(job string) list {
	for _, e := range l.entries {
		if s := l.states[e.session]; s.Job == job {
			return s
		}
	}
	return list{}
}

// relies is the list that the newest checkpoint of a log relies on.
func (l log) relies() list {
	if len(l.entries) == 0 {
		return list{}
	}
	return l.lists[l.entries[0].session]
}

// agreed is where a job's next run begins: behind the last change that a target's log knows of a source which
// stores none, and else where the logs of two databases last agree, at the newest checkpoint that both have. Those that
// rely on a list count for the job that has it.
func (l logs) agreed(source, target *peers.DB, base string, of reader) peer.Seq {
	if l.behind(source, target, base, of) {
		return peer.Zero
	}
	last := l.lone(source, target, base)
	if last != nil && l.counts(target, base, l.trusted(target, base)[0], of) {
		return peer.Seq(last.Seq)
	}
	if e, _ := l.common(source, target, base, of); e != (entry{}) {
		return peer.Seq(e.seq)
	}
	return peer.Zero
}

// lone is what the target's log knows of a source that stores none, as long as that holds; nil for any other
// log. A server whose sequences are numbers has to tell an instance_start_time.
func (l logs) lone(source, target *peers.DB, base string) *lone {
	if l.trusted(target, base) == nil || nameless(source) {
		return nil
	}
	of, has := l.read(target.Log(base)).lone, ""
	if body := source.Log(base); body != nil {
		head, _ := l.head(body) // S11b tells of one that cannot be read
		has = head.session
	}
	lacks := func(r peers.Revision) bool { return !source.Has(r.ID, r.Rev) }
	if of == nil || of.Session != has ||
		of.Start != peers.InstanceStart(source) || slices.ContainsFunc(of.known(), lacks) || !of.keepsPlace(source) {
		return nil
	}
	return of
}

// keepsPlace reports whether the last change may have been that of its document: what is there under its number now, if
// anything, is that document, and the feed has not ended before. A document that was edited since has a later number.
func (l *lone) keepsPlace(source *peers.DB) bool {
	if !source.Server.Numeric {
		return true
	}
	at := source.Number(peer.Seq(l.Seq))
	rest := source.OffersAfter(at-1, spec.Filter{}, false)
	return len(rest) > 0 && (rest[0].Number != at || rest[0].ID == l.ID)
}

// nameless reports whether a database cannot be known by what it tells of itself: its sequences are numbers, which each
// database has, and it has no instance_start_time. Nothing but a log is a proof there.
func nameless(db *peers.DB) bool { return db.Server.Numeric && db.Server.Starts == peers.NoStarts }

// mistakable reports whether a database may pass for another one of its name that was there in the same life of its
// server: its sequences are numbers, and it does not tell its own start.
func mistakable(db *peers.DB) bool { return db.Server.Numeric && !db.Server.TellsApart() }

// misled reports whether what the target's log knows of a source that stores none may be of another database.
func (l logs) misled(source, target *peers.DB, base string) bool {
	return mistakable(source) && l.lone(source, target, base) != nil
}

// leaves are the leaves of the last change's document, as the log has them.
func (l *lone) leaves() []string { return append([]string{l.Rev}, l.Others...) }

// known are the revisions by which the source is known: those leaves, and those of the newest change.
func (l *lone) known() (all []peers.Revision) {
	for _, rev := range l.leaves() {
		all = append(all, peers.Revision{ID: l.ID, Rev: rev})
	}
	if l.NewestID != "" {
		for _, rev := range append([]string{l.NewestRev}, l.NewestOthers...) {
			all = append(all, peers.Revision{ID: l.NewestID, Rev: rev})
		}
	}
	return all
}

// purged reports whether the source had one of them, and it was purged: to a run such a source was put back.
func (l *lone) purged(source *peers.DB) bool {
	gone := func(r peers.Revision) bool { return peers.Purged(source, r.ID, r.Rev) }
	return l != nil && slices.ContainsFunc(l.known(), gone)
}

// common is the newest checkpoint that the logs of both databases have and at which a job may begin, by what it relies
// on, or since a later one of the target that relies on nothing covers as much; zero if there is none. passed are those
// of the target that do not help.
func (l logs) common(source, target *peers.DB, base string, of reader) (e entry, passed []entry) {
	known := l.trusted(target, base)
	for _, e := range l.trusted(source, base) {
		for _, o := range known[:slices.Index(known, e)+1] {
			if (o == e || l.covers(target, base, o, e)) && l.counts(target, base, o, of) {
				return e, passed
			}
			passed = append(passed, o)
		}
	}
	return entry{}, passed
}

// covers reports whether a checkpoint of the target relies on nothing, and covers what an older one does. Numbers do
// not tell of two runs, unless the one began at the end of the other: they may be of a cluster, or the other one has
// met what has moved since.
func (l logs) covers(target *peers.DB, base string, newer, older entry) bool {
	began := l.read(target.Log(base)).began
	by := began[newer.session]
	follows := by == began[older.session] || by.seq == older.seq
	asFar := newer.seq == older.seq || follows && !peer.Seq(newer.seq).Before(peer.Seq(older.seq))
	return asFar && l.read(target.Log(base)).lists[newer.session] == (list{})
}

// reader is a job that looks where it may begin.
type reader struct {
	list  list     // as it is now
	has   bool     // it is of the replication, and has revisions
	saved [2]int64 // of which state of the list a database had a checkpoint, by peer.Side
}

// readerOf is the job of a run as it was when the run began.
func (r *run) readerOf() reader { return readerOf(r.Work(), r.Replication(), r.Base()) }

// readerOf is a job as it is now.
func (k *known) readerOf(jobID string, rep *spec.Replication, base string) reader {
	w := jobstore.Work{JobID: jobID, Record: &jobstore.Record{}}
	if s := k.shadows[jobID]; s != nil && s.record != nil {
		w.Record = s.record
	}
	return readerOf(w, rep, base)
}

func readerOf(w jobstore.Work, rep *spec.Replication, base string) reader {
	list, of := list(w.List()), w.Record.Refused
	has := of != nil && of.Listed > 0 && of.Of == base && rep.UseCheckpoints
	saved := savedBy(w.Record)
	if was := savedOf(w.Record); was != "" && !strings.HasPrefix(was, base) {
		saved = [2]int64{} // of another replication, which the job was
	}
	return reader{list, has, saved}
}

// savedBy is of which states of the list the databases have a checkpoint, or are to have one, by peer.Side: both are to
// tell what left the list last, unless a run has told of a later checkpoint.
func savedBy(rec *jobstore.Record) [2]int64 {
	if rec.Refused != nil && rec.Refused.Left > rec.Stats.ListSaved[peer.Target] {
		return [2]int64{rec.Refused.Left, rec.Refused.Left}
	}
	return rec.Stats.ListSaved
}

// savedOf is the id of the replication that a job was when its last run told of checkpoints, or the base id of that;
// empty if that is not known.
func savedOf(rec *jobstore.Record) string {
	if rec.RepID == "" && rec.Refused != nil {
		return rec.Refused.Of
	}
	return rec.RepID
}

// counts reports whether a job may begin at a checkpoint of the target: what that covers is there, or in the job's
// list.
func (l logs) counts(target *peers.DB, base string, e entry, of reader) bool {
	needs := l.read(target.Log(base)).lists[e.session]
	return needs == (list{}) || of.has && needs.Job == of.list.Job && needs.Changes <= of.list.Changes
}

// behind reports whether the job's newest checkpoint in a database is of a list before the one that the database had a
// checkpoint of: what has left the list since is not there, or, on a source, other revisions are there again. The
// target had each one that the source has.
func (l logs) behind(source, target *peers.DB, base string, of reader) bool {
	had := of.saved
	for side, db := range [2]*peers.DB{peer.Source: source, peer.Target: target} {
		if l.trusted(db, base) == nil {
			continue
		}
		now := l.read(db.Log(base)).state(of.list.Job)
		if now.Job == of.list.Job && now.Changes < had[side] {
			return true
		}
		if now.Job == of.list.Job {
			had[peer.Target] = max(had[peer.Target], now.Changes)
		}
	}
	return false
}

// trusted are the checkpoints of a database's log; none when it was written for another database of that
// name. Databases outside of clusters get another start whenever their server does, but they accept a log
// without its revision only as the first one, so there the start counts for first logs alone.
func (l logs) trusted(db *peers.DB, base string) []entry {
	log := l.read(db.Log(base))
	first := db.LogRev(base) == "0-1"
	if log.made != "" && log.made != peers.InstanceStart(db) && (first || db.Server.Clustered()) {
		return nil
	}
	return log.entries
}

// lacksList reports whether the checkpoints that a job finds cover revisions which only an earlier list of its own had:
// the newest one that it might begin at, or one that it would pass over; or that a database is behind the list.
func (l logs) lacksList(source, target *peers.DB, base string, of reader) bool {
	if l.behind(source, target, base, of) {
		return true
	}
	lists := l.read(target.Log(base)).lists
	_, looked := l.common(source, target, base, of)
	for _, e := range l.trusted(target, base) {
		if needs := lists[e.session]; needs == (list{}) || needs.Job == of.list.Job {
			looked = append(looked, e)
			break
		}
	}
	return slices.ContainsFunc(looked, func(e entry) bool {
		return lists[e.session].Job == of.list.Job && !l.counts(target, base, e, of)
	})
}

// listOf is the base id of the replication whose list the run's job had when it began; empty if nothing was listed.
func (r *run) listOf() string {
	if list := r.Record().Refused; list != nil && list.Listed > 0 {
		return list.Of
	}
	return ""
}

// item is an entry in the history of a log, with the members beside its checkpoint.
type item struct {
	Start string `json:"start_time"`
	End   string `json:"end_time"`
	checkpoint.Counters
}

// historyOf is the history of a log; nil for a body that is no log.
func historyOf(body []byte) []json.RawMessage {
	var log struct{ History []json.RawMessage }
	_ = json.Unmarshal(body, &log) // S11b tells
	return log.History
}

// bothLogs are the two logs of a replication at one moment. They are compared by their texts: jobs that
// differ in a few options write the same logs, which may come to agree on the same sequence anew.
type bothLogs struct {
	source, target       *peers.DB // nil when the logs cannot be judged
	restoredS, restoredT int       // how often the databases had been put back from a backup
	textS, textT         string
	start                peer.Seq // where a run would begin that finds them
}

// logsOf are the logs for a run as they are now.
func (k *known) logsOf(r *run) (l bothLogs) {
	if l.source, l.target = k.checkpointed(r.Replication()); l.source == nil {
		return l
	}
	base := r.Base()
	l.restoredS, l.restoredT = l.source.Restored(), l.target.Restored()
	l.textS, l.textT = string(l.source.Log(base)), string(l.target.Log(base))
	l.start = k.logs.agreed(l.source, l.target, base, r.readerOf())
	if k.logs.lacksList(l.source, l.target, base, r.readerOf()) {
		l.start = peer.Zero
	}
	if since := r.Replication().SinceSeq; l.start == peer.Zero && since != nil {
		l.start = peer.Seq(since)
	}
	return l
}

// checkpointed are the databases of a replication whose checkpoints can be judged; nil for others, since a
// filter function may select something else by now.
func (k *known) checkpointed(rep *spec.Replication) (source, target *peers.DB) {
	source, target = k.w.Database(rep.Source.URL), k.w.Database(rep.Target.URL)
	if rep.Filter.Kind == spec.FunctionFilter || source == nil || target == nil {
		return nil, nil
	}
	return source, target
}

// writer is the run under way whose log has an id, with its databases, of which each is nil while it does not
// exist. Of several runs with that log it is the first.
func (k *known) writer(base string) (r *run, source, target *peers.DB) {
	for _, r := range k.runs {
		if r.RepID() != "" && r.Base() == base {
			rep := r.Replication()
			return r, k.w.Database(rep.Source.URL), k.w.Database(rep.Target.URL)
		}
	}
	return nil, nil, nil
}

// senders are the runs that first sent a checkpoint, by its session: a log that is found under the id of an
// older server is sent again, by a run that knows no more of it. Only the chronicle changes them.
type senders map[string]*world.Run

// note notes the run that sends a checkpoint to a side.
func (s senders) note(f world.RunCalls, logs logs) {
	if put, is := f.Op.(peer.PutLocal); is {
		head, _ := logs.head(put.Body) // a body that is no log has no session
		if s[head.session] == nil {
			s[head.session] = f.Run
		}
	}
}

// madeSince reports whether one of the databases was made again since a run began, or since the run began
// that sent this checkpoint. The run will notice, and take the checkpoint back; if it does not, S12 tells.
func (s senders) madeSince(r *run, session string, source, target *peers.DB) bool {
	of := s[session]
	return of == nil || max(source.Since, target.Since) >= min(r.Began(), of.Began())
}
