package schedule

import (
	"testing"
	"time"

	"couchrelay/core/instant"
)

// deadline is a policy of one's own: each job is due again some time after its turn, the sooner the more shares its
// account has, and the first that is due goes first. In couchrelay this would be a file of its own, and a line in
// the table policies, as in addForTest.
type deadline struct{}

func (deadline) Needs() State { return NeedsNothing }

func (deadline) due(now instant.Time, a Account) int64 {
	return int64(now) + Cost(20*time.Minute, a.Shares)
}

func (d deadline) Enter(_ Order, now instant.Time, a Account) (int64, Account) {
	return d.due(now, a), a
}

func (d deadline) Next(_ Order, _ Turn, _ time.Duration, now instant.Time, a Account) int64 {
	return d.due(now, a)
}

func (deadline) Settle(_ Order, t Turn, _ instant.Time, a Account) (int64, Account) {
	return t.Place.Key, a
}

func (deadline) GivesWay(_, _ Running) int { return 0 }

// TestPolicyOfOnesOwn plays it in the twin: 200 jobs of two accounts, of which 10 change places in an interval. The
// jobs of shares 100 wait for 18 minutes more than those of 900, and all have turns.
func TestPolicyOfOnesOwn(t *testing.T) {
	own := addForTest(t, "deadline", deadline{})
	o := vectors[1].play(Order{Policy: own, Forgetting: testForgetting}, testCycles, 100)
	t.Logf("%.1f, longest wait %d", o.shares, o.maxWait)
	if o.shares[0] < 60 || o.maxWait < 18 || o.maxWait > 40 {
		t.Errorf("shares %.1f, longest wait %d", o.shares, o.maxWait)
	}
}

// addForTest adds a policy to the table for the time of a test.
func addForTest(t *testing.T, name string, r Rules) Policy {
	before := policies
	t.Cleanup(func() { policies = before })
	policies = append(before[:len(before):len(before)], policy{name, r, false})
	own, err := ParsePolicy(name)
	if err != nil {
		t.Fatal(err)
	}
	return own
}
