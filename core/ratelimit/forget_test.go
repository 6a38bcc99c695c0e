package ratelimit

import (
	"testing"
	"time"
)

// TestExpiredKeysBeginAnew: a key that was quiet for long enough begins with the shortest pause, also when it has not
// been dropped yet, since keys are looked through only now and then.
func TestExpiredKeysBeginAnew(t *testing.T) {
	var l Limiter
	other := Key{Endpoint: "http://a/db/", Method: "POST"}
	for n := range 30 {
		l.Failure(key, start.Add(time.Duration(n)*apart), 0)
	}
	last := start.Add(29 * apart)
	l.Failure(other, last.Add(Expiry), 0) // looks through all keys, a moment too early
	if l.Len() != 2 {
		t.Fatalf("%d keys are remembered, want both", l.Len())
	}
	later := last.Add(Expiry + time.Second)
	l.Failure(key, later, 0)
	if v := l.Delay(key, later); v != (Verdict{Wait: 24 * time.Millisecond}) {
		t.Errorf("the first failure after a long time: %v", v)
	}
}
