package jobs

import (
	"bytes"
	"fmt"
	"slices"

	"couchrelay/core/check"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Sections are the rows of a queue, for a check of the store. judge is told of each job, with its data if that can be
// read, and what is wrong with it otherwise; it may be nil.
func Sections(k Keys, judge func(p *check.Page, j *Job)) []check.Section {
	q := &checking{q: New(k), judge: judge, counted: map[string]int64{}, stored: map[string]int64{}}
	list := []check.Section{{Space: k.Job, Row: q.job}}
	for _, space := range []tuple.Subspace{k.Ready, k.Waiting, k.Parked, k.Owned, k.Changed} {
		list = append(list, check.Section{Space: space, Row: q.index})
	}
	return append(list,
		check.Section{Space: k.Count, Row: q.count, End: q.counts},
		check.Section{Space: k.Worker, Row: q.worker},
		check.Section{Space: k.Beat, Row: q.ofWorker(k.Beat)},
		check.Section{Space: k.Call, Row: q.ofWorker(k.Call)},
		check.Section{Space: k.Gone, Row: func(*check.Page, []byte, []byte) {}},
		check.Section{Space: k.Signal, Row: func(p *check.Page, key, value []byte) {
			var bucket int64
			if k.Signal.Scan(key, &bucket) != nil || len(value) != 8 {
				p.Report(key, "the signal cannot be read")
			}
		}},
		check.Section{Space: k.Incarnation, Row: func(p *check.Page, key, value []byte) {
			if n, _, err := decodeIncarnation(value); err != nil || n < 1 || len(key) != len(k.Incarnation) {
				p.Report(key, "the incarnation cannot be read")
			}
		}, End: q.incarnation})
}

// checking is a check of a queue.
type checking struct {
	q               *Queue
	judge           func(p *check.Page, j *Job)
	counted, stored map[string]int64 // by key of the counter
	whole           bool             // there are counters that are not spread over shards
}

// HeaderOf reads the header of a job; nil if there is none that can be read.
func HeaderOf(p *check.Page, k Keys, id string) *Job {
	j, _ := decodeHeader(id, p.Get(k.Job.Pack(id)))
	return j
}

// Load reads a job with its data; nil if there is none, or it cannot be read.
func Load(p *check.Page, k Keys, id string) *Job {
	j := HeaderOf(p, k, id)
	if j == nil || !readData(p, k, j) {
		return nil
	}
	return j
}

func readData(p *check.Page, k Keys, j *Job) bool {
	for n := int64(0); ; n++ {
		key := k.Job.Pack(j.ID, n)
		value := p.Get(key)
		if value == nil {
			return true
		}
		plain, ok := p.Plain(key, value)
		if !ok {
			return false
		}
		if n == 0 {
			j.Data = plain
		} else {
			j.Data = append(j.Data, plain...)
		}
	}
}

// rowsOf are those that stand for a job in lists of the queue.
func rowsOf(q *Queue, j *Job) (list []kv.KeyValue) {
	if key, value := q.index(j); key != nil {
		list = append(list, kv.KeyValue{Key: key, Value: value})
	}
	if key := q.Keys.changeOf(j); key != nil {
		list = append(list, kv.KeyValue{Key: key, Value: []byte{}})
	}
	return list
}

func (c *checking) job(p *check.Page, key, value []byte) {
	k := c.q.Keys
	t, err := k.Job.Unpack(key)
	if err != nil || len(t) < 1 || len(t) > 2 {
		p.Report(key, "the key is none of a job")
		return
	}
	id, isText := t[0].(string)
	if !isText {
		p.Report(key, "the key is none of a job")
		return
	}
	if len(t) == 2 {
		c.part(p, key, value, id, t[1])
		return
	}
	j, err := decodeHeader(id, value)
	if err != nil {
		p.Report(key, "the header of the job cannot be read: "+err.Error())
		return
	}
	if !j.coherent() {
		p.Report(key, fmt.Sprintf("the header contradicts itself: the job is %s, with lock %q", j.State, j.Lock.Worker))
		return
	}
	counter := string(c.q.counter(j))
	p.Later(func() { c.counted[counter]++ })
	for _, row := range rowsOf(c.q, j) {
		c.needs(p, row)
	}
	if j.State == Running {
		c.runs(p, j)
	}
	if c.judge != nil {
		if readData(p, k, j) {
			c.judge(p, j)
		}
	}
}

// part judges a part of a job's data, of which Get demands that none is missing before it.
func (c *checking) part(p *check.Page, key, value []byte, id string, number any) {
	_, opens := p.Opens(key, value)
	n, isNumber := number.(int64)
	switch {
	case !opens:
	case !p.Has(c.q.Keys.Job.Pack(id)):
		p.Report(key, "a part of a job without its header: what the job was about is lost with that")
	case !isNumber || n != 0 && !p.Has(c.q.Keys.Job.Pack(id, n-1)):
		p.Report(key, "a part of a job without the part before it: the job cannot be read")
	}
}

// needs demands a row that follows from a header.
func (c *checking) needs(p *check.Page, row kv.KeyValue) {
	put := check.Mend{What: "write the row", Set: []kv.KeyValue{row}}
	switch value := p.Look(row.Key); {
	case value == nil:
		p.Mend(row.Key, "the row of a job is missing, by which it is found", put)
	case !bytes.Equal(value, row.Value):
		p.Mend(row.Key, fmt.Sprintf("the row of a job has the value %q, not %q", value, row.Value), put)
	}
}

// runs demands the lease of the worker that runs a job.
func (c *checking) runs(p *check.Page, j *Job) {
	lease := c.q.Keys.Worker.Pack(j.Lock.Worker)
	if p.Has(lease) {
		return
	}
	p.Mend(lease, "a job is running, and its worker has no lease, so that nobody will take the job from it",
		check.Mend{What: "note the lease as expired, so that the job is queued again", Set: []kv.KeyValue{
			{Key: lease, Value: []byte{leaseExpired}}}})
}

// index judges a row of a list: it must be one of the job that it names. One that names none goes, too: while it is
// there, each request that comes to it fails, on all nodes.
func (c *checking) index(p *check.Page, key, _ []byte) {
	id, known := c.idOf(key)
	if !known {
		p.Mend(key, "the row names no job", check.Mend{What: "remove the row", Clear: [][]byte{key}})
		return
	}
	j := HeaderOf(p, c.q.Keys, id)
	if j != nil {
		for _, row := range rowsOf(c.q, j) {
			if bytes.Equal(row.Key, key) {
				return
			}
		}
	} else if p.Has(c.q.Keys.Job.Pack(id)) {
		return // the header is reported
	}
	p.Mend(key, fmt.Sprintf("the row is left over: job %q is elsewhere, or gone", id),
		check.Mend{What: "remove the row", Clear: [][]byte{key}})
}

// idOf is the job that a row of a list ends with.
func (c *checking) idOf(key []byte) (string, bool) {
	k := c.q.Keys
	for _, space := range []tuple.Subspace{k.Ready, k.Waiting, k.Parked, k.Owned, k.Changed} {
		if !space.Contains(key) {
			continue
		}
		t, err := space.Unpack(key)
		if err != nil || len(t) == 0 {
			return "", false
		}
		id, is := t[len(t)-1].(string)
		return id, is
	}
	return "", false
}

func (c *checking) count(p *check.Page, key, value []byte) {
	t, err := c.q.Keys.Count.Unpack(key)
	if err != nil || len(t) == 0 || len(t) > 2 {
		p.Report(key, "the counter cannot be read")
		return
	}
	shard, isShard := int64(0), true
	if len(t) == 2 {
		shard, isShard = t[1].(int64)
	}
	standing, _ := t[0].(string)
	if !slices.Contains(standings, standing) || !isShard || shard < 0 || shard >= counterShards {
		p.Mend(key, "the row counts jobs of no list", check.Mend{What: "remove the row", Clear: [][]byte{key}})
		return
	}
	if len(value) != 8 {
		p.Report(key, "a counter has 8 bytes")
	}
	p.Later(func() {
		c.stored[string(key)] = kv.Counter(value)
		c.whole = c.whole || len(t) == 1
	})
}

// counts compares the counters with the headers.
func (c *checking) counts(p *check.Page) {
	k := c.q.Keys
	for _, standing := range standings {
		var sum, want int64
		whole := k.Count.Pack(standing)
		sum = c.stored[string(whole)]
		for shard := range int64(counterShards) {
			key := k.Count.Pack(standing, shard)
			got, counted := c.stored[string(key)], c.counted[string(key)]
			sum, want = sum+got, want+counted
			if !c.whole {
				p.Sum(key, got, counted, fmt.Sprintf("%d %s jobs of this part are counted, and there are %d",
					got, standing, counted))
			}
		}
		if c.whole {
			p.Sum(k.Count.Pack(standing, 0), sum, want,
				fmt.Sprintf("%d %s jobs are counted, and there are %d", sum, standing, want))
		}
	}
}

func (c *checking) worker(p *check.Page, key, value []byte) {
	var worker string
	if err := c.q.Keys.Worker.Scan(key, &worker); err != nil {
		p.Report(key, "the row names no worker")
		return
	}
	live := len(value) == 1 || len(value) == 9
	switch {
	case len(value) == 0, value[0] != leaseExpired && (value[0] != leaseLive || !live):
		p.Mend(key, "the lease is neither live nor expired", check.Mend{
			What: "note the lease as expired, so that jobs of the worker are queued again",
			Set:  []kv.KeyValue{{Key: key, Value: []byte{leaseExpired}}}})
	case value[0] == leaseLive && len(p.Get(c.q.Keys.Beat.Pack(worker))) < 10:
		p.Mend(key, "the lease has no heartbeat", check.Mend{
			What: "note the lease as expired, so that jobs of the worker are queued again",
			Set:  []kv.KeyValue{{Key: key, Value: []byte{leaseExpired}}}})
	}
}

// ofWorker judges rows that belong to the lease of a worker.
func (c *checking) ofWorker(space tuple.Subspace) func(p *check.Page, key, value []byte) {
	return func(p *check.Page, key, _ []byte) {
		var worker string
		if err := space.Scan(key, &worker); err != nil {
			p.Report(key, "the row names no worker")
		} else if !p.Has(c.q.Keys.Worker.Pack(worker)) {
			p.Mend(key, "the row is left over from a worker that is gone",
				check.Mend{What: "remove the row", Clear: [][]byte{key}})
		}
	}
}

// incarnation demands that no change is of a later incarnation than the store: those to come would sort before it, and
// readers who go on behind it miss them.
func (c *checking) incarnation(p *check.Page) {
	k := c.q.Keys
	n, _, err := decodeIncarnation(p.Get(k.Incarnation))
	if err != nil {
		return // which is reported
	}
	later := k.Changed.Range()
	later.Begin = k.Changed.Pack(n + 1)
	for _, row := range p.Range(later, 1) {
		change, err := k.scanChange(row.Key)
		if err != nil {
			return // which is reported
		}
		is := change.Sequence.Incarnation
		value := tuple.AppendInt(tuple.AppendInt(nil, is), 0)
		what := fmt.Sprintf("the store's incarnation is %d, and a job has changed in %d", n, is)
		p.Mend(k.Incarnation, what, check.Mend{
			What: "raise it to that; then restart all nodes", Set: []kv.KeyValue{{Key: k.Incarnation, Value: value}}})
	}
}
