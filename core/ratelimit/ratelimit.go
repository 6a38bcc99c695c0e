// Package ratelimit decides how long requests to one endpoint are held back after it answered 429
// Too Many Requests. It is CouchDB's limiter: every failure stretches the pause before each request
// by a fifth, every success shortens it by a fixed amount and by twice the time that passed. The
// limiter is a plain value stepped with the present; it sends nothing and waits for nothing.
//
// Two things differ from CouchDB. A Retry-After of the server is obeyed. And an endpoint whose pause
// reached the ceiling is not closed until a cleanup happens to come by: one request in MaxPause is
// let through as a probe, its success opens the endpoint to everybody at once, and its failure
// closes it for one MaxPause more. So a job is held back by what others ran into for 25 seconds at
// most after the endpoint recovered (75 in CouchDB), and a closed endpoint sees one request in that
// time instead of all of them when the cleanup forgets it.
package ratelimit

import (
	"time"

	"couchrelay/core/instant"
)

// The constants are CouchDB's (couch_replicator_rate_limiter), except Expiry and MaxRetryAfter.
const (
	// BasePause is the least pause that is kept, and what a failure starts from.
	BasePause = 20 * time.Millisecond
	// MaxPause is the ceiling of the pause and the time between probes of an endpoint that reached it.
	MaxPause = 25 * time.Second
	// Sensitivity is how close to the last counted answer another one is ignored: a burst of parallel
	// requests that all hear 429 is one event.
	Sensitivity = 80 * time.Millisecond
	// DecayAfter is how long after the last counted answer a success also takes off twice the time
	// that passed.
	DecayAfter = time.Second
	// Expiry is how long a key without answers is remembered. CouchDB forgets after 25 seconds, which
	// at a pause near the ceiling is between two answers of one patient job.
	Expiry = 2 * MaxPause
	// MaxRetryAfter bounds what a server may ask for.
	MaxRetryAfter = time.Hour

	// A failure multiplies the pause by growNumerator/growDenominator, rounded to milliseconds.
	growNumerator, growDenominator = 12, 10
)

// Key is what shares one pause: requests with one method to one database.
type Key struct{ Endpoint, Method string }

// Limiter holds the pauses of all keys that had to be slowed down. The zero value is ready to use.
// It is not safe for concurrent use.
type Limiter struct {
	keys  map[Key]pace
	sweep instant.Time // when to look for expired keys again
}

// pace is what is known of one key.
type pace struct {
	pause   time.Duration // before each request; 0 or BasePause to MaxPause
	updated instant.Time  // of the last counted answer
	notTill instant.Time  // by Retry-After; the epoch when the server named none
	probe   instant.Time  // when pause is MaxPause: the next request that is let through
}

// Verdict says what to do with a request.
type Verdict struct {
	// Wait is how long to hold the request back, or when it is Closed, how long until one may pass.
	Wait time.Duration
	// Closed says that the pause reached its ceiling, or that the server wants more than MaxPause of
	// quiet: the request should fail instead of wait.
	Closed bool
}

// Delay says how long the request that comes next must wait. It belongs directly before a request:
// the one it lets through to a closed endpoint is the probe.
func (l *Limiter) Delay(k Key, now instant.Time) Verdict {
	p, known := l.keys[k]
	if !known || p.expired(now) {
		return Verdict{}
	}
	quiet := max(0, p.notTill.Sub(now))
	if p.pause < MaxPause {
		wait := max(p.pause, quiet)
		return Verdict{Wait: wait, Closed: wait > MaxPause}
	}
	if wait := max(quiet, p.probe.Sub(now)); wait > 0 {
		return Verdict{Wait: wait, Closed: true}
	}
	p.probe = now.Add(MaxPause)
	l.keys[k] = p
	return Verdict{}
}

// Failure notes an answer 429. retryAfter is what its Retry-After asked for, 0 when it had none.
func (l *Limiter) Failure(k Key, now instant.Time, retryAfter time.Duration) {
	l.forget(now)
	p, known := l.keys[k]
	if !known || p.expired(now) {
		p = pace{}
	}
	p.notTill = max(p.notTill, now.Add(min(retryAfter, MaxRetryAfter)))
	if p.updated == 0 || now.Sub(p.updated) > Sensitivity {
		p.pause = grown(p.pause)
		p.updated = now
		p.probe = now.Add(MaxPause)
	}
	if l.keys == nil {
		l.keys = map[Key]pace{}
	}
	l.keys[k] = p
}

// Success notes an answer that shows the endpoint at work.
func (l *Limiter) Success(k Key, now instant.Time) {
	p, known := l.keys[k]
	if !known || now.Sub(p.updated) <= Sensitivity {
		return
	}
	p.pause = shrunk(p.pause, now.Sub(p.updated))
	p.updated = now
	if p.pause == 0 && p.notTill <= now {
		delete(l.keys, k)
		return
	}
	l.keys[k] = p
}

// Len is how many keys are remembered.
func (l *Limiter) Len() int { return len(l.keys) }

// forget drops expired keys, at most once in an Expiry, so that its cost is spread over failures.
func (l *Limiter) forget(now instant.Time) {
	if now < l.sweep {
		return
	}
	l.sweep = now.Add(Expiry)
	for k, p := range l.keys { // order does not matter: each key is judged alone
		if p.expired(now) {
			delete(l.keys, k)
		}
	}
}

func (p pace) expired(now instant.Time) bool {
	return now.Sub(p.updated) > Expiry && p.notTill <= now
}

func grown(pause time.Duration) time.Duration {
	ms := max(pause, BasePause).Milliseconds()
	ms = (ms*growNumerator + growDenominator/2) / growDenominator
	return min(MaxPause, time.Duration(ms)*time.Millisecond)
}

// shrunk is the pause after a success that came gap after the last counted answer.
func shrunk(pause, gap time.Duration) time.Duration {
	if gap > DecayAfter {
		pause -= 2 * gap.Truncate(time.Millisecond)
	}
	pause -= step(pause)
	if pause <= 0 {
		return 0
	}
	return max(pause, BasePause)
}

// step is what a success takes off a pause.
func step(pause time.Duration) time.Duration {
	switch {
	case pause > 10*time.Second:
		return time.Second
	case pause > time.Second:
		return 100 * time.Millisecond
	case pause > 100*time.Millisecond:
		return 40 * time.Millisecond
	}
	return 20 * time.Millisecond
}
