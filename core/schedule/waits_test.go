package schedule

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestWaitsAreBounded: beside jobs that always want a slot, whatever their weights and their accounts' shares, no job
// waits for longer than the policy says. A full turn is the time in which as many jobs give way as wait. It is the
// bound under fifo, and 17 of them are the bound under tags, where weights and shares do not count.
//
// Under fair share a job of the growth g per interval (usage * weights / (weight * shares^2)) waits while its value is
// above those of others. Each of those had a turn in the last full turn, and so a value of the least growth at least,
// but for what decayed meanwhile. The job began its turn below all of them, and no value is more than
// growth * half-life / ln 2. So its wait is the time in which (half-life / ln 2 + turn) * g decays to the least growth,
// and two full turns.
func TestWaitsAreBounded(t *testing.T) {
	weights := rapid.SampledFrom([]int64{1, 100, 1000})
	rapid.Check(t, func(t *rapid.T) {
		m := mix{name: "drawn"}
		slots, jobs := 0, 0
		for range rapid.IntRange(1, 3).Draw(t, "accounts") {
			list := rapid.SliceOfN(weights, 2, 5).Draw(t, "weights")
			running := rapid.IntRange(0, 2).Draw(t, "running")
			m.weights = append(m.weights, list)
			m.shares = append(m.shares, rapid.SampledFrom([]int64{1, 100, 1000}).Draw(t, "shares"))
			m.running, m.pending = append(m.running, running), append(m.pending, len(list)-running)
			slots, jobs = slots+running, jobs+len(list)
		}
		if slots == 0 || slots == jobs {
			t.Skip("every job has a slot, or none")
		}
		m.churn = rapid.IntRange(1, min(slots, jobs-slots)).Draw(t, "churn")
		turn := (jobs - slots + m.churn - 1) / m.churn
		for _, name := range Policies() {
			o := policyOrder(name)
			most := turn
			switch o.Policy {
			case Tags:
				most = 17 * turn
			case FairShare:
				most = 2*turn + m.decays(slots, turn)
			}
			if got := m.play(o, 2*most+10, 0).maxWait; got > most {
				t.Fatalf("%s: a job waited for %d intervals, at most %d, with a full turn of %d", name, got, most, turn)
			}
		}
	})
}

// decays is in how many intervals the value of a job after a turn decays to the least growth of any, with CouchDB's
// coefficient.
func (m mix) decays(slots, turn int) int {
	least, most := math.Inf(1), 0.0
	for a, list := range m.weights {
		sum := 0.0
		for _, w := range list {
			sum += float64(w)
		}
		for _, w := range list {
			growth := sum / float64(w) / float64(m.shares[a]) / float64(m.shares[a])
			least, most = min(least, growth), max(most, growth)
		}
	}
	const remembers = 2 // intervals, by the coefficient of testForgetting; an account used at least one, of a slot
	half := math.Ln2 / -math.Log(float64(defaultPriorityCoeff)/million)
	above := remembers * float64(slots) * (half/math.Ln2 + 1 + float64(turn)*most/least)
	return int(math.Ceil(half * math.Log2(above)))
}
