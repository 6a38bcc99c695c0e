package follow

import (
	"cmp"
	"fmt"
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// Incoming is a changed document of the followed database.
type Incoming struct {
	Seq     peer.Seq // of the change
	ID, Rev string
	Deleted bool
	Body    []byte // as the server has it
	// Refusal, if not empty, says why there is no body.
	Refusal string
	// Announced is the revision that the change has, if the document was read in a later one, and all its leaves, as in
	// row, if it is Unread; else empty.
	Announced string
	Unread    bool // the followed database cannot read it, or does not have it
}

type (
	// Opened notes which database it is that the job follows, and, unless Lost is empty, that it does not know this
	// change any more. It answers Noted.
	Opened struct {
		Held
		Instance string
		Lost     peer.Mark
	}
	// Apply brings changes after From into the mirror, as many as one transaction should. After the last of them the
	// mirror has all up to Since. AtEnd says that there were no more, so the run has got through. It answers Applied.
	Apply struct {
		Held
		Docs  []Incoming
		From  peer.Seq // as the job has it
		Since peer.Seq
		Goal  peer.Seq  // where the database was before the feed was read
		Last  peer.Mark // newest one that was announced or read, also behind Since
		AtEnd bool
		// Behind is how many changes follow on Since, -1 if the server did not tell.
		Behind int64
		// Odd has the one document of Docs left out: a row of it could not be read maxOdd times in a row.
		Odd    bool
		Unread replication.Trouble // of a document that the run has left out, as it cannot be read; empty for none
	}
	// Sweep compares the mirror behind After, in the order of ids, with what the feed has brought since all is read
	// anew. It removes those of the other documents that are Absent: the run has asked the followed database for them.
	// It answers Swept.
	Sweep struct {
		Held
		After  string
		Absent []string
		Limit  int // of documents that are compared; 0 for as many as one transaction should
		// Odd has the first document behind After left out: a row of it could not be read maxOdd times in a row.
		// Without are the documents that the run has left out before.
		Odd     bool
		Without []string
		Unread  replication.Trouble // as in Apply
	}
)

type (
	// Noted is the job as it is now.
	Noted struct{ Job Job }
	// Applied says how many of the documents are in the mirror, and whether states are to be written back.
	Applied struct {
		N   int
		Due bool
	}
	// Swept says up to where documents were compared, and whether these were all. Documents behind After that the feed
	// has not brought, and that were not Absent, are Unread. Announced are the leaves of those that were left out.
	Swept struct {
		After     string
		Unread    []string
		Announced map[string]string
		Whole     bool
	}
)

func (Noted) result()   {}
func (Applied) result() {}
func (Swept) result()   {}

func (q Opened) String() string {
	return fmt.Sprintf("opened %s, instance %s, lost %q", q.Held, q.Instance, q.Lost)
}
func (q Apply) String() string {
	return fmt.Sprintf("apply %d to %s, since %s, at end %v", len(q.Docs), q.Held, q.Since, q.AtEnd)
}
func (q Sweep) String() string { return fmt.Sprintf("sweep %s after %q", q.Held, q.After) }

func (q Opened) perform(tx kv.Tx, s *Store, _ instant.Time) (Result, error) {
	_, data, err := q.read(tx, s)
	switch {
	case err != nil:
		return nil, err
	case data.Instance == "":
		data.Instance = q.Instance
	case data.Instance != q.Instance:
		// Reached: the followed database was deleted and made again
		data.another(q.Instance)
	case q.Lost != peer.Mark{} && q.Lost == data.Last:
		// Reached: the followed database was put back to an earlier state
		data.another(q.Instance)
	case data.Missing:
		// Reached: documents that were left out are looked at again
		data.Missing, data.Reconciling = false, true
	default:
		return Noted{*data}, nil
	}
	return Noted{*data}, s.Queue.Update(tx, q.ID, q.Lock, data.encode())
}

func (q Apply) perform(tx kv.Tx, s *Store, now instant.Time) (Result, error) {
	parts := make([]part, len(q.Docs)) // of long documents these take a while, and the transaction begins when it reads
	for i, d := range q.Docs {
		p := &parts[i]
		p.body, p.digest, p.state, p.err = split(d.Body)
	}
	_, data, err := q.read(tx, s)
	if err != nil {
		return nil, err
	}
	if n := q.done(data); n > 0 {
		// Reached: changes are applied again that had been committed
		return Applied{N: n, Due: true}, nil
	}
	done, due, was := len(q.Docs), false, *data
	if q.Odd {
		s.Keys.put(tx, q.ID, q.Docs[0].ID, leftOut)
		data.Missing = true
	} else if done, due, err = s.apply(tx, q, parts, data, now); err != nil {
		return nil, err
	}
	if done == len(q.Docs) {
		data.reach(q.Since, q)
		if data.Behind = q.Behind; q.AtEnd {
			data.Goal = ""
			data.Errors, data.Error, data.Reason = 0, "", ""
		}
	} else if done > 0 {
		data.reach(q.Docs[done-1].Seq, q)
		data.Behind = more(q.Behind, len(q.Docs)-done)
	}
	data.leftUnread(q.Unread)
	if *data != was {
		err = s.Queue.Update(tx, q.ID, q.Lock, data.encode())
	}
	return Applied{N: done, Due: due}, err
}

// apply brings documents into the mirror, and returns how many, and whether states are to be written back.
func (s *Store) apply(
	tx kv.Tx, q Apply, parts []part, data *Job, now instant.Time,
) (done int, due bool, err error) {
	db, err := s.mirror(tx, q.ID)
	if err != nil {
		return 0, false, err
	}
	a := applying{tx: tx, s: s, job: q.ID, epoch: data.Epoch, db: db, parts: parts}
	if err := a.take(q.Docs); err != nil {
		return 0, false, ofDoc("", err)
	}
	n, err := jobstore.Mirror(s.Relay, tx, db, a.writes, now)
	if err != nil {
		return 0, false, ofDoc("", err)
	}
	done = len(q.Docs)
	if n < len(a.writes) {
		done = a.places[n]
	}
	for _, f := range a.rows[:done] {
		f()
	}
	return done, a.due, nil
}

// more adds n changes to those that follow, unless these are not known.
func more(behind int64, n int) int64 {
	if behind < 0 {
		return behind
	}
	return behind + int64(n)
}

// done is how many of the documents an attempt before has applied, by what the job says. Another attempt must not apply
// them again: since then states may have been written over these revisions.
func (q Apply) done(data *Job) int {
	if data.Since == q.From {
		return 0
	}
	for i, d := range q.Docs {
		if d.Seq == data.Since {
			return i + 1
		}
	}
	return len(q.Docs)
}

// mirror opens the mirror of a job.
func (s *Store) mirror(tx kv.Tx, id string) (*docs.Database, error) { return s.Relay.Docs.Open(tx, id) }

// part is a document as split parts it.
type part struct {
	body          ejson.Value
	digest, state string
	err           error
}

// applying is one call of Apply.
type applying struct {
	tx    kv.Tx
	s     *Store
	job   string
	epoch int64
	db    *docs.Database
	parts []part // of the documents; none of those that are deleted

	writes []jobstore.Mirrored
	places []int    // of writes, in the documents
	rows   []func() // that note what was applied, one for each document
	due    bool
}

// take decides what becomes of each document.
func (a *applying) take(list []Incoming) error {
	keys := make([][]byte, len(list))
	for i, d := range list {
		keys[i] = a.s.Keys.doc(a.job, d.ID)
	}
	a.tx.Prefetch(keys, nil)
	for i, d := range list {
		if docs.ValidID(d.ID) != nil { // no server has such a document
			a.rows = append(a.rows, func() {})
			continue
		}
		old, err := a.s.Keys.row(a.tx, a.job, d.ID)
		if err != nil {
			return err
		}
		if err := a.one(i, d, old); err != nil {
			return err
		}
	}
	return nil
}

// one decides what becomes of one document, of which old is known.
func (a *applying) one(i int, d Incoming, old *row) error {
	if d.Deleted {
		a.write(i, jobstore.Mirrored{ID: d.ID, Deleted: true})
		a.rows = append(a.rows, func() {
			a.tx.Clear(a.s.Keys.doc(a.job, d.ID))
			a.tx.Clear(a.s.Keys.due(a.job, d.ID))
		})
		return nil
	}
	if d.Unread {
		a.leaveOut(d, old)
		return nil
	}
	if old != nil && old.Rev == d.Rev {
		return a.unchanged(d, *old)
	}
	body, digest, state, err := a.parts[i].body, a.parts[i].digest, a.parts[i].state, a.parts[i].err
	m := jobstore.Mirrored{ID: d.ID, Body: body, Refusal: d.Refusal}
	switch {
	case d.Refusal != "":
		digest = digestOf([]byte(d.Refusal + d.Rev))
	case err != nil:
		m.Refusal = "the document cannot be read: " + err.Error()
	case len(d.Body) > maxBody:
		m.Refusal, m.Body = fmt.Sprintf("the document has %d bytes, more than %d", len(d.Body), maxBody),
			ejson.Value{Kind: ejson.Object}
	}
	now := row{Rev: d.Rev, Digest: digest, State: state, Epoch: a.epoch, Over: d.Announced}
	if old == nil || old.Digest != digest {
		return a.edited(i, m, now)
	}
	mirrored, own, _, err := stateIn(a.db, d.ID)
	if err != nil {
		return err
	}
	if disowned(ownerOf(mirrored), body) {
		return a.edited(i, m, now)
	}
	if i := slices.Index(old.over(), d.Rev); i == 0 || i > 0 && old.Epoch == a.epoch {
		return a.passed(d, *old, now, i == 0)
	}
	kept := state == old.State && state != noState // by a user who wrote the document as it was
	switch {
	case state == own, old.isSent(state, d.Rev), kept, own == noState && !over(body):
		// Reached: a change of the followed database is a write of ours
		if slices.Contains(old.sent(), state) && now.Over == "" {
			now.Over = old.Over
			now.replace(old.Rev, d.Rev) // a backup may have the document so
		}
		if state != old.Sent {
			now.Sent, now.Was = old.Sent, old.Was
		}
		if state == own {
			a.arrived(d.ID, now)
			return nil
		}
		a.again(d.ID)
	default: // a user has removed the state, or another replicator has written one
		now.Was = old.mayArrive(state)
		return a.edited(i, m, now)
	}
	a.note(d.ID, now)
	return nil
}

// edited brings a document into the mirror that somebody else has written.
func (a *applying) edited(i int, m jobstore.Mirrored, now row) error {
	a.write(i, m)
	a.note(m.ID, now)
	return nil
}

// passed notes a document in a revision that ours have replaced, the last one or one before it. It was read before
// that, or ours went with a backup: the server knows.
func (a *applying) passed(d Incoming, old, now row, last bool) error {
	if !last || old.Was != "" {
		// Reached: a document was read before several states of ours were written over it
		a.again(d.ID)
		return a.unchanged(d, old)
	}
	// Reached: a document is as it was before our state was written over it
	if now.Sent, now.Was = old.Sent, old.State; now.Sent == "" {
		now.Sent, now.Was = old.State, ""
	}
	a.again(d.ID)
	a.note(d.ID, now)
	return nil
}

// unchanged notes a document that is as old says, or as it was before that.
func (a *applying) unchanged(d Incoming, old row) error {
	seen, arrived := old, false
	seen.Epoch, seen.Announced = a.epoch, ""
	if old.Rev == d.Rev && old.Over != "" && old.Sent == "" {
		_, own, _, err := stateIn(a.db, d.ID)
		if err != nil {
			return err
		}
		arrived = own == old.State
	}
	a.rows = append(a.rows, func() {
		if seen != old {
			a.s.Keys.put(a.tx, a.job, d.ID, seen)
		}
		if arrived {
			a.tx.Clear(a.s.Keys.due(a.job, d.ID))
		}
	})
	return nil
}

// again has the state of a document written back.
func (a *applying) again(id string) {
	a.tx.Set(a.s.Keys.due(a.job, id), nil)
	a.due = true
}

// ownerOf is the owner that a document names; empty for none.
func ownerOf(body ejson.Value) string {
	owner, _ := body.Get("owner")
	return owner.Text
}

// disowned reports whether a document has another owner than its mirror. One that had none gets one with our write.
func disowned(mirrored string, body ejson.Value) bool {
	return mirrored != "" && ownerOf(body) != mirrored
}

func (a *applying) write(i int, m jobstore.Mirrored) {
	a.writes, a.places = append(a.writes, m), append(a.places, i)
}

// arrived has a row written of a document that the feed has brought with the state that the mirror has.
func (a *applying) arrived(id string, r row) {
	a.rows = append(a.rows, func() {
		a.s.Keys.put(a.tx, a.job, id, r)
		a.tx.Clear(a.s.Keys.due(a.job, id))
	})
}

// note has a row written with its document.
func (a *applying) note(id string, r row) {
	a.rows = append(a.rows, func() { a.s.Keys.put(a.tx, a.job, id, r) })
}

func (q Sweep) perform(tx kv.Tx, s *Store, now instant.Time) (Result, error) {
	_, data, err := q.read(tx, s)
	if err != nil {
		return nil, err
	}
	was := *data
	db, err := s.mirror(tx, q.ID)
	if err != nil {
		return nil, err
	}
	swept, err := q.sweep(tx, s, db, data, now)
	if err != nil {
		return nil, ofDoc("", err)
	}
	data.leftUnread(q.Unread)
	if *data != was {
		err = s.Queue.Update(tx, q.ID, q.Lock, data.encode())
	}
	return swept, err
}

func (q Sweep) sweep(
	tx kv.Tx, s *Store, db *docs.Database, data *Job, now instant.Time,
) (swept Swept, err error) {
	all := s.Keys.Rows.Sub(q.ID, "doc")
	at := all.Range()
	if q.After != "" {
		at.Begin = kv.KeyAfter(all.Pack(q.After))
	}
	limit := q.of(s.Pages.Sweep)
	rows, err := tx.GetRange(at, kv.RangeOptions{Limit: limit})
	if err != nil {
		return swept, err
	}
	a := applying{tx: tx, s: s, job: q.ID, epoch: data.Epoch, db: db}
	after, unread, announced := q.After, []string(nil), map[string]string{}
	for i, kv := range rows {
		if err := all.Scan(kv.Key, &after); err != nil {
			return swept, err
		}
		if q.Odd {
			s.Keys.put(tx, q.ID, after, leftOut)
			data.Missing = true
			return Swept{After: after}, nil
		}
		old, err := s.Keys.row(tx, q.ID, after)
		if err != nil {
			return swept, err
		}
		switch {
		case old.Epoch == data.Epoch, slices.Contains(q.Without, after):
		case slices.Contains(q.Absent, after):
			// Reached: a document is not in the database that was made again
			err = a.one(i, Incoming{ID: after, Deleted: true}, old)
		default:
			if unread = append(unread, after); old.Epoch == leftIn(data.Epoch) {
				announced[after] = old.Announced
			}
		}
		if err != nil {
			return swept, err
		}
	}
	n, err := jobstore.Mirror(s.Relay, tx, db, a.writes, now)
	if err != nil {
		return swept, err
	}
	for _, f := range a.rows[:n] {
		f()
	}
	for _, m := range a.writes[n:] {
		unread = append(unread, m.ID) // another transaction removes it, if it is absent then
	}
	if len(unread) > 0 {
		return Swept{After: q.After, Unread: unread, Announced: announced}, nil
	}
	if len(rows) < limit {
		data.Reconciling = false
		return Swept{Whole: true}, nil
	}
	return Swept{After: after}, nil
}

// of is how many documents are compared.
func (q Sweep) of(page int) int { return cmp.Or(q.Limit, page) }
