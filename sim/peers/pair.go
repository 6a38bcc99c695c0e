package peers

import (
	"context"
	"slices"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/ratelimit"
	"couchrelay/core/spec"
	"couchrelay/sim/engine"
)

// Network is how a process reaches the servers.
type Network interface {
	// Server returns the server with a host name, or nil.
	Server(name string) *Server
	// Fate decides what goes wrong with a request, if anything, and how long the request and its answer
	// travel.
	Fate(owner *engine.Process, s *Server, op peer.Op) (fault Fault, there, back time.Duration)
	// Cut reports whether requests of a process do not reach a server now, and Deaf whether answers do not reach
	// the process.
	Cut(owner *engine.Process, s *Server) bool
	Deaf(owner *engine.Process, s *Server) bool
	// Carry has bytes of a request or an answer travel between a process and a server, which takes time on a narrow
	// line. The error is that of the context.
	Carry(ctx context.Context, owner *engine.Process, s *Server, bytes int) error
	// Narrow reports whether that takes time now.
	Narrow(owner *engine.Process, s *Server) bool
	// Arrives is called for every request when it is at its server, with the credentials that it brings, and
	// returns how the server refuses it, or nil.
	Arrives(s *Server, database string, op peer.Op, by spec.Credentials) *peer.Failure
	// Redirect returns where the server, or something in front of it, redirects requests with a method now; nil if it
	// does not.
	Redirect(s *Server, method string) *Redirect
	// Silent reports whether the server's feeds stay open now and send nothing but heartbeats.
	Silent(s *Server) bool
	// Wished is called when the server of a database wants no requests of a kind until a time by the
	// process's clock.
	Wished(owner *engine.Process, key ratelimit.Key, until instant.Time)
	// Welcomed is called when the server of a database has answered a request and asks for no quiet.
	Welcomed(owner *engine.Process, key ratelimit.Key)
	// Sends is called for every request that leaves: when the limiter was asked, by the process's clock, and
	// how long the limiter held the request back.
	Sends(owner *engine.Process, key ratelimit.Key, asked instant.Time, held time.Duration)
	// Withheld is called for every request that fails since the limiter holds back all of its kind, with the time
	// after which it may be tried again.
	Withheld(owner *engine.Process, key ratelimit.Key, wait time.Duration)
	// Torn is called when a source breaks off an answer with several revisions of a document.
	Torn(db *DB, id string)
	// Refused is called for every revision that the database of a URL did not take and that may be left out.
	Refused(url, id, rev string)
}

// patience is how long a client waits for an answer.
const patience = 30 * time.Second

// Pair carries out the operations of one replication, as adapters/couch does in production: one attempt
// each, with the process's limiter consulted before it.
type Pair struct {
	engine  *engine.Engine
	net     Network
	owner   *engine.Process
	limiter Limiter
	rep     *spec.Replication

	kept   map[uint64][]*docs.Document // bodies that a fetch brought, by its id; nil for a body that it did not bring
	inline map[uint64]bool             // fetches with attachments: what is too large in them is copied alone
	feed   *feed                       // the open answer with changes, or nil
	shut   map[string]int              // how often each document was refused with 401 or 403
	bare   map[string]bool             // documents whose attachments the target does not have
	// moved reports that documents that are streamed go to where the target has redirected one.
	moved bool
	// Told adds up what answers said of the target.
	Told Tally
	// WentBack reports that the source has repeated changes, so that a sequence may be lower than an earlier
	// one.
	WentBack bool
}

// feed is an answer with changes, a part of which was read.
type feed struct {
	db   *DB
	rows []peer.Change
	at   peer.Seq // where the next read starts
	end  peer.Seq // the sequence at the end of the answer
	// silent reports that the answer does not say how many changes follow.
	silent bool
	// rest are the rows that come after a silence behind rows; nil without one.
	rest    []peer.Change
	silence time.Duration // until the client gives up, if it is as long as its patience
}

// Limiter is the limiter of requests of a process, with the process's clock.
type Limiter struct {
	*ratelimit.Limiter
	Now func() instant.Time
}

// NewPair returns the connections of a process to the databases of a replication.
func NewPair(e *engine.Engine, n Network, owner *engine.Process, l Limiter, rep *spec.Replication) *Pair {
	return &Pair{engine: e, net: n, owner: owner, limiter: l, rep: rep, kept: map[uint64][]*docs.Document{},
		inline: map[uint64]bool{}, shut: map[string]int{}, bare: map[string]bool{}}
}

// Release forgets the bodies that a fetch brought.
func (p *Pair) Release(id uint64) {
	delete(p.kept, id)
	delete(p.inline, id)
}

// Keep adds a fetch that brought no bodies, for tests of observers.
func (p *Pair) Keep(id uint64) { p.kept[id] = nil }

// Kept returns the number of fetches whose bodies are kept.
func (p *Pair) Kept() int { return len(p.kept) }

// KeptBytes returns the size of the bodies that are kept of fetches that are not under way.
func (p *Pair) KeptBytes(underWay func(id uint64) bool) (sum int) {
	for id, group := range p.kept { // in any order
		for _, doc := range group {
			if doc != nil && !underWay(id) {
				sum += size(doc)
			}
		}
	}
	return sum
}

// Do carries out an operation in a coroutine of the process.
func (p *Pair) Do(ctx context.Context, id uint64, op peer.Op) peer.Reply {
	switch op := op.(type) {
	case peer.WriteDocs:
		reply := p.request(ctx, peer.Target, "POST", op,
			at(func(db *DB, f Fault) peer.Reply { return p.write(db, op, f) }))
		doc := p.kept[op.Docs[0].Fetch][op.Docs[0].Index]
		for _, k := range op.Docs {
			p.Told.sent(k.Fetch, p.kept[k.Fetch][k.Index], reply.Failure)
		}
		switch f := reply.Failure; {
		case f == nil:
		case f.Status == 412 || f.Status == 413 && len(op.Docs) == 1 && p.inline[op.Docs[0].Fetch],
			f.Status == 400 && !op.Gzip && (len(op.Docs) == 1 || p.inline[op.Docs[0].Fetch]):
			p.Told.Failed += int64(len(op.Docs))
			p.Told.Bytes += p.sizeOf(op)
		case f.Status == 413 && len(op.Docs) == 1:
			p.net.Refused(p.rep.Target.URL, doc.ID, doc.Rev.String())
			p.Told.refuse(doc.ID, doc.Rev.String())
			p.Told.LeftOut++
			p.Told.Bytes += int64(size(doc))
		}
		if written, ok := reply.Result.(peer.Written); ok && reply.Failure == nil {
			p.Told.written(len(op.Docs), written.Refused)
			p.Told.Bytes += p.sizeOf(op)
		}
		return reply
	case peer.FetchDocs:
		reply := p.request(ctx, peer.Source, "POST", op,
			at(func(db *DB, f Fault) peer.Reply { return p.fetch(db, id, op, f) }))
		if reply.Failure != nil {
			delete(p.kept, id)
		} else if op.Attachments {
			p.inline[id] = true
		}
		return reply
	case peer.ReadChanges:
		return p.readChanges(ctx, op)
	case peer.CopyDoc:
		reply := p.copyDoc(ctx, op)
		copied, _ := reply.Result.(peer.Copied)
		p.Told.copied(op, copied)
		return reply
	case peer.ReadDocs:
		return p.request(ctx, peer.Source, "POST", op, p.patiently(func(db *DB, f Fault) peer.Reply {
			return readDocs(db, op, f)
		}))
	case peer.EditDocs:
		return p.request(ctx, peer.Source, "POST", op, at(func(db *DB, f Fault) peer.Reply {
			return editDocs(db, op, f)
		}))
	case peer.DiffRevs:
		return p.request(ctx, peer.Target, "POST", op, at(func(db *DB, _ Fault) peer.Reply { return db.diff(op) }))
	case peer.Create:
		return p.create(ctx, op)
	case peer.PutLocal:
		return p.request(ctx, op.Side, "PUT", op, at(func(db *DB, _ Fault) peer.Reply {
			result, failure := db.putLocal(op)
			return peer.Reply{Result: result, Failure: failure}
		}))
	}
	return p.small(ctx, op)
}

// small carries out the operations that only read a little.
func (p *Pair) small(ctx context.Context, op peer.Op) peer.Reply {
	side, method := peer.Source, "GET"
	switch op := op.(type) {
	case peer.Open:
		side = op.Side
	case peer.GetLocal:
		side = op.Side
	case peer.Commit:
		side, method = op.Side, "POST"
	}
	return p.request(ctx, side, method, op, p.patiently(func(db *DB, f Fault) peer.Reply {
		switch op := op.(type) {
		case peer.Open:
			return peer.Reply{Result: db.open()}
		case peer.GetLocal:
			return peer.Reply{Result: db.getLocal(op.ID)}
		case peer.Commit:
			if f == NotSynced {
				return peer.Reply{Failure: answer(500, "error", "timeout")}
			}
			db.Sync()
			return peer.Reply{Result: peer.Committed{InstanceStartTime: InstanceStart(db)}}
		case peer.FindRev:
			if absent, failure := db.asked(db.Latest(op.ID)); absent || failure != nil {
				return peer.Reply{Result: peer.RevFound{}, Failure: failure}
			}
			lacks := func(rev string) bool { return !db.Has(op.ID, rev) }
			has := !slices.ContainsFunc(op.Revs, lacks) && (op.At == "" || keepsPlace(db, op.At, op.ID))
			return peer.Reply{Result: peer.RevFound{Found: has}}
		case peer.ReadNewest:
			return peer.Reply{Result: newestOf(db)}
		case peer.CountPending:
			return peer.Reply{Result: peer.Pending{Count: db.pending(db.Number(op.Since))}}
		case peer.GetFilter:
			found, failure := db.filter(op)
			if failure != nil {
				return peer.Reply{Failure: failure}
			}
			return peer.Reply{Result: found}
		}
		panic("peers: unknown operation")
	}))
}

func (p *Pair) endpoint(side peer.Side) *spec.Endpoint {
	if side == peer.Target {
		return &p.rep.Target
	}
	return &p.rep.Source
}

func (p *Pair) url(side peer.Side) string { return p.endpoint(side).URL }

// effect is what a request does at a database, at one moment. It calls respond once, then or later.
type effect func(db *DB, f Fault, respond func(peer.Reply))

// at is the effect of a request that is answered at once.
func at(f func(*DB, Fault) peer.Reply) effect {
	return func(db *DB, fault Fault, respond func(peer.Reply)) { respond(f(db, fault)) }
}

// patiently is the effect of a request that a server may be too slow for: the client gives it up.
func (p *Pair) patiently(f func(*DB, Fault) peer.Reply) effect {
	return func(db *DB, fault Fault, respond func(peer.Reply)) {
		reply := f(db, fault)
		if reply.Failure == nil || reply.Failure.Kind != peer.TimedOut {
			respond(reply)
			return
		}
		p.engine.After(patience, nil, "too slow", func() { respond(reply) })
	}
}

// request carries one request to a database and its answer back. The effect happens even if the process that
// sent it dies meanwhile or the answer is lost.
func (p *Pair) request(ctx context.Context, side peer.Side, method string, op peer.Op, do effect) peer.Reply {
	reply := p.follow(ctx, side, method, op, do)
	if reply.Failure != nil {
		f := *reply.Failure
		f.Side, f.Method, f.URL = side, method, p.url(side)
		reply.Failure = &f
	}
	return reply
}

// exchange sends a request once: to where it belongs, or elsewhere if it was redirected.
func (p *Pair) exchange(
	ctx context.Context, side peer.Side, method string, op peer.Op, elsewhere bool, do effect,
) peer.Reply {
	host, _ := Find(p.url(side))
	key := ratelimit.Key{Endpoint: p.url(side), Method: method}
	asked := p.limiter.Now()
	verdict := p.limiter.Delay(key, asked)
	if verdict.Closed {
		p.net.Withheld(p.owner, key, verdict.Wait)
		f := answer(429, "max_backoff", "the server asked too often to slow down")
		f.RetryAfter = verdict.Wait
		return peer.Reply{Failure: f}
	}
	if verdict.Wait > 0 && p.engine.Sleep(ctx, verdict.Wait) != nil {
		return peer.Reply{Failure: &peer.Failure{Kind: peer.Cancelled}}
	}
	server := p.net.Server(host)
	if server == nil {
		return peer.Reply{Failure: &peer.Failure{Kind: peer.Unresolvable}}
	}
	p.net.Sends(p.owner, key, asked, verdict.Wait)
	fault, there, back := p.net.Fate(p.owner, server, op)
	if p.net.Carry(ctx, p.owner, server, p.sent(op)) != nil {
		return peer.Reply{Failure: &peer.Failure{Kind: peer.Cancelled}}
	}
	reply := peer.Reply{Failure: &peer.Failure{Kind: peer.TimedOut}}
	err := p.engine.Await(ctx, func(wake func()) {
		switch {
		case p.net.Cut(p.owner, server) || fault == LostBefore:
			p.engine.After(patience, p.owner, "no answer", wake)
			return
		case unsent(fault) != nil:
			reply = peer.Reply{Failure: unsent(fault)}
			p.engine.After(there, p.owner, "no connection", wake)
			return
		}
		respond := func(answer peer.Reply) {
			if fault == LostAfter || p.net.Deaf(p.owner, server) {
				p.engine.After(patience, p.owner, "no answer", wake)
				return
			}
			if _, reads := op.(peer.ReadChanges); !reads { // a feed is silent when it is read
				back += silence(fault)
			}
			p.engine.After(back, p.owner, "answer", func() { reply = answer; wake() })
		}
		p.engine.After(there, nil, server.Name, func() {
			if r := p.net.Redirect(server, method); r.meets(elsewhere) {
				respond(peer.Reply{Failure: r.answer()})
				return
			}
			p.arrive(server, side, op, fault, do, respond)
		})
	})
	if err != nil || p.net.Carry(ctx, p.owner, server, brought(reply.Result)) != nil {
		return peer.Reply{Failure: &peer.Failure{Kind: peer.Cancelled}}
	}
	if broken := late(fault); broken != nil {
		reply = peer.Reply{Result: partial(fault, reply), Failure: broken}
	}
	p.learn(key, reply.Failure)
	return reply
}

// arrive carries out a request at the moment at which it is at the server.
func (p *Pair) arrive(s *Server, side peer.Side, op peer.Op, fault Fault, do effect, respond func(peer.Reply)) {
	_, name := Find(p.url(side))
	refusal := p.net.Arrives(s, name, op, p.endpoint(side).Credentials)
	db := s.DB(name)
	_, creates := op.(peer.Create)
	switch {
	case refusal != nil:
		respond(peer.Reply{Failure: refusal})
	case early(fault) != nil:
		respond(peer.Reply{Failure: early(fault)})
	case db == nil && !creates:
		respond(peer.Reply{Failure: noDatabase()})
	default:
		do(db, fault, respond)
	}
}

// learn tells the limiter how a request ended.
func (p *Pair) learn(key ratelimit.Key, f *peer.Failure) {
	now := p.limiter.Now()
	switch {
	case f == nil || f.Kind == peer.Status && f.Status != 429 && f.Status != 408 && f.Status < 500:
		p.limiter.Success(key, now)
		p.net.Welcomed(p.owner, key)
	case f.Kind == peer.Status && f.Status == 429 && f.Error != "max_backoff":
		p.limiter.Failure(key, now, f.RetryAfter)
		p.net.Wished(p.owner, key, now.Add(f.RetryAfter))
	}
}

func (p *Pair) create(ctx context.Context, op peer.Create) peer.Reply {
	host, name := Find(p.rep.Target.URL)
	return p.request(ctx, peer.Target, "PUT", op, at(func(*DB, Fault) peer.Reply {
		p.net.Server(host).Create(name)
		return peer.Reply{Result: peer.Created{}}
	}))
}

// readChanges continues the open answer if the read starts where the last one stopped, or else opens another.
func (p *Pair) readChanges(ctx context.Context, op peer.ReadChanges) peer.Reply {
	if f := p.feed; f != nil && f.at == op.Since && !op.Wait && f.rest != nil && len(f.rows) == 0 {
		if p.engine.Sleep(ctx, f.silence) != nil {
			return peer.Reply{Failure: &peer.Failure{Kind: peer.Cancelled}}
		}
		p.feed = f.goOn()
	}
	f := p.feed
	if f == nil || f.at != op.Since || op.Wait {
		reply := p.openFeed(ctx, op)
		if reply.Failure != nil {
			p.feed = nil
			return reply
		}
		f = p.feed
	}
	n := min(op.Limit, len(f.rows))
	trickles := f.db.Server.Trickles && !op.Wait && n > few
	if trickles || p.net.Narrow(p.owner, f.db.Server) {
		n = min(n, few)
	}
	if trickles && p.engine.Sleep(ctx, time.Second) != nil ||
		p.net.Carry(ctx, p.owner, f.db.Server, n*rowSize) != nil {
		return peer.Reply{Failure: &peer.Failure{Kind: peer.Cancelled}}
	}
	got := peer.Changes{Rows: f.rows[:n], End: n == len(f.rows) && f.rest == nil, LastSeq: f.end, Pending: -1}
	f.rows = f.rows[n:]
	if !got.End {
		got.LastSeq = got.Rows[n-1].Seq
		f.at = got.LastSeq
		return peer.Reply{Result: got}
	}
	p.feed = nil
	if !f.silent {
		got.Pending = f.db.pending(f.db.Number(f.end))
	}
	return peer.Reply{Result: got}
}

// goOn is a feed after its silence; nil if the client has given it up.
func (f *feed) goOn() *feed {
	if f.silence >= patience {
		return nil
	}
	f.rows, f.rest = f.rest, nil
	return f
}

// nextLook is how often it is looked whether a feed that is silent goes on.
const nextLook = 5 * time.Second

// openFeed asks for changes, and is told nothing while the server's feeds are silent. A long poll that finds none is
// answered at the next change.
func (p *Pair) openFeed(ctx context.Context, op peer.ReadChanges) peer.Reply {
	var open effect
	open = func(db *DB, f Fault, respond func(peer.Reply)) {
		if db.Server.DB(db.Name) != db {
			respond(peer.Reply{Failure: &peer.Failure{Kind: peer.Broken}})
			return
		}
		if p.net.Silent(db.Server) {
			p.engine.After(nextLook, nil, db.Server.Name, func() { open(db, f, respond) })
			return
		}
		reply := p.changes(db, op, f)
		if op.Wait && !db.Server.NoLongPoll && reply.Failure == nil && len(p.feed.rows) == 0 &&
			db.Number(p.feed.end) == db.Number(op.Since) {
			stop := db.wait(p.owner, func(failure *peer.Failure) {
				if failure != nil {
					respond(peer.Reply{Failure: failure})
					return
				}
				respond(p.changes(db, op, f))
			})
			if limit := db.Server.AnswerLimit; limit > 0 {
				p.engine.After(limit, nil, db.Server.Name, func() { stop(&peer.Failure{Kind: peer.Broken}) })
			}
			return
		}
		respond(reply)
	}
	return p.request(ctx, peer.Source, "GET", op, open)
}

// few is the number of rows before a server breaks off (Traits.CutsFeeds) or pauses (Traits.Trickles).
const few = 2

// changes opens an answer with changes, whose rows are read in parts afterwards.
func (p *Pair) changes(db *DB, op peer.ReadChanges, f Fault) peer.Reply {
	since := db.Number(op.Since)
	rows, failure := db.changes(since, p.rep.Filter, p.rep.WinningRevsOnly)
	if failure != nil {
		return peer.Reply{Failure: failure}
	}
	if db.Server.CutsFeeds && len(rows) > few {
		return peer.Reply{Result: peer.Changes{Rows: rows[:few], Pending: -1},
			Failure: &peer.Failure{Kind: peer.Broken}}
	}
	if f == Repeats {
		p.WentBack = true
		half := (len(rows) + 1) / 2
		rows = append(rows[:half:half], rows...)
	}
	end := db.end(db.last())
	if op.Wait && len(rows) > op.Limit {
		rows = rows[:op.Limit]
		end = rows[len(rows)-1].Seq
	}
	p.feed = &feed{db: db, rows: rows, at: op.Since, end: end, silent: f == LosesPending, silence: silence(f)}
	if half := len(rows) / 2; p.feed.silence > 0 && half > 0 && !op.Wait {
		p.feed.rows, p.feed.rest = rows[:half], rows[half:]
	}
	return peer.Reply{Result: peer.Changes{Rows: rows, Pending: -1}}
}
