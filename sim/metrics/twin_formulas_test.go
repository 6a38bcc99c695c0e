package metrics

import (
	"math"
	"slices"
	"strings"
)

// expect computes a metric of an account, or of all, that is no quantile.
func (w *twin) expect(name string, a int) (want float64, known bool) {
	hours := float64(w.now-w.warm()) / 3600
	n := len(w.share)
	counted := w.counts[a]
	slotTime := 0.0
	for i := range n {
		if a == i || a == n {
			slotTime += sum(w.received[i])
		}
	}
	base, window, _ := cutLast(name, "-")
	if length, is := map[string]int{"10m": 600, "1h": 3600, "24h": 86400, "run": w.now - w.warm()}[window]; is {
		return w.overWindows(base, length, a), true
	}
	switch name {
	case "share":
		return 100 * over0(slotTime, w.total(w.received)), true
	case "entitled-share":
		return 100 * over0(sum(w.entitled[a]), w.total(w.entitled)), true
	case "lag-min":
		return slices.Min(append(w.lags(a), 0)), true
	case "lag-max":
		return slices.Max(append(w.lags(a), 0)), true
	case "longest-gap":
		for i, j := range w.jobs {
			if j.state == Waiting {
				w.gap(i)
			}
		}
		return w.gaps[a], true
	case "waiting-at-end":
		for i, j := range w.jobs {
			if j.state == Waiting && (a == n || w.w.Jobs[i].Account == a) {
				want++
			}
		}
		return want, true
	case "full-turn-mean":
		return sum(w.fullTurns) / float64(len(w.fullTurns)), true
	case "full-turn-max":
		longest := slices.Max(append(w.fullTurns, 0))
		if len(w.turn) > 0 {
			longest = max(longest, float64(w.now-w.turnBegan))
		}
		return longest, true
	case "starts", "rotations":
		return counted[name] / hours, true
	case "startup-share":
		return 100 * counted["startup"] / slotTime, true
	case "lost-work":
		if counted["copied"] == 0 {
			return math.NaN(), true // though something may be lost that was copied in the warm-up
		}
		return 100 * counted["lost"] / counted["copied"], true
	case "utilisation":
		if w.capacity == 0 {
			return math.NaN(), true // though runs go on that nothing killed
		}
		return 100 * w.total(w.received) / w.capacity, true
	case "idle-while-waiting":
		return 100 * w.idle / w.capacity, true
	case "throughput":
		return (counted["copied"] - counted["lost"]) / (hours * 3600), true
	case "completed":
		return counted[name], true
	case "recovery":
		return w.recovery(), true
	}
	return 0, false
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func sum(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}

// over0 is 0 of nothing.
func over0(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}

func (w *twin) total(of [][]float64) (s float64) {
	for _, values := range of {
		s += sum(values)
	}
	return s
}

// overWindows is a metric of all whole windows of some seconds.
func (w *twin) overWindows(name string, length, account int) float64 {
	var largest, squares, count, jains, windows float64
	for from := 0; length > 0 && from+length <= w.now-w.warm(); from += length {
		var received, entitled, jainSum, jainSquares, jainCount float64
		for a := range w.share {
			received += sum(w.received[a][from : from+length])
			entitled += sum(w.entitled[a][from : from+length])
		}
		if received == 0 {
			continue
		}
		for a := range w.share {
			got, due := sum(w.received[a][from:from+length]), sum(w.entitled[a][from:from+length])
			if e := got/received - due/entitled; (got > 0 || due > 0) && (account == a || account == len(w.share)) {
				largest = max(largest, math.Abs(e))
				squares += e * e
				count++
			}
			if due > 0 {
				jainSum += got / due
				jainSquares += got / due * got / due
				jainCount++
			}
		}
		jains += jainSum * jainSum / (jainCount * jainSquares)
		windows++
	}
	switch {
	case name == "jain":
		return jains / windows
	case count == 0:
		return math.NaN()
	case name == "share-error-max":
		return 100 * largest
	}
	return 100 * math.Sqrt(squares/count)
}

// lags are those at the ends of minutes, of an account, or all accounts one after the other.
func (w *twin) lags(a int) (list []float64) {
	for i := range w.share {
		if a == i || a == len(w.share) {
			for end := 60; end <= w.now-w.warm(); end += 60 {
				list = append(list, sum(w.entitled[i][:end])-sum(w.received[i][:end]))
			}
		}
	}
	return list
}

func (w *twin) lagSizes(a int) []float64 {
	list := w.lags(a)
	for i, x := range list {
		list[i] = math.Abs(x)
	}
	return list
}

// recovery looks for the first minute after each upset whose spread, and those of the next nine, are in the band.
func (w *twin) recovery() float64 {
	lags := make([][]float64, len(w.share))
	minutes := 0
	for a := range lags {
		lags[a] = append([]float64{0}, w.lags(a)...)
		minutes = len(lags[a])
	}
	spread := make([]float64, minutes) // at the end of minute 1, 2, ...
	for k := 1; k < minutes; k++ {
		for a := range lags {
			spread[k] = max(spread[k], math.Abs(lags[a][k]-lags[a][max(0, k-10)]))
		}
	}
	first, longest := math.Inf(1), 0.0
	for _, at := range w.upsets {
		if at >= w.warm()+60 && at <= w.now {
			first = min(first, float64(at-w.warm()))
		}
	}
	if math.IsInf(first, 1) {
		return math.NaN()
	}
	var before []float64
	for k := 1; k < minutes && float64(60*k) <= first; k++ {
		before = append(before, spread[k])
	}
	slices.Sort(before)
	place, part := math.Modf(0.99 * float64(len(before)-1))
	next := min(int(place)+1, len(before)-1)
	band := (1-part)*before[int(place)] + part*before[next]
	for _, at := range w.upsets {
		if since := at - w.warm(); since >= 60 && at <= w.now {
			longest = max(longest, w.calm(spread, since, band+1e-3))
		}
	}
	return longest
}

func (w *twin) calm(spread []float64, since int, band float64) float64 {
	next := since/60 + 1
	for k := next; k < len(spread); k++ {
		if slices.Max(spread[k:min(len(spread), k+10)]) <= band {
			if k == next {
				return 0
			}
			return float64(60*k - since)
		}
	}
	if next >= len(spread) {
		return 0
	}
	return float64(w.now - w.warm() - since)
}
