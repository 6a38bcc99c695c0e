package jobstore

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"

	"couchrelay/core/check"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/spec"
)

// Sections are the rows of the store below a root, those of the queue and the databases among them, for a check of the
// store.
func Sections(root tuple.Subspace) []check.Section {
	k := KeysBelow(root)
	c := &checking{
		k: k, docs: docs.New(k.Docs), counts: map[string]int64{}, weights: map[string]int64{},
		stored: map[string]int64{}, missing: map[string]int64{},
	}
	list := docs.Sections(k.Docs, c.document)
	list = append(list, jobs.Sections(k.Jobs, c.job)...)
	list = append(list, c.ofJobs()...)
	return append(list, c.others()...)
}

// checking is a check of what belongs to jobs.
type checking struct {
	k    Keys
	docs *docs.Store

	counts, weights map[string]int64 // by account
	stored          map[string]int64 // of both counters, by account
	// missing is by how much the rows of labels differ from what the jobs say, by the key of the tally.
	missing map[string]int64
	groups  [2]tallied // of all jobs, and of those of a database
	refused tallied
	epoch   int64 // the last one in which a job was queued
}

// tallied are rows that follow each other, and a number that says how many there are.
type tallied struct {
	key        []byte
	got, count int64
}

// ofJobs are the sections of rows that jobs need. Those before them in the list have been looked at.
func (c *checking) ofJobs() []check.Section {
	k := c.k
	return []check.Section{
		{Space: k.Spec, Row: c.spec},
		{Space: k.Claim, Row: c.claim},
		{Space: k.Expire, Row: c.expire},
		{Space: k.Refused, Row: c.refusal, End: func(p *check.Page) { c.refusedOf(p, nil) }},
		{Space: k.Retry, Row: func(p *check.Page, key, value []byte) {
			var id string
			if k.Retry.Scan(key, &id) != nil || len(value) != 8 {
				p.Report(key, "the row cannot be read")
			} else {
				c.belongs(p, key, id)
			}
		}},
		{Space: k.Count, Row: c.number(k.Count), End: func(p *check.Page) { c.accounts(p, k.Count, c.counts, "jobs") }},
		{Space: k.Weights, Row: c.number(k.Weights), End: func(p *check.Page) {
			c.accounts(p, k.Weights, c.weights, "as their weights beyond the default")
		}},
		{Space: k.Index, Row: c.label, End: func(p *check.Page) { c.tallied(p, 0, nil, 0); c.tallied(p, 1, nil, 0) }},
		{Space: k.Tally, Row: c.tally, End: c.untold},
	}
}

// others are the sections of rows that stand by themselves.
func (c *checking) others() []check.Section {
	k := c.k
	plain := func(space []byte, wrong func(key, value []byte) string) check.Section {
		return check.Section{Space: space, Row: func(p *check.Page, key, value []byte) {
			if what := wrong(key, value); what != "" {
				p.Report(key, what)
			}
		}}
	}
	needed := func(at []byte, without string, good func(value []byte) bool) check.Section {
		return check.Section{Space: at, Row: func(p *check.Page, key, value []byte) {
			if len(key) != len(at) || !good(value) {
				p.Report(key, "the row cannot be read: "+without)
			}
		}, End: func(p *check.Page) {
			if !p.Has(at) {
				p.Report(at, "the row is missing: "+without)
			}
		}}
	}
	numbers := func(space tuple.Subspace) check.Section {
		return plain(space, func(_, value []byte) string {
			if len(value) != 8 || kv.Counter(value) < 0 {
				return "the number cannot be read"
			}
			return ""
		})
	}
	anything := func(space []byte) check.Section {
		return plain(space, func([]byte, []byte) string { return "" })
	}
	return []check.Section{
		needed(k.Schema, "no service starts on the store", func(value []byte) bool {
			n := kv.Counter(value)
			return len(value) == 8 && n >= 1 && n <= sealedSchema
		}),
		needed(k.UUID, "with another one jobs do not find their checkpoints", func(value []byte) bool {
			return len(value) > 0
		}),
		{Space: k.Secret, Row: func(p *check.Page, key, value []byte) { p.Opens(key, value) }},
		{Space: k.Held, Row: c.hold}, {Space: k.Lifted, Row: c.lifted}, {Space: k.Dropped, Row: c.dropped},
		{Space: k.Order, Row: c.order},
		numbers(k.Shares), numbers(k.Usage), numbers(k.Tail), numbers(k.Virtual), numbers(k.Floor),
		anything(k.Reindex), anything(k.Swept), anything(k.Border),
	}
}

// document demands the job of a document.
func (c *checking) document(p *check.Page, d docs.Checked) {
	if !IsReplicatorDB(d.Database) || exempt(d.ID) {
		return
	}
	if key := c.k.Jobs.Job.Pack(documentJobID(d.Instance, d.ID)); !p.Has(key) {
		p.Report(key, fmt.Sprintf("document %q of %s has no job: write it again", d.ID, d.Database))
	}
}

// indexed reports whether the labels of a job are kept; see Reindex. A store of the first layout that no later release
// has started on, as one of which a backup is restored, has none.
func (c *checking) indexed(p *check.Page, jobID string) bool {
	row := p.Get(c.k.Reindex)
	if schema := p.Get(c.k.Schema); row == nil && len(schema) == 8 && kv.Counter(schema) == 1 {
		return false
	}
	return row == nil || jobID <= string(row)
}

// load reads a job with its record; nil if there is none that can be read.
func (c *checking) load(p *check.Page, id string) (*jobs.Job, *Record) {
	j := jobs.Load(p, c.k.Jobs, id)
	if j == nil {
		return nil, nil
	}
	rec, err := decodeRecord(j)
	if err != nil {
		return nil, nil
	}
	return j, rec
}

// job judges the record of a job.
func (c *checking) job(p *check.Page, j *jobs.Job) {
	key := c.k.Jobs.Job.Pack(j.ID, int64(0))
	if place, err := placeOf(j.Priority); err == nil {
		p.Later(func() { c.epoch = max(c.epoch, place.Epoch) })
	}
	rec, err := decodeRecord(j)
	if err != nil {
		p.Report(key, "the record of the job cannot be read: "+err.Error())
		return
	}
	if wrong := disagree(j, rec); wrong != "" {
		p.Report(key, wrong)
		return
	}
	over := rec.State.Terminal()
	if !over && counted(j) {
		account, excess := rec.Account(), rec.excess()
		p.Later(func() { c.counts[account]++; c.weights[account] += excess })
	}
	if !over && !p.Has(c.k.Spec.Pack(j.ID, int64(0))) {
		p.Report(c.k.Spec.Pack(j.ID, int64(0)), fmt.Sprintf("job %q has no replication", j.ID))
	}
	c.lot(p, j, rec)
	c.labels(p, j, rec)
	c.origin(p, j, rec)
	if rec.Expires != 0 {
		c.needs(p, c.k.Expire.Pack(int64(rec.Expires), j.ID), nil, "a finished request would not be forgotten")
	}
	if rec.Listed() > 0 && len(p.Range(c.k.Refused.Sub(j.ID).Range(), 1)) == 0 {
		p.Report(key, fmt.Sprintf("the job lists %d refused documents, of which there is none", rec.Refused.Listed))
	}
}

// disagree says how a record contradicts its header, empty if it does not.
func disagree(j *jobs.Job, rec *Record) string {
	_, err := placeOf(j.Priority)
	switch over := rec.State.Terminal(); {
	case over != (j.State == jobs.Finished):
		return fmt.Sprintf("the record of the job says %s, and its header %s", rec.State, j.State)
	case rec.Transient() != (instanceOf(j.ID) == ""), !rec.Transient() && rec.Instance+rec.DocID != j.ID:
		return fmt.Sprintf("the record is of document %q of %q, and the job is not", rec.DocID, rec.Database)
	case over && rec.Transient() != (rec.Expires != 0):
		return "the job is over, and it is not known when it is forgotten"
	case !over && err != nil:
		return "the place of the job in the queue cannot be read"
	}
	return ""
}

// needs demands a row with a value that follows from others.
func (c *checking) needs(p *check.Page, key, value []byte, what string) {
	if got := p.Look(key); got == nil || !bytes.Equal(got, value) {
		p.Mend(key, "a row is missing or wrong: "+what,
			check.Mend{What: "write the row", Set: []kv.KeyValue{{Key: key, Value: value}}})
	}
}

// lot judges why a job stands in no order.
func (c *checking) lot(p *check.Page, j *jobs.Job, rec *Record) {
	if j.State != jobs.Pending || j.Lot == "" {
		return
	}
	key := c.k.Jobs.Parked.Pack(j.Lot, j.ID)
	switch at := rec.Parking; {
	case at.Paused && !rec.paused():
		p.Report(key, fmt.Sprintf("job %q stands still as if it were paused: resume it", j.ID))
	case at.HeldBy != "" && !p.Has(c.k.Held.Pack(at.HeldBy)) && !p.Has(c.k.Lifted.Pack(at.HeldBy)):
		p.Mend(key, fmt.Sprintf("job %q is held by %s, which is no more", j.ID, at.HeldBy), check.Mend{
			What: "lift the hold, so that its jobs come back",
			Set:  []kv.KeyValue{{Key: c.k.Lifted.Pack(at.HeldBy), Value: []byte{}}}})
	case at.WaitsFor != "":
		owner := string(p.Get(c.k.Claim.Pack(at.WaitsFor)))
		_, other := c.load(p, owner)
		wakes := other != nil && owner != j.ID && !other.State.Terminal() && other.RepID == at.WaitsFor && other.Awaited
		if !wakes && !p.Has(c.k.Lifted.Pack(j.Lot)) {
			what := fmt.Sprintf("job %q waits for replication %s, and %q will not wake it", j.ID, at.WaitsFor, owner)
			p.Mend(key, what, check.Mend{
				What: "have one that waits get it, once no other job has it",
				Set:  []kv.KeyValue{{Key: c.k.Lifted.Pack(j.Lot), Value: []byte{}}}})
		}
	case at == Parking{}:
		p.Report(key, fmt.Sprintf("job %q stands still for an unknown reason, %q: pause and resume it", j.ID, j.Lot))
	}
}

// labels judges the rows by which lists find a job.
func (c *checking) labels(p *check.Page, j *jobs.Job, rec *Record) {
	if !c.indexed(p, j.ID) {
		return
	}
	g := groupOf(j.ID, rec.State.Terminal())
	list := append(current(j), rec.standing()...)
	keys := make([][]byte, len(list))
	for i, l := range list {
		keys[i] = c.k.labelRow(g, l, j.ID)
	}
	p.Prefetch(keys, nil)
	for i, l := range list {
		if p.Look(keys[i]) != nil {
			continue
		}
		p.Mend(keys[i], fmt.Sprintf("job %q is not listed by its %s", j.ID, l.field), check.Mend{
			What: "write the row", Set: []kv.KeyValue{{Key: keys[i], Value: []byte{}}}})
		p.Later(func() { c.differ(g, l, j.ID, 1) })
	}
}

// differ notes by how much the rows of a label differ from what they should be.
func (c *checking) differ(g group, l label, jobID string, n int64) {
	c.missing[string(c.k.tallyRow("", g, l))] += n
	if instance := instanceOf(jobID); instance != "" {
		c.missing[string(c.k.tallyRow(instance, g, l))] += n
	}
}

// origin demands the document of a job.
func (c *checking) origin(p *check.Page, j *jobs.Job, rec *Record) {
	raw, err := hex.DecodeString(strings.TrimSuffix(rec.Instance, "|"))
	if rec.Transient() || p.Has(c.k.Dropped.Pack(rec.Instance)) {
		return
	}
	if err != nil {
		p.Report(c.k.Jobs.Job.Pack(j.ID), "the id of the job names no database")
		return
	}
	keys, _ := c.docs.Reads(tuple.UUID(raw), rec.DocID)
	revisions, alive, deleted := keys[0], keys[1], keys[2]
	if p.Has(alive) || p.Has(revisions) && !p.Has(deleted) { // without an entry the document is reported
		return
	}
	p.Report(alive, fmt.Sprintf("job %q has no document %q in %s: cancel it", j.ID, rec.DocID, rec.Database))
}

// belongs clears a row whose job is gone.
func (c *checking) belongs(p *check.Page, key []byte, jobID string) bool {
	if p.Has(c.k.Jobs.Job.Pack(jobID)) {
		return true
	}
	p.Mend(key, fmt.Sprintf("the row is left over from job %q, which is gone", jobID),
		check.Mend{What: "remove the row", Clear: [][]byte{key}})
	return false
}

// spec judges a part of a replication.
func (c *checking) spec(p *check.Page, key, value []byte) {
	var id string
	var n int64
	if c.k.Spec.Scan(key, &id, &n) != nil {
		p.Report(key, "the row names no job")
		return
	}
	plain, opens := p.Opens(key, value)
	if !c.belongs(p, key, id) || !opens {
		return
	}
	if n != 0 {
		if n < 0 || !p.Has(c.k.Spec.Pack(id, n-1)) {
			p.Report(key, fmt.Sprintf("a part of the replication of job %q without the part before it", id))
		}
		return
	}
	for i := int64(1); ; i++ {
		next := c.k.Spec.Pack(id, i)
		part, ok := p.Plain(next, p.Get(next))
		if !ok {
			break
		}
		plain = append(plain, part...)
	}
	if _, err := spec.Decode(plain); err != nil {
		p.Report(key, fmt.Sprintf("the replication of job %q cannot be read", id))
	}
}

// claim judges who has a replication.
func (c *checking) claim(p *check.Page, key, value []byte) {
	var repID string
	if c.k.Claim.Scan(key, &repID) != nil {
		p.Report(key, "the row names no replication")
		return
	}
	if !c.belongs(p, key, string(value)) {
		return
	}
	if _, rec := c.load(p, string(value)); rec != nil && rec.RepID != repID {
		p.Mend(key, fmt.Sprintf("job %q is another replication: %s", value, rec.RepID),
			check.Mend{What: "remove the row", Clear: [][]byte{key}})
	}
}

func (c *checking) expire(p *check.Page, key, _ []byte) {
	var at int64
	var id string
	if c.k.Expire.Scan(key, &at, &id) != nil {
		p.Mend(key, "the row names no job", check.Mend{What: "remove the row", Clear: [][]byte{key}})
		return
	}
	j, rec := c.load(p, id)
	if j == nil && p.Has(c.k.Jobs.Job.Pack(id)) || rec != nil && rec.Expires == instant.Time(at) {
		return
	}
	p.Mend(key, fmt.Sprintf("the row is left over from an earlier end of job %q", id),
		check.Mend{What: "remove the row", Clear: [][]byte{key}})
}
