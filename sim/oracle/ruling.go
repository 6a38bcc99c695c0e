package oracle

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
)

// ruling is what the oracle knows of the settings in force, and of the tags that were given out.
type ruling struct {
	jobstore.Sharing
	epoch     int64 // changes of the policy so far
	changing  bool
	asked, at instant.Time // when the last change was asked for, and was in force

	order   schedule.Order   // as stored last
	tails   map[string]int64 // by account
	virtual int64
}

// inForce notes settings that an operator has put in force.
func (r *ruling) inForce(s jobstore.Sharing, now instant.Time) {
	if s.Policy != r.Policy {
		r.epoch++
	}
	r.Sharing, r.changing, r.at = s, false, now
}

// settles is how long a commit may land late that goes by former settings.
const settles = 2 * time.Minute

func (r *ruling) settled(now instant.Time) bool {
	return !r.changing && (r.at == 0 || now.Sub(r.at) > settles)
}

func (r *ruling) sharesOf(account string) int64 {
	if n := r.Shares[account]; n > 0 {
		return n
	}
	return schedule.DefaultShares
}

// checkRuling is a part of S10: a change of settings leaves the clock of decay where it was, and a turn costs its
// account the time in which others waited over its shares.
func (o *shares) checkRuling(l landing) {
	r, paid, keys := &o.ruling, false, o.w.Store().Keys
	for _, m := range l.Mutations {
		var account string
		switch {
		case bytes.Equal(m.Key, keys.Order):
			o.checkDecay(m.Value, l)
		case keys.Tail.Contains(m.Key) && keys.Tail.Scan(m.Key, &account) == nil && len(m.Value) == 8:
			before, after := r.tails[account], int64(binary.LittleEndian.Uint64(m.Value))
			r.tails[account], paid = after, true
			if cost := o.cost(l.Request, account); after < before+cost && r.settled(o.w.Now()) {
				o.Fail("S10", "the tags of %s move from %d to %d by %v, which costs %d", account, before, after, l.Request, cost)
			}
		}
	}
	held, ended := heldBy(l.Request)
	turn, _ := turnOf(l.Request)
	if s := o.shadows[held.JobID]; ended && turn.Owed > 0 && !paid && len(l.jobs) > 0 && r.Policy == schedule.Tags && r.settled(o.w.Now()) {
		o.Fail("S10", "job %v ran for %s while others waited, and pays nothing: %s", s.header, turn.Owed, l.Request)
	}
}

// turnOf is the turn that a request ends.
func turnOf(q node.Request) (t jobstore.Turn, ends bool) {
	e, ends := q.(node.EndsTurn)
	if !ends {
		return t, false
	}
	return e.EndedTurn(), true
}

// cost is by how much a request moves the tags of an account: its turn's microseconds at 100 shares, or an interval's
// when it makes a job.
func (o *shares) cost(q node.Request, account string) int64 {
	d := o.w.Config().Settings.Interval
	if turn, ends := turnOf(q); ends {
		d = turn.Owed
	}
	return d.Microseconds() * schedule.DefaultShares / o.ruling.sharesOf(account)
}

func (o *shares) checkDecay(row []byte, l landing) {
	var order schedule.Order
	if err := json.Unmarshal(row, &order); err != nil {
		o.Fail("S10", "order %s: %v", row, err)
		return
	}
	at, was := l.Wall, o.ruling.order.Decay
	if l.Request == nil {
		at = o.ruling.asked
	}
	o.ruling.order = order
	if before, after := clockOf(was, at), clockOf(order.Decay, at); was.HalfLife > 0 && math.Abs(before-after) > 1e-4 {
		o.Fail("S10", "the clock of decay goes from %f to %f", before, after)
	}
	if c := order.PriorityCoeff; c != 0 {
		want := float64(order.Forgetting.Interval) * math.Ln2 / math.Log(1e6/float64(c))
		if got := float64(order.Decay.HalfLife); math.Abs(got-want) > want/1e4 {
			o.Fail("S10", "priority_coeff %d is a half-life of %s, and should be of %s", c, order.Decay.HalfLife, time.Duration(want))
		}
	}
}

// dispatched notes the tag of a job that got a slot.
func (r *ruling) dispatched(priority []byte, now instant.Time) {
	var epoch, key, created int64
	if r.Policy == schedule.Tags && r.settled(now) && tuple.Subspace(nil).Scan(priority, &epoch, &key, &created) == nil && epoch == r.epoch {
		r.virtual = max(r.virtual, key)
	}
}

// checkInForce is a part of S10: the settings are those that an operator gave last, and a change of the policy began an
// epoch.
func (o *shares) checkInForce() {
	r := &o.ruling
	if r.at == 0 || r.changing {
		return
	}
	order, err := o.w.Store().Order(o.w.Present())
	if err != nil || order.Policy != r.Policy || order.PriorityCoeff != r.PriorityCoeff || order.Epoch != r.epoch || order.Forgetting != r.Forgetting {
		o.Fail("S10", "%+v is in force, and should be %+v of epoch %d: %v", order, r.Sharing, r.epoch, err)
	}
	// Under auto priorities are remembered for no less time than under CouchDB's 0.98.
	if least := float64(order.Forgetting.Interval) * math.Ln2 / -math.Log(0.98); order.Policy == schedule.FairShare && order.PriorityCoeff == 0 &&
		o.w.Now().Sub(r.at) > 5*order.Forgetting.Interval && float64(order.Decay.HalfLife) < least*0.999 {
		o.Fail("S10", "auto has priorities decay in half-lives of %s, and the least is %s", order.Decay.HalfLife, time.Duration(least))
	}
	space := o.w.Store().Keys.Shares
	rows, err := o.w.Present().GetRange(space.Range(), kv.RangeOptions{})
	stored := map[string]int64{}
	for _, row := range rows {
		var account string
		if err = space.Scan(row.Key, &account); err == nil {
			stored[account] = int64(binary.LittleEndian.Uint64(row.Value))
		}
	}
	if err != nil || !maps.Equal(stored, r.Shares) {
		o.Fail("S10", "the shares are %v, and should be %v: %v", stored, r.Shares, err)
	}
}
