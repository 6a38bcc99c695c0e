package schedule

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"

	"pgregory.net/rapid"
)

// TestLedger: whatever is stored in whatever order, nothing is lost, counted twice or put into an interval
// that it does not belong to.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Ledger
		interval := time.Duration(rapid.IntRange(1, 100).Draw(t, "interval")) * time.Second
		now := instant.Seconds(1_700_000_000)
		total := map[string]int64{}
		store := map[Charge]int64{} // by charge without Used, as Max would
		var flying [][]Charge
		land := func(list []Charge) {
			for _, c := range list {
				key := c
				key.Used = 0
				store[key] = max(store[key], c.Used)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"run": func(t *rapid.T) {
				ran := time.Duration(rapid.IntRange(0, 300_000).Draw(t, "ran")) * time.Millisecond
				now = now.Add(ran)
				for i := range rapid.IntRange(1, 3).Draw(t, "jobs") {
					account := []string{"a", "b", "a"}[i]
					l.Add(account, ran, now, interval)
					total[account] += ran.Microseconds()
				}
			},
			"send": func(*rapid.T) { flying = append(flying, l.Due("w", math.MaxInt)) },
			"land": func(t *rapid.T) {
				if len(flying) > 0 {
					i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
					land(flying[i])
					if rapid.Bool().Draw(t, "known") {
						l.Stored(flying[i], now.Add(-interval))
						flying = slices.Delete(flying, i, i+1)
					}
				}
			},
		})
		due := l.Due("w", math.MaxInt)
		land(due)
		l.Stored(due, now)
		if left := l.Due("w", math.MaxInt); left != nil {
			t.Fatalf("still due: %v", left)
		}
		got := map[string]int64{}
		for c, used := range store {
			got[c.Account] += used
			if c.At%instant.Time(interval.Microseconds()) != 0 || c.At > now || used > 3*interval.Microseconds() {
				t.Fatalf("charge %+v of %d", c, used)
			}
		}
		for account, want := range total {
			if got[account] != want {
				t.Fatalf("%s was charged %d for %d", account, got[account], want)
			}
		}
		if n := entriesOf(&l); n > 2 {
			t.Fatalf("%d entries are kept", n)
		}
	})
}

// TestLedgerForgets: a charge is due again only when it has grown, and is forgotten once it is stored and its interval
// began before the time from which all are kept.
func TestLedgerForgets(t *testing.T) {
	var l Ledger
	begin := instant.Seconds(1_700_000_000).Add(-20 * time.Second) // of a minute
	add := func(after, ran time.Duration) []Charge {
		l.Add("a", ran, begin.Add(after), time.Minute)
		return l.Due("w", math.MaxInt)
	}
	early := add(10*time.Second, 10*time.Second)
	later := add(20*time.Second, 10*time.Second)
	l.Stored(later, begin)
	l.Stored(early, begin)
	if due := l.Due("w", math.MaxInt); len(later) != 1 || later[0].Used != 20_000_000 || due != nil {
		t.Errorf("stored %v, still due are %v", later, due)
	}
	l.Stored(nil, begin)
	if due := add(30*time.Second, 10*time.Second); len(due) != 1 || due[0].Used != 30_000_000 {
		t.Errorf("what is kept counts on; due are %v", due)
	}
	if l.Stored(nil, begin.Add(time.Second)); entriesOf(&l) != 1 {
		t.Error("a charge is forgotten before it is stored")
	}
	if l.Stored(l.Due("w", math.MaxInt), begin.Add(time.Second)); len(l.accounts) != 0 {
		t.Errorf("%v are not forgotten", l.accounts)
	}
}

// entriesOf is how many charges a ledger keeps.
func entriesOf(l *Ledger) (n int) {
	for _, u := range l.accounts {
		n += len(u.entries)
	}
	return n
}

// TestLedgerAfterStandstill: a process with many accounts that stood still for a day has 720,000 charges. They are
// noted at once, and not in the hour that it takes to make room for each in a list of all, and stored in parts.
func TestLedgerAfterStandstill(t *testing.T) {
	const accounts, intervals = 500, 24 * 60
	var l Ledger
	now := instant.Seconds(1_700_000_040) // the end of a minute
	for i := range accounts {
		l.Add(fmt.Sprintf("user:%d", i*7919%accounts), intervals*time.Minute, now, time.Minute)
	}
	part := l.Due("w", 1000)
	l.Stored(part, now)
	left := l.Due("w", math.MaxInt)
	if len(part) != 1000 || len(left) != accounts*intervals-1000 {
		t.Errorf("of %d charges %d are stored, and %d are left", accounts*intervals, len(part), len(left))
	}
	if c := left[len(left)-1]; c != (Charge{"user:99", now.Add(-time.Minute), "w", time.Minute.Microseconds()}) {
		t.Errorf("the last is %+v", c)
	}
}
