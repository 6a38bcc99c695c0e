package oracle

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
)

// weights are the invariants of the weights of jobs, and of the numbers of accounts in which they are added up.
type weights struct {
	*chronicle
	changed map[string]instant.Time // when the jobs of an account, or their weights, changed last
}

var weightSubject = subject{
	invariants: []Invariant{
		{"S10p", "The store counts the jobs of an account that demand slots, and adds up their weights."},
		{"S10q", "Under tags, the way of a job from the beginning of a turn to its next one is as the mean weight of " +
			"its account's jobs to its own."},
		{"S3i", "A job has the weight that its document asks for, and 100 if it asks for none."},
	},
	begin: func(c *chronicle) {
		w := &weights{c, map[string]instant.Time{}}
		c.on.jobChanged.add(w.jobChanged)
		c.on.jobMoved.add(w.checkWay)
		c.on.atRest.add(func(struct{}) { w.checkSums(); w.checkDocuments() })
	},
}

// weightOf is the weight of a job; records of before there were weights have none.
func weightOf(r *jobstore.Record) float64 {
	if r.Weight == 0 {
		return 100
	}
	return float64(r.Weight)
}

// demands reports whether a job is one of those among which its account's slots are divided.
func (s *shadow) demands() bool {
	return s.header != nil && !s.record.State.Terminal() &&
		(s.header.Lot == "" || s.header.State == jobs.Running)
}

// population is how many jobs of an account demand slots, and the sum of their weights, which are whole numbers.
type population struct{ jobs, weights float64 }

// count adds a job to the population of its account, or takes it out by -1.
func (s *shadowed) count(job *shadow, by float64) {
	if job != nil && job.record != nil && job.demands() {
		p := s.populations[job.record.Account()]
		s.populations[job.record.Account()] = population{p.jobs + by, p.weights + by*weightOf(job.record)}
	}
}

// jobChanged notes when the numbers of an account change.
func (w *weights) jobChanged(j jobChange) {
	before, after := j.before.demands(), j.after.demands()
	switch {
	case !before && !after, before && after && weightOf(j.before.record) == weightOf(j.after.record):
	case after:
		w.changed[j.after.record.Account()] = w.w.Now()
	default:
		w.changed[j.before.record.Account()] = w.w.Now()
	}
}

// checkSums is S10p.
func (w *weights) checkSums() {
	accounts := map[string]bool{}
	for _, s := range w.shadows {
		if s.demands() {
			accounts[s.record.Account()] = true
		}
	}
	for _, account := range slices.Sorted(maps.Keys(accounts)) {
		list, err := w.w.Store().Accounts(w.w.Present(), []string{account}, schedule.Order{}, w.w.Now())
		if err != nil {
			w.unreadable("numbers of "+account, err)
			return
		}
		n, sum := w.populations[account].jobs, w.populations[account].weights
		if a := list[0]; float64(a.Jobs) != n || float64(100*a.Jobs+a.Excess) != sum {
			w.Fail("S10p", "%s has %.0f jobs with weights of %.0f together, and the store says %d and %d",
				account, n, sum, a.Jobs, 100*a.Jobs+a.Excess)
		}
	}
}

// longTransaction is longer than any transaction takes. It reads numbers of accounts as they were when it began.
const longTransaction = 10 * time.Second

// checkWay is S10q, for a job that pays for a turn. It is judged while the jobs of its account stay the same.
func (w *weights) checkWay(j jobChange) {
	turn, _ := turnOf(j.Request)
	account := j.after.record.Account()
	if !hadTurn(j) || j.after.header.State != jobs.Pending ||
		w.sharing.Policy != schedule.Tags || !w.sharing.settled(w.w.Now()) ||
		w.w.Now().Sub(w.changed[account]) < longTransaction {
		return
	}
	began, err := placeOf(j.before.header.Priority)
	is, errNow := placeOf(j.after.header.Priority)
	if err != nil || errNow != nil || began.Epoch != is.Epoch || turn.Place.Epoch != is.Epoch {
		return // S3a judges what cannot be read
	}
	var tail int64 // that the account has after the turn
	for _, m := range j.Mutations {
		if string(m.Key) == string(w.w.Store().Keys.Tail.Pack(account)) && len(m.Value) == 8 {
			tail = int64(binary.LittleEndian.Uint64(m.Value))
		}
	}
	shares := w.sharing.sharesOf(account)
	next := float64(tail) - costOf(turn.Owed, shares)
	n, sum := w.populations[account].jobs, w.populations[account].weights
	if j.after.header.Lot != "" { // it is parked, and was one of them for its turn
		n, sum = n+1, sum+weightOf(j.after.record)
	}
	way := wayOf(next-float64(began.Key), 2*n*costOf(max(turn.Owed, w.growthInterval()), shares))
	want := next - way + min(way*sum/n/weightOf(j.after.record), longestWay)
	imprecise := 2 + want/1e9
	// No tag is below the floor, which is no more than the account's next tag.
	if key := float64(is.Key); key < want-imprecise || key > max(want, next)+imprecise {
		w.Fail("S10q", "job %s of weight %.0f, of %.0f jobs with %.0f together, had a turn at %d; its next is at "+
			"%d, and should be at %.0f", j.id, weightOf(j.after.record), n, sum, began.Key, is.Key, want)
	}
}

// checkDocuments is S3i. A job that is over is excused.
func (w *weights) checkDocuments() {
	for _, t := range w.w.Tenants() {
		prefix := jobstore.DocumentJobs(t.Instance())
		for _, id := range w.ids() {
			s := w.shadows[id]
			if s.header == nil || s.record.State.Terminal() || id != prefix+s.record.DocID {
				continue
			}
			if doc := w.document(t, s.record.DocID); doc != nil && weightIn(doc) != weightOf(s.record) {
				w.Fail("S3i", "job %s has weight %.0f, and its document %s", id, weightOf(s.record), doc.Body)
			}
		}
	}
}

func weightIn(doc *docs.Document) float64 {
	asks := struct{ Weight float64 }{100}
	_ = json.Unmarshal(doc.Body, &asks) // a body that is no object asks for nothing
	return asks.Weight
}
