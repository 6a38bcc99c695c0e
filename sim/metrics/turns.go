package metrics

import "time"

// turns measures full turns. One begins with the jobs that wait at that moment, and is over when all of them were
// started or removed; then the next one begins.
type turns struct {
	epoch uint32 // numbers turns; a job whose turn has this number is not waited for
	left  int    // jobs that are waited for; none while no job waits
	began time.Duration
	done  Distribution
}

// begin begins a turn for all that wait now.
func (t *turns) begin(now time.Duration, waiting int) {
	t.epoch++
	t.left, t.began = waiting, now
}

// entered is told that a job has begun to wait: as a new one, or as one that had its turn.
func (t *turns) entered(j *job, now time.Duration, waiting int) {
	if t.left == 0 {
		t.begin(now, waiting)
		return
	}
	j.turn = t.epoch
}

// gone is told that a job waits no more.
func (t *turns) gone(j *job, now time.Duration, waiting int) {
	if j.turn == t.epoch {
		return
	}
	j.turn = t.epoch
	if t.left--; t.left == 0 {
		t.done.add((now - t.began).Seconds(), 1)
		t.begin(now, waiting)
	}
}

// longest is the length of the longest turn, which may not be over yet; 0 when there is none.
func (t *turns) longest(now time.Duration) (seconds float64) {
	if t.left > 0 {
		seconds = (now - t.began).Seconds()
	}
	if t.done.Weight() > 0 {
		seconds = max(seconds, t.done.Max())
	}
	return seconds
}
