package oracle

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// saver is a run of a test that writes checkpoints.
type saver struct {
	*rig
	run     *world.Run
	entries []map[string]any // of its history, newest first
}

// logID is the id of its logs.
const logID = "base"

// savesIn starts a continuous run that has looked for its logs and begun to read.
func (r *rig) savesIn(members map[string]any) *saver {
	s := r.looksIn(members)
	s.does(s.run, peer.ReadChanges{Since: from}, rows(from))
	return s
}

// looksIn starts a continuous run that has looked for its logs.
func (r *rig) looksIn(members map[string]any) *saver {
	if members == nil {
		members = map[string]any{"continuous": true}
	}
	r.pass(time.Second) // the databases are older than the run
	s := &saver{rig: r, run: r.run(members)}
	s.run.Identify(logID)
	for side, db := range []string{"s1 a1", "s2 b1"} {
		var server, name string
		_, _ = fmt.Sscan(db, &server, &name)
		s.does(s.run, peer.GetLocal{Side: peer.Side(side), ID: logID},
			peer.Local{Body: r.db(server, name).Log(logID)})
	}
	return s
}

// has is a run that has done all through a sequence, and read as far.
func (s *saver) has(seq peer.Seq, ids ...string) {
	s.run.SetInfo(replication.Info{ThroughSeq: seq})
	s.does(s.run, peer.ReadChanges{Since: from}, rows(seq, ids...))
}

// commits has the run ask both sides to make their writes durable.
func (s *saver) commits() {
	for _, side := range []peer.Side{peer.Source, peer.Target} {
		s.does(s.run, peer.Commit{Side: side}, peer.Committed{})
	}
}

// log is the log of a session at a sequence, changed by a test.
func (s *saver) log(session string, seq peer.Seq, but func(log, newest map[string]any)) []byte {
	date := func(us int64) string { return time.UnixMicro(us).UTC().Format(http.TimeFormat) }
	raw := json.RawMessage(seq)
	newest := map[string]any{
		"session_id": session, "recorded_seq": raw, "start_last_seq": json.RawMessage(from),
		"end_last_seq": raw,
		"start_time":   date(int64(s.run.Record().Created)), "end_time": date(int64(s.node(1).Steady())),
	}
	s.entries = append([]map[string]any{newest}, s.entries...)
	log := map[string]any{"session_id": session, "source_last_seq": raw}
	if but != nil {
		but(log, newest)
	}
	log["history"] = s.entries
	body, err := json.Marshal(log)
	if err != nil {
		s.t.Fatal(err)
	}
	return body
}

// puts has the run write a log to a side.
func (s *saver) puts(side peer.Side, body []byte) {
	op := peer.PutLocal{Side: side, ID: logID, Body: body}
	id := s.call(s.run, op)
	db := s.db("s1", "a1")
	if side == peer.Target {
		db = s.db("s2", "b1")
	}
	peers.PutLog(db, logID, body)
	s.answer(s.run, id, op, peer.Reply{Result: peer.LocalWritten{}})
}

// saves has the run write a whole checkpoint at its progress.
func (s *saver) saves(session string) {
	s.commits()
	body := s.log(session, s.run.Info().ThroughSeq, nil)
	s.puts(peer.Target, body)
	s.puts(peer.Source, body)
}

// write has a run save once, in a log changed by a test.
func write(but func(log, newest map[string]any)) func(*rig) {
	return func(r *rig) {
		s := r.savesIn(nil)
		s.has(r.db("s1", "a1").Last())
		s.commits()
		s.puts(peer.Target, s.log("one", s.run.Info().ThroughSeq, but))
	}
}

// savingKept notes the checkpoints of runs, and judges nothing.
var savingKept = subject{begin: func(c *chronicle) {
	sv := &savings{c}
	c.on.logWritten.add(sv.noteWritten)
	c.on.runCalls.add(func(c call) {
		if op, is := c.op.(peer.PutLocal); is {
			c.saving.sends(op, c.feed.begun, sv.logs)
		}
	})
	c.on.runReplied.add(func(a reply) { a.saving.note(a, c.w.Now()) })
	c.on.runReplied.add(sv.noteSeen)
}}

// lookupKept notes the logs that runs find, and judges where they begin only.
var lookupKept = subject{begin: func(c *chronicle) {
	c.on.runCalls.add((&checkpoints{chronicle: c}).called)
}}
