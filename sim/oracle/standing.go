package oracle

import (
	"math"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
)

// sight is the queue as a node last saw it. A survey may come in parts, each about some accounts; only the whole
// counts.
type sight struct {
	asked    []string     // the accounts that its last request is about
	survey   uint64       // id of that request
	since    instant.Time // when the first part was sent, by the world's clock
	epoch    int64        // of the parts so far: those that were read under another policy are of no use
	parts    map[string]schedule.Account
	again    bool // the request failed, and will be asked again as it was
	crowded  bool // more jobs waited than there were slots
	order    schedule.Order
	accounts map[string]schedule.Account
}

// asks notes a request about a part of the queue.
func (s *sight) asks(q node.Survey, id uint64, first bool, now instant.Time) {
	if s.asked, s.survey, s.again = q.Accounts, id, false; first {
		s.since, s.parts = now, map[string]schedule.Account{}
	}
}

// saw notes the answer to a request, which may be the last of its survey.
func (s *sight) saw(order schedule.Order, accounts []schedule.Account, last bool) {
	if order.Epoch != s.epoch {
		s.epoch, s.parts = order.Epoch, map[string]schedule.Account{}
	}
	for i, a := range accounts {
		s.parts[s.asked[i]] = a
	}
	if last {
		s.order, s.accounts = order, s.parts
	}
}

// seesPart reports whether a node has seen a part of the queue in a step, and asks for the next one: for jobs behind
// those, or for accounts that it has not asked for. A node that stood still may see the end of a survey and begin
// another one in a step.
func (s *nodeStep) seesPart() bool {
	done, _ := s.ev.(node.Done)
	if _, sees := done.Result.(node.Surveyed); !sees {
		return false
	}
	return slices.ContainsFunc(s.effects, func(e node.Effect) bool {
		ask, _ := e.(node.Ask)
		q, is := ask.Request.(node.Survey)
		return is && (q.Behind != "" || len(q.Accounts) > 0 && !s.p.sight.askedFor(q.Accounts[0]))
	})
}

// askedFor reports whether the present survey has asked for an account.
func (s *sight) askedFor(account string) bool {
	_, seen := s.parts[account]
	return seen || slices.Contains(s.asked, account)
}

// standing is where the job of a run stands by the definition, worked out in floating point from its
// node's view.
type standing struct {
	account string
	period  time.Duration // in which it grows by all that the account's use asks for
	epoch   int64         // of the key
	key     float64       // as in schedule.Place
	fair    bool          // the key is a logarithm, in units of aHalfLife: it grew under fair share
	unknown bool          // it grew under a policy that the oracle does not define
	weight  float64       // of the job, when its run began
	began   schedule.Place
	slack   float64      // by how much a tag may be off that a weight has moved
	grown   instant.Time // until when it grew, by the node's steady clock; Never when the run is over
	// off is by how much the value of the key may differ by rounding when the clock of decay shows at, in
	// half-lives.
	off, at float64
}

// defined reports whether the oracle defines a policy: those that services have. Under others, which are compared
// with them in simulations, nothing is promised of where jobs stand.
func defined(p schedule.Policy) bool {
	return p == schedule.FairShare || p == schedule.FIFO || p == schedule.Tags
}

// aHalfLife is the unit of places under fair share.
const aHalfLife = 1 << 32

// clockOf is the time on the clock of decay, in half-lives.
func clockOf(d schedule.Decay, now instant.Time) float64 {
	since := max(0, float64(now.Sub(d.Since)))
	return float64(d.Passed)/aHalfLife + since/float64(max(d.HalfLife, time.Second))
}

// value is a priority value after decay.
func (s *standing) value(clock float64) float64 { return math.Exp2(s.key/aHalfLife - clock) }

// grow brings the standing of a run up to now, of which it owes for some time. Under fair share its value grows in
// every period by usage * weights / (weight * shares^2), and by a part of this in a part of it. Under tags it is on
// the way to the account's last tag, and under fifo the present.
func (s *standing) grow(p *process, owed time.Duration) {
	now, order := p.Clock(), p.sight.order
	a, known := p.sight.accounts[s.account]
	if !known || now.Steady <= s.grown {
		return
	}
	switch order.Policy {
	case schedule.FIFO:
		s.key, s.slack = float64(now.Wall), 0
	case schedule.Tags:
		s.key = s.tag(a, order.Epoch, owed)
	case schedule.FairShare:
		clock, value := clockOf(order.Decay, now.Wall), 0.0
		if s.epoch == order.Epoch && s.key/aHalfLife > clock {
			value = s.value(clock)
		}
		part := min(1, float64(now.Steady.Sub(s.grown))/float64(s.period))
		sum := float64(100*a.Jobs + a.Excess)
		value += float64(a.Usage) * sum / s.weight / float64(a.Shares) / float64(a.Shares) * part
		s.key = (clock + math.Log2(max(value, 1))) * aHalfLife
		s.off, s.at = s.rounding(clock)+3, clock // three numbers are made whole
	}
	s.epoch, s.grown, s.fair = order.Epoch, now.Steady, order.Policy == schedule.FairShare
	s.unknown = !defined(order.Policy)
}

// tag is where the job's next turn is under tags: the way from where this one began to its account's next tag is that
// of a job of the mean weight, and lighter ones have the further to go. No way is longer than what all jobs would pay
// for two such turns.
func (s *standing) tag(a schedule.Account, epoch int64, owed time.Duration) float64 {
	from, n, sum := float64(s.began.Key), float64(max(a.Jobs, 1)), float64(100*a.Jobs+a.Excess)
	if s.began.Epoch != epoch {
		from = float64(a.Floor)
	}
	if s.slack = 0; sum != n*s.weight {
		s.slack = 1 + float64(a.Tail)/1e12
	}
	way := wayOf(float64(a.Tail)-from, 2*n*costOf(max(owed, s.period), a.Shares))
	return max(float64(a.Floor), float64(a.Tail)-way+min(math.Floor(way*sum/n/s.weight), longestWay))
}

// longestWay bounds ways: two years of virtual time.
const longestWay = 1 << 46

func wayOf(way, most float64) float64 { return min(max(way, 0), most, longestWay) }

// costOf is what an account pays for a turn.
func costOf(d time.Duration, shares int64) float64 {
	return float64(d.Microseconds() * schedule.DefaultShares / shares)
}

// rounding bounds the difference that rounding makes to a value. It decays as values do, and grows when
// clocks are set back.
func (s *standing) rounding(clock float64) float64 {
	return s.off*math.Exp2(s.at-clock) + s.value(clock)/1e7
}

// differs reports whether a place cannot belong to the standing.
func (s *standing) differs(told schedule.Place) bool {
	if told.Epoch != s.epoch || s.unknown {
		return !s.unknown
	}
	if !s.fair {
		return math.Abs(float64(told.Key)-s.key) > s.slack
	}
	other := standing{key: float64(told.Key)}
	return math.Abs(other.value(s.at)-s.value(s.at)) > s.off
}

// behind reports whether a standing is surely behind a place.
func (s *standing) behind(p schedule.Place, clock float64) bool {
	if p.Epoch != s.epoch || s.unknown {
		return p.Epoch < s.epoch
	}
	if !s.fair {
		return s.key > float64(p.Key)+s.slack
	}
	other := standing{key: float64(p.Key)}
	return s.value(clock) > other.value(clock)+s.rounding(clock)+2
}

// surelyBehind reports whether a standing is surely behind another one that grew under fair share in the same
// epoch.
func (s *standing) surelyBehind(other *standing, clock float64) bool {
	return s.epoch == other.epoch &&
		s.value(clock) > other.value(clock)+s.rounding(clock)+other.rounding(clock)+2
}
