package replication

import (
	"strings"

	"couchrelay/core/peer"
)

// mood is how servers fail on a document.
type mood struct {
	way
	times int // how often; 0 for ever
}

// way is how a target answers, or what else happens.
type way struct {
	name  string
	code  int
	word  string
	each  bool // a bulk write is answered for each document
	taken bool // the target takes the document all the same
}

// ways are those of moods. Those without a status are no answers of a target to a document.
var ways = []way{
	{name: "forbidden", code: 403, word: "forbidden", each: true},
	{name: "taken but forbidden", code: 403, word: "forbidden", each: true, taken: true},
	{name: "other word", code: 500, word: "internal_server_error", each: true},
	{name: "throws", code: 500, word: "TypeError"},
	{name: "too large", code: 413, word: "document_too_large"},
	{name: "proxy is too small", code: 413},
	{name: "unread", code: 400, word: "bad_request"},
	{name: "down", code: 503},
	{name: "taken but down", code: 503, taken: true},
	{name: "firewall", code: 403},
	{name: "locked out", code: 401, word: "unauthorized"},
	{name: "busy", code: 429},
	{name: "no such media", code: 415, word: "bad_content_type"},
	{name: "missing stub", code: 412, word: "missing_stub"},
	{name: "cut"}, {name: "source fails"}, {name: "source lacks it"},
	{name: "no bulk"}, {name: "unread question"}, {name: "long question"}, {name: "down at a question"},
}

func (o *order) changesMood(id string) {
	o.moods[id] = &mood{ways[o.IntN(len(ways))], o.IntN(6)}
	o.plan.Crashes = o.IntN(2) * lenientAfter
	o.say("%s has the mood %v, after %d crashes", id, *o.moods[id], o.plan.Crashes)
}

// in reports whether servers fail on a document in one of these ways, which counts as once.
func (o *order) in(id string, is func(way) bool) (m mood, fails bool) {
	found := o.moods[id]
	if found == nil || !is(found.way) {
		return mood{}, false
	}
	m = *found
	if found.times--; found.times == 0 {
		delete(o.moods, id)
	}
	return m, true
}

// feels answers requests with documents on which servers fail; nil for others.
func (o *order) feels(c Call) *peer.Reply {
	cut := &peer.Failure{Kind: peer.Broken, Method: "X", URL: "http://x/"}
	sourceFails := &peer.Failure{Side: peer.Source, Kind: peer.Status, Status: 500, Error: "internal"}
	switch op := c.Op.(type) {
	case peer.DiffRevs:
		for _, d := range op.Docs {
			if _, is := o.in(d.ID, func(w way) bool { return w.name == "unread question" }); is {
				return &peer.Reply{Failure: way{code: 400, word: "bad_request"}.failure()}
			}
			if _, is := o.in(d.ID, func(w way) bool { return w.name == "down at a question" }); is {
				return &peer.Reply{Failure: way{code: 503}.failure()}
			}
			if _, is := o.in(d.ID, func(w way) bool { return w.name == "long question" && len(op.Docs) > 1 }); is {
				return &peer.Reply{Failure: way{code: 413}.failure()}
			}
		}
	case peer.FetchDocs:
		for _, d := range op.Docs {
			if _, is := o.in(d.ID, func(w way) bool { return w.name == "source fails" }); is {
				return &peer.Reply{Failure: sourceFails}
			}
			if _, is := o.in(d.ID, func(w way) bool { return w.name == "no bulk" }); is {
				return &peer.Reply{Failure: &peer.Failure{Side: peer.Source, Kind: peer.Status, Status: 405}}
			}
		}
	case peer.WriteDocs:
		for _, k := range op.Docs {
			id := o.kept[k.Fetch][k.Index].ID
			if _, is := o.in(id, func(w way) bool { return w.name == "cut" }); is {
				return &peer.Reply{Failure: cut}
			}
			of := func(w way) bool { return w.code != 0 && (w.code != 412 && w.code != 415 || o.inline[id] > 0) }
			if m, is := o.in(id, of); is {
				return o.writesMoody(c, op, id, m.way)
			}
		}
	case peer.CopyDoc:
		of := func(w way) bool {
			return w.name != "no bulk" && !strings.HasSuffix(w.name, "question") && (w.code != 412 || len(op.Since) > 0)
		}
		switch m, _ := o.in(op.ID, of); {
		case m.name == "":
		case m.name == "cut":
			return &peer.Reply{Result: o.copyDoc(o.dbs[0], o.dbs[1], op, len(op.Revs)/2), Failure: cut}
		case m.name == "source fails":
			return &peer.Reply{Failure: sourceFails}
		case m.code == 429:
			return &peer.Reply{Failure: m.failure()}
		default:
			return o.copiesMoody(op, m.way)
		}
	}
	return nil
}

func (w way) failure() *peer.Failure {
	return &peer.Failure{Side: peer.Target, Kind: peer.Status, Status: w.code, Error: w.word, URL: "http://x/"}
}

// writesMoody is the answer to a bulk write of which a target fails on a document.
func (o *order) writesMoody(c Call, op peer.WriteDocs, id string, w way) *peer.Reply {
	if !w.each && w.taken {
		o.apply(c, false)
	}
	if !w.each {
		return &peer.Reply{Failure: w.failure()}
	}
	var of peer.Written
	var rest []peer.Kept
	for _, k := range op.Docs {
		d := o.kept[k.Fetch][k.Index]
		if d.ID == id {
			of.Refused = append(of.Refused, peer.Refusal{ID: d.ID, Rev: d.Rev, Error: w.word})
		}
		if d.ID != id || w.taken {
			rest = append(rest, k)
		}
	}
	of.Refused = append(of.Refused, o.writeDocs(o.dbs[peer.Target], rest).Refused...)
	return &peer.Reply{Result: of}
}

// copiesMoody is the answer to a copy of a document on which the target fails, or which its source lacks.
func (o *order) copiesMoody(op peer.CopyDoc, w way) *peer.Reply {
	source := o.dbs[peer.Source]
	var got peer.Copied
	for _, asked := range op.Revs {
		out := peer.CopiedRev{Rev: source.latest(op.ID, asked)}
		if w.code == 0 || !source.has(op.ID, asked) {
			out.Missing, out.Rev = true, asked
		} else {
			out.Refused = &peer.Refusal{ID: op.ID, Rev: out.Rev, Status: w.code, Error: w.word}
			if w.taken {
				o.dbs[peer.Target].write(op.ID, source.path(op.ID, out.Rev)...)
			}
		}
		got.Revs = append(got.Revs, out)
	}
	return &peer.Reply{Result: got}
}
