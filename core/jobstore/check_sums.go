package jobstore

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/check"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/schedule"
)

// number reads the rows of a number for each account.
func (c *checking) number(space tuple.Subspace) func(p *check.Page, key, value []byte) {
	return func(p *check.Page, key, value []byte) {
		var account string
		if space.Scan(key, &account) != nil {
			p.Report(key, "the number of the account cannot be read")
			return
		}
		if len(value) != 8 {
			p.Report(key, "a number has 8 bytes")
		}
		p.Later(func() { c.stored[account] = kv.Counter(value) })
	}
}

// accounts compares numbers of accounts with their jobs.
func (c *checking) accounts(p *check.Page, space tuple.Subspace, want map[string]int64, what string) {
	for account := range want { // order does not matter: sorted below
		c.stored[account] += 0 // accounts without a stored number are compared, too
	}
	for _, account := range slices.Sorted(maps.Keys(c.stored)) {
		got, n := c.stored[account], want[account]
		p.Sum(space.Pack(account), got, n,
			fmt.Sprintf("account %q has %d %s by its number, and %d by its jobs", account, got, what, n))
	}
	clear(c.stored)
}

// refusal judges a refused document.
func (c *checking) refusal(p *check.Page, key, value []byte) {
	var job, doc, rev string
	if c.k.Refused.Scan(key, &job, &doc, &rev) != nil {
		p.Report(key, "the row names no document")
		return
	}
	plain, opens := p.Opens(key, value)
	if !c.belongs(p, key, job) {
		return
	}
	var r Refusal
	if opens && json.DecodeRecord(plain, &r) != nil {
		p.Report(key, "the refusal cannot be read")
	}
	_, rec := c.load(p, job)
	p.Later(func() {
		of := c.k.Jobs.Job.Pack(job, int64(0))
		if !bytes.Equal(c.refused.key, of) {
			c.refusedOf(p, of)
			if c.refused.got = -1; rec != nil {
				c.refused.got = 0
			}
			if rec != nil && rec.Refused != nil {
				c.refused.got = rec.Refused.Listed
			}
		}
		c.refused.count++
	})
}

// refusedOf compares the list of the last job with its record, and goes on to the next one.
func (c *checking) refusedOf(p *check.Page, next []byte) {
	last := c.refused
	if last.key != nil && last.got >= 0 && last.got != last.count {
		what := fmt.Sprintf("the job lists %d refused documents, of which there are %d", last.got, last.count)
		p.Doubt(last.key, what, check.Mend{})
	}
	c.refused = tallied{key: next}
}

// labelOf is the label that a row of the index is of.
func (c *checking) labelOf(key []byte) (g group, l label, id string, ok bool) {
	err := c.k.Index.Scan(key, (*int64)(&g), &l.field, &l.value, &id)
	return g, l, id, err == nil
}

// label judges a row by which lists find a job.
func (c *checking) label(p *check.Page, key, _ []byte) {
	g, l, id, ok := c.labelOf(key)
	if !ok {
		p.Report(key, "the row names no job")
		return
	}
	whole, part := c.k.tallyRow("", g, l), []byte(nil)
	got, ofDatabase := kv.Counter(p.Get(whole)), int64(0)
	if instance := instanceOf(id); instance != "" {
		part = c.k.tallyRow(instance, g, l)
		ofDatabase = kv.Counter(p.Get(part))
	}
	stray := c.stray(p, key, g, l, id)
	p.Later(func() {
		if stray {
			c.differ(g, l, id, -1)
		}
		c.tallied(p, 0, whole, got)
		c.tallied(p, 1, part, ofDatabase)
	})
}

// stray reports a row of a label that its job does not have.
func (c *checking) stray(p *check.Page, key []byte, g group, l label, id string) bool {
	j, rec := c.load(p, id)
	if j == nil && p.Has(c.k.Jobs.Job.Pack(id)) {
		return false // which is reported
	}
	if rec != nil && c.indexed(p, id) && groupOf(id, rec.State.Terminal()) == g {
		for _, has := range append(current(j), rec.standing()...) {
			if has.field == l.field && indexed(has.value) == l.value {
				return false
			}
		}
	}
	p.Mend(key, fmt.Sprintf("job %q is listed by a %s that it has not", id, l.field),
		check.Mend{What: "remove the row", Clear: [][]byte{key}})
	return true
}

// tallied counts a row of the index, and judges the tally of the rows before it if it is of another. nil is none.
func (c *checking) tallied(p *check.Page, of int, key []byte, got int64) {
	at := &c.groups[of]
	if bytes.Equal(at.key, key) {
		at.count++
		return
	}
	if at.key != nil {
		want := at.count + c.missing[string(at.key)]
		delete(c.missing, string(at.key))
		c.reindexed(p, at.key, at.got, want)
	}
	*at = tallied{key: key, got: got, count: 1}
}

func (c *checking) reindexed(p *check.Page, key []byte, got, want int64) {
	p.Sum(key, got, want, fmt.Sprintf("%d jobs are counted, and there are %d", got, want))
}

// tally judges the tally of a label that no row has; all others are judged with their rows.
func (c *checking) tally(p *check.Page, key, value []byte) {
	var instance, field, text string
	var g int64
	if c.k.Tally.Scan(key, &instance, &g, &field, &text) != nil || len(value) != 8 {
		p.Report(key, "the tally cannot be read")
		return
	}
	rows := c.k.Index.Sub(g, field, text)
	at := rows.Range()
	if instance != "" {
		prefix := rows.Pack(instance)
		at = kv.PrefixRange(prefix[:len(prefix)-1])
	}
	dropped := p.Has(c.k.Dropped.Pack(instance))
	if len(p.Range(at, 1)) > 0 {
		return
	}
	got := kv.Counter(value)
	p.Later(func() {
		want := c.missing[string(key)]
		delete(c.missing, string(key))
		if want != 0 || !dropped { // a sweep removes what is left of the others
			c.reindexed(p, key, got, want)
		}
	})
}

// untold judges labels that have neither rows nor a tally.
func (c *checking) untold(p *check.Page) {
	for _, key := range slices.Sorted(maps.Keys(c.missing)) {
		if want := c.missing[key]; want != 0 {
			c.reindexed(p, []byte(key), 0, want)
		}
	}
}

// order replaces settings that cannot be read, without which no service starts, by the default ones until a node shares
// its own. Jobs that wait go before those that come, in their order: nobody can begin another epoch before that.
func (c *checking) order(p *check.Page, key, value []byte) {
	if !bytes.Equal(key, c.k.Order) {
		p.Report(key, "no row of the service has such a key")
		return
	}
	var o schedule.Order
	if json.Decode(value, &o) == nil && o.Epoch >= 0 && o.Forgetting.Interval > 0 {
		return
	}
	o = DefaultSharing().order()
	p.Later(func() {
		o.Epoch = c.epoch + 1
		p.Mend(key, "the settings of sharing cannot be read", check.Mend{
			What: "take the default ones until a node starts with its own",
			Set:  []kv.KeyValue{{Key: key, Value: encodeOrder(o)}}})
	})
}

func (c *checking) hold(p *check.Page, key, value []byte) {
	var id string
	var e Hold
	if c.k.Held.Scan(key, &id) != nil || json.Decode(value, &e) != nil || e.ID() != id {
		p.Report(key, "the hold cannot be read: lift it, and make it again")
	}
}

func (c *checking) lifted(p *check.Page, key, _ []byte) {
	var id string
	if c.k.Lifted.Scan(key, &id) != nil {
		p.Mend(key, "the row names no hold", check.Mend{What: "remove the row", Clear: [][]byte{key}})
	} else if p.Has(c.k.Held.Pack(id)) {
		p.Mend(key, "the hold is in force and lifted at once",
			check.Mend{What: "keep the hold in force", Clear: [][]byte{key}})
	}
}

func (c *checking) dropped(p *check.Page, key, _ []byte) {
	var prefix string
	err := c.k.Dropped.Scan(key, &prefix)
	raw, wrong := hex.DecodeString(strings.TrimSuffix(prefix, "|"))
	if err != nil || wrong != nil || len(raw) != len(tuple.UUID{}) {
		p.Report(key, "the row names no database")
	}
}
