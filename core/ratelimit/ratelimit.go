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
	"cmp"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
)

const (
	inRange  invariant.ID = "ratelimit.pause: a pause is 0, or from BasePause to MaxPause"
	notAhead invariant.ID = "ratelimit.clock: the last counted answer and a server's wish are not ahead of the clock"
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

// Limiter holds the pauses of all keys that were answered 429. The zero value is ready to use. It is not safe
// for concurrent use. Its methods are given the same steady clock, which never goes back.
type Limiter struct {
	keys  map[Key]pace // only keys with a pause or a Retry-After that is not over, and expired ones until sweep
	sweep instant.Time // when forget next looks for expired keys
}

// pace is the state of one key.
type pace struct {
	// pause is held before each request. It is 0, or from BasePause to MaxPause. At MaxPause the key is
	// closed, and requests fail but for a probe. Failure raises it and Success lowers it, at most once in
	// Sensitivity.
	pause time.Duration
	// updated is when the last answer came that changed pause; never ahead of the clock. 0 before the first
	// one.
	updated instant.Time
	// notTill is the latest end of all Retry-After times that the server named, 0 if it named none. It only
	// moves forward, and is at most MaxRetryAfter ahead of the clock. A success does not shorten it.
	notTill instant.Time
	// probe is when a closed key lets its next request through; without meaning while pause is below
	// MaxPause.
	probe instant.Time
}

// Verdict is the limiter's decision about one request.
type Verdict struct {
	// Wait is how long to hold the request back. For a closed key it is the time until one request may pass.
	Wait time.Duration
	// Closed reports that the pause reached MaxPause, or that the server asked for a longer time without
	// requests. The request should then fail at once instead of holding a connection or a worker while it
	// waits.
	Closed bool
}

// Delay returns how long the next request must wait. The caller must send that request: if the key is closed
// and Delay lets it through, it is the probe, and no other passes for MaxPause.
func (l *Limiter) Delay(k Key, now instant.Time) Verdict {
	p, known := l.keys[k]
	if !known || p.expired(now) {
		return Verdict{}
	}
	if v := p.verdict(now); v != (Verdict{}) || p.pause < MaxPause {
		return v
	}
	p.probe = now.Add(MaxPause)
	l.put(k, p, now)
	return Verdict{}
}

// verdict is what holds a request back; nothing does that of a closed key whose probe is due.
func (p pace) verdict(now instant.Time) Verdict {
	quiet := max(0, p.notTill.Sub(now))
	if p.pause < MaxPause {
		wait := max(p.pause, quiet)
		return Verdict{Wait: wait, Closed: wait > MaxPause}
	}
	if wait := max(quiet, p.probe.Sub(now)); wait > 0 {
		return Verdict{Wait: wait, Closed: true}
	}
	return Verdict{}
}

// Kept is a key whose requests are held back, and how.
type Kept struct {
	Key
	Verdict
}

// Pauses are the keys whose requests are held back, in their order. Looking at them lets no probe through.
func (l *Limiter) Pauses(now instant.Time) (list []Kept) {
	for k, p := range l.keys { // order does not matter: sorted below
		if v := p.verdict(now); !p.expired(now) && (v != (Verdict{}) || p.pause == MaxPause) {
			list = append(list, Kept{k, Verdict{v.Wait, v.Closed || p.pause == MaxPause}})
		}
	}
	slices.SortFunc(list, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Method, b.Method))
	})
	return list
}

// Failure notes an answer 429. retryAfter is the time that its Retry-After asked for, 0 without one.
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
	l.put(k, p, now)
}

// Success notes an answer other than 429, which shows that the endpoint takes requests.
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
	l.put(k, p, now)
}

func (l *Limiter) put(k Key, p pace, now instant.Time) {
	invariant.Check(p.pause == 0 || BasePause <= p.pause && p.pause <= MaxPause, inRange, int(p.pause))
	invariant.Check(p.updated <= now && p.notTill <= now.Add(MaxRetryAfter), notAhead,
		int(p.updated), int(p.notTill), int(now))
	l.keys[k] = p
}

// Len returns the number of keys that are remembered.
func (l *Limiter) Len() int { return len(l.keys) }

// forget drops expired keys. It looks for them at most once in an Expiry, so that its cost is spread over
// failures.
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

// expired reports whether the key had no counted answer for so long that it counts as one that was never
// slowed down.
func (p pace) expired(now instant.Time) bool {
	return now.Sub(p.updated) > Expiry && p.notTill <= now
}

// grown returns the pause after a failure.
func grown(pause time.Duration) time.Duration {
	ms := max(pause, BasePause).Milliseconds()
	ms = (ms*growNumerator + growDenominator/2) / growDenominator
	return min(MaxPause, time.Duration(ms)*time.Millisecond)
}

// shrunk returns the pause after a success that came gap after the last counted answer.
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

// step returns how much a success takes off a pause.
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
