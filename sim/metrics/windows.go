package metrics

import (
	"math"
	"time"
)

// windowLengths are those over which shares are compared; the last one is the whole run, which is closed at its
// end.
var windowLengths = [...]time.Duration{10 * time.Minute, time.Hour, 24 * time.Hour, math.MaxInt64 / 2}

var windowNames = [len(windowLengths)]string{"10m", "1h", "24h", "run"}

// service is slot-seconds.
type service struct{ received, entitled float64 }

func (s service) minus(o service) service {
	return service{s.received - o.received, s.entitled - o.entitled}
}

// window compares shares over times of one length, one after the other. Times that are not over at the end of the
// run are left out.
type window struct {
	start []service // of each account up to its begin
	got   []service // of each account within it, once it is closed
	jain  float64   // sum over windows
	n     int
}

// errors are share errors of an account, or of all, over windows of one length; in parts, not points.
type errors struct {
	largest, squares float64
	n                int
}

func (e *errors) add(x float64) {
	e.largest = max(e.largest, math.Abs(x))
	e.squares += x * x
	e.n++
}

func (e *errors) merge(o errors) {
	e.largest = max(e.largest, o.largest)
	e.squares += o.squares
	e.n += o.n
}

// points are the largest error, and the root of the mean square.
func (e *errors) points() (largest, rms float64) {
	if e.n == 0 {
		return math.NaN(), math.NaN()
	}
	return 100 * e.largest, 100 * math.Sqrt(e.squares/float64(e.n))
}

// served returns what an account got up to now.
func (m *Meter) served(a int) service {
	acct := m.settled(a)
	return service{acct.received, m.due.cups[a].total}
}

// close ends a window of the length with a number, and begins the next. Accounts without a part in it have no
// error; a window in which nothing ran says nothing.
func (m *Meter) close(i int) {
	w := &m.windows[i]
	got := w.got
	var sum service
	for a := range m.accts {
		total := m.served(a)
		got[a] = total.minus(w.start[a])
		w.start[a] = total
		sum.received += got[a].received
		sum.entitled += got[a].entitled
	}
	if sum.received <= 0 {
		return
	}
	for a := range got {
		if got[a] != (service{}) {
			m.accts[a].errors[i].add(got[a].received/sum.received - got[a].entitled/sum.entitled)
		}
	}
	w.jain += jain(got)
	w.n++
}

// jain is Jain's index of received/entitled over the accounts that were entitled to something.
func jain(got []service) float64 {
	var sum, squares, n float64
	for _, s := range got {
		if s.entitled > 0 {
			x := s.received / s.entitled
			sum += x
			squares += x * x
			n++
		}
	}
	if squares == 0 {
		return math.NaN()
	}
	return sum * sum / (n * squares)
}
