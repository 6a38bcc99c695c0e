package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/core/kv"
)

// awayStore is a store that can be switched off. While knows is set, its Err tells of that, as FoundationDB's
// monitor does.
type awayStore struct {
	store
	away, knows *atomic.Bool
}

func (s awayStore) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	if s.away.Load() {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	return s.store.Begin(ctx, o)
}

func (s awayStore) Err() error {
	if s.away.Load() && s.knows.Load() {
		return errors.New("the cluster does not answer")
	}
	return s.store.Err()
}

// TestLogOfOutage: an outage that costs the leases is few lines on each node: one warning that the store is away,
// unless the store has logged that by itself, one that the lease was lost, and one line when it is back. No node
// takes another for silent, and the jobs run again.
func TestLogOfOutage(t *testing.T) {
	for name, knows := range map[string]bool{"noticed by the store": true, "noticed by requests": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			s := awayStore{f.db, &atomic.Bool{}, &atomic.Bool{}}
			s.knows.Store(knows)
			f.db = s
			f.fill(3)
			a, b := f.join("a", nil), f.join("b", nil)
			f.putJobs(4)
			f.awaitCopies(4, "doc0")
			s.away.Store(true)
			f.await("both leases to be lost", func() bool { return strings.Count(f.log.String(), "lease_lost") == 2 })
			time.Sleep(time.Second)
			s.away.Store(false)
			f.add(3, 1)
			f.awaitCopies(4, "doc3")
			f.await("both to join again", func() bool { return strings.Count(f.log.String(), "msg=lease ") == 4 })
			time.Sleep(4 * time.Second) // longer than the activity timeout: silence would have been noticed
			ofStore := 1
			if knows {
				ofStore = 0
			}
			log := ofNodes(f.log.String()) // what was asked, and which nodes run what, is of no interest
			for _, node := range []string{"node=a", "node=b"} {
				for line, want := range map[string]int{
					"level=WARN msg=store_error ": ofStore, "level=INFO msg=store_back ": ofStore,
					"level=WARN msg=lease_lost ": 1, "msg=worker_silent ": 0, "level=": 3 + 2*ofStore,
				} {
					if got := countLines(log, node, line); got != want {
						t.Errorf("%s: %d lines with %q, want %d\n%s", node, got, line, want, f.log)
					}
				}
			}
			f.ask(a).want(200, "GET", "_up", "")
			f.ask(b).want(200, "GET", "_up", "")
		})
	}
}

// ofNodes leaves out of a log that the store was made, that runs began, and requests.
func ofNodes(log string) (rest string) {
	for line := range strings.Lines(log) {
		if countLines(line, "msg=store_created ")+countLines(line, "msg=started ")+countLines(line, "msg=audit ") == 0 {
			rest += line
		}
	}
	return rest
}

// countLines returns the number of lines of a log that hold all words.
func countLines(log string, words ...string) (n int) {
	for line := range strings.Lines(log) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}
