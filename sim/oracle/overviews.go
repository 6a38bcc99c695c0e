package oracle

import (
	"errors"

	"couchrelay/core/jobstore"
	"couchrelay/sim/world"
)

// overviews compare numbers of jobs by server, error and account, as operators see them, with the jobs that there are.
type overviews struct {
	*chronicle
	landings int // so far
}

var overviewSubject = subject{
	invariants: []Invariant{
		{"S41c", "Overviews of servers and errors have each that a job touches or has, once, in the order of names, " +
			"in pages of any length, with the numbers of jobs that are over and that are not."},
		{"S41d", "The overview of accounts has each that has jobs, once, in the order of names, in pages of any " +
			"length, with its shares and the number of its jobs that demand slots; others have used slots."},
		{"S41e", "The number of jobs that match a filter is told up to a limit, and whether there may be more."},
	},
	begin: func(c *chronicle) {
		v := &overviews{chronicle: c}
		c.on.followed.add(func(landing) { v.landings++ })
		c.on.ticked.add(v.ticked)
		c.on.atRest.add(func(struct{}) { v.check(1); v.check(100) })
	},
}

// Overviews are compared after some commits.
const overviewEvery = 50

func (v *overviews) ticked(world.Ticked) {
	if v.landings >= overviewEvery {
		v.landings = 0
		v.check(2)
	}
}

func (v *overviews) check(page int) {
	read := jobstore.Lists{Store: v.w.Store(), Reader: v.w.Present()}
	v.checkCounted("servers", read.Servers, page, func(s *shadow) []string {
		source, target := hostOf(s.record.Source), hostOf(s.record.Target)
		if source == target {
			return []string{source}
		}
		return []string{source, target}
	})
	v.checkCounted("errors", read.Errors, page, func(s *shadow) []string {
		if state := s.shown(); state == jobstore.Crashing || state == jobstore.Failed {
			return []string{s.record.Error}
		}
		return nil
	})
	v.checkAccounts(page)
	v.checkCount(read, page)
}

// span is a number of jobs. Those of a database whose deletion has not been answered may be there or not.
type span struct{ least, most int64 }

func (s *span) add(sure bool) {
	if s.most++; sure {
		s.least++
	}
}

func (s span) has(n int64) bool { return s.least <= n && n <= s.most }

// eachListed calls f for all jobs that operators may be told of, and says whether they must.
func (c *chronicle) eachListed(f func(id string, s *shadow, sure bool)) {
	there := (&documents{chronicle: c}).instances()
	for id, s := range c.shadows { // in any order: f counts
		if _, dropped := c.dropped[s.instance()]; s.header != nil && !dropped {
			f(id, s, s.record.Transient() || there[s.instance()])
		}
	}
}

// overview reads a list of numbers page by page.
type overview = func(after string, limit int) ([]jobstore.Counted, string, error)

// checkCounted is S41c. A finished job of a request is in no list.
func (v *overviews) checkCounted(what string, read overview, page int, values func(*shadow) []string) {
	active, over := map[string]*span{}, map[string]*span{}
	v.eachListed(func(_ string, s *shadow, sure bool) {
		numbers := active
		if s.record.State.Terminal() {
			if numbers = over; s.record.Transient() {
				return
			}
		}
		for _, value := range values(s) {
			if numbers[value] == nil {
				numbers[value] = &span{}
			}
			numbers[value].add(sure)
		}
	})
	for after := ""; ; {
		list, next, err := read(after, page)
		if errors.Is(err, jobstore.ErrReindexing) && v.indexing() {
			return
		}
		if err != nil || next != "" && next <= after || len(list) > 3*page { // jobs of documents, of requests, and over
			v.Fail("S41c", "the overview of %s goes from %q to %q by %d: %v", what, after, next, len(list), err)
			return
		}
		for _, c := range list {
			if c.Value <= after || next != "" && c.Value > next {
				v.Fail("S41c", "%q is out of order in the overview of %s", c.Value, what)
				return
			}
			v.checkNumber(what, c.Value, c.Active, active)
			v.checkNumber(what, c.Value, c.Over, over)
			after = c.Value
		}
		if after = next; next == "" {
			break
		}
	}
	for _, numbers := range []map[string]*span{active, over} {
		for value, n := range numbers {
			if n.least > 0 && value != "" {
				v.Fail("S41c", "the overview of %s lacks %q, which %d jobs have", what, value, n.least)
			}
		}
	}
}

// checkNumber compares a number that is told, and takes it off those that are to be told.
func (v *overviews) checkNumber(what, value string, told int64, numbers map[string]*span) {
	n := span{}
	if numbers[value] != nil {
		n = *numbers[value]
		delete(numbers, value)
	}
	if !n.has(told) {
		v.Fail("S41c", "the overview of %s has %d jobs of %q, and there are %d", what, told, value, n.least)
	}
}

// checkAccounts is S41d.
func (v *overviews) checkAccounts(page int) {
	demand := map[string]int64{}
	for _, s := range v.shadows { // in any order
		if s.demands() {
			demand[s.record.Account()]++
		}
	}
	for after := ""; ; {
		list, next, err := jobstore.Uses(v.w.Present(), v.w.Store(), v.w.Now(), after, page)
		if err != nil || next != "" && next <= after || len(list) > page {
			v.Fail("S41d", "the overview of accounts goes from %q to %q by %d: %v", after, next, len(list), err)
			return
		}
		for _, u := range list {
			switch {
			case u.Account <= after || next != "" && u.Account > next:
				v.Fail("S41d", "account %q is out of order", u.Account)
				return
			case u.Jobs != demand[u.Account]:
				v.Fail("S41d", "account %s has %d jobs that demand slots, and %d are told", u.Account,
					demand[u.Account], u.Jobs)
			case u.Jobs == 0 && u.Usage <= 0:
				v.Fail("S41d", "account %s is told, which has nothing", u.Account)
			case v.sharing.settled(v.w.Now()) && u.Shares != v.sharing.sharesOf(u.Account):
				v.Fail("S41d", "account %s has %d shares, and %d are told", u.Account,
					v.sharing.sharesOf(u.Account), u.Shares)
			}
			delete(demand, u.Account)
			after = u.Account
		}
		if after = next; next == "" {
			break
		}
	}
	for account, n := range demand {
		v.Fail("S41d", "account %s, which has %d jobs that demand slots, is not told", account, n)
	}
}

// checkCount is S41e. Without an index the count ends early, with more to come, behind jobs that do not match.
func (v *overviews) checkCount(read jobstore.Lists, limit int) {
	f := jobstore.Filter{States: []jobstore.State{jobstore.Pending, jobstore.Crashing}}
	n := span{}
	v.eachListed(func(id string, s *shadow, sure bool) {
		if s.matches(id, f) {
			n.add(sure)
		}
	})
	told, more, err := read.Count(f, limit)
	fewer := int64(told) < min(n.least, int64(limit)) && !(more && v.indexing())
	if err != nil || told > limit || !more && !n.has(int64(told)) || int64(told) > n.most || fewer {
		v.Fail("S41e", "of %d jobs that match %d are told up to %d, more %v: %v", n.least, told, limit, more, err)
	}
}
