package couch

import (
	"testing"

	"couchrelay/core/invariant"
	"couchrelay/core/ratelimit"

	"github.com/benbjohnson/clock"
)

// TestBrokenLimiterStartsAnew: after a breach the limiter has no pauses, and the client can still use it.
func TestBrokenLimiterStartsAnew(t *testing.T) {
	var reported []*invariant.Broken
	c := New(Options{Clock: clock.NewMock(), Broken: func(b *invariant.Broken) { reported = append(reported, b) }})
	key := ratelimit.Key{Endpoint: "http://h/db/", Method: "GET"}
	c.report(key, 429, 0)
	if c.delay(key).Wait == 0 {
		t.Fatal("a server that answered 429 is not asked more slowly")
	}
	if kept := c.Pauses(); len(kept) != 1 || kept[0].Key != key || kept[0].Wait == 0 {
		t.Errorf("pauses are %v", kept)
	}
	c.limit(func() { invariant.Check(false, "couch.test: nothing breaks") })
	if len(reported) != 1 || c.limiter.Len() != 0 || c.delay(key) != (ratelimit.Verdict{}) {
		t.Errorf("reported are %v, %d keys are left", reported, c.limiter.Len())
	}
}
