package metrics

import "math"

// Distribution is how often which values came up, or for how long: a histogram whose buckets are at most 0.8 %
// wide, so that a quantile is off by no more than that. Only buckets in use take space. The zero value is
// empty.
//
// It takes single values, and values that change evenly with time. The latter are kept as the two ends of the
// change, where the density of time over values begins and ends; all in between follows.
type Distribution struct {
	buckets []bucket // in the order of their keys
	total   float64  // weight of all
	sum     float64  // of values by weight
	least   float64
	most    float64
}

// bucket holds what is known of the values with one key. For x above the bucket, changes that have an end in it
// contribute slope*x - moment to the weight of the values below x.
type bucket struct {
	key           uint32
	weight        float64 // of single values
	sum           float64 // of single values by weight
	slope, moment float64
}

// keyShift leaves the exponent of a float and 7 bits of its fraction, in which order values are.
const keyShift = 52 - 7

func keyOf(x float64) uint32  { return uint32(math.Float64bits(x) >> keyShift) }
func lowEnd(k uint32) float64 { return math.Float64frombits(uint64(k) << keyShift) }

// at returns the bucket of a value. The pointer is good until the next call.
func (d *Distribution) at(x float64) *bucket {
	key := keyOf(x)
	lo, hi := 0, len(d.buckets)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if d.buckets[mid].key < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(d.buckets) || d.buckets[lo].key != key {
		d.buckets = append(d.buckets, bucket{})
		copy(d.buckets[lo+1:], d.buckets[lo:])
		d.buckets[lo] = bucket{key: key}
	}
	return &d.buckets[lo]
}

// extend notes values from a to b of a weight.
func (d *Distribution) extend(a, b, weight float64) {
	if d.total == 0 {
		d.least, d.most = a, b
	}
	d.least, d.most = min(d.least, a), max(d.most, b)
	d.total += weight
	d.sum += weight * (a + b) / 2
}

// add notes a value, 0 or more, with a weight; a weight of 0 or less is nothing.
func (d *Distribution) add(x, weight float64) {
	if weight <= 0 {
		return
	}
	x = max(x, 0) // also of -0, whose bits are not in order
	b := d.at(x)
	b.weight += weight
	b.sum += weight * x
	d.extend(x, x, weight)
}

// ramp notes a value that goes evenly from one to another, either of them 0 or more, in a time.
func (d *Distribution) ramp(from, to, time float64) {
	a, b := max(min(from, to), 0), max(from, to, 0)
	if b-a <= 1e-3*(1+b) { // steep densities would be rounded badly
		d.add((a+b)/2, time)
		return
	}
	if time <= 0 {
		return
	}
	density := time / (b - a)
	low := d.at(a)
	low.slope += density
	low.moment += density * a
	high := d.at(b)
	high.slope -= density
	high.moment -= density * b
	d.extend(a, b, time)
}

// merge adds what another distribution holds.
func (d *Distribution) merge(o *Distribution) {
	if o.total == 0 {
		return
	}
	all := make([]bucket, 0, max(len(d.buckets), len(o.buckets)))
	i, k := 0, 0
	for i < len(d.buckets) || k < len(o.buckets) {
		switch {
		case k == len(o.buckets) || i < len(d.buckets) && d.buckets[i].key < o.buckets[k].key:
			all = append(all, d.buckets[i])
			i++
		case i == len(d.buckets) || o.buckets[k].key < d.buckets[i].key:
			all = append(all, o.buckets[k])
			k++
		default:
			a, b := d.buckets[i], o.buckets[k]
			all = append(all, bucket{key: a.key, weight: a.weight + b.weight, sum: a.sum + b.sum,
				slope: a.slope + b.slope, moment: a.moment + b.moment})
			i, k = i+1, k+1
		}
	}
	if d.total == 0 {
		d.least, d.most = o.least, o.most
	}
	d.buckets, d.least, d.most = all, min(d.least, o.least), max(d.most, o.most)
	d.total, d.sum = d.total+o.total, d.sum+o.sum
}

// Weight is the number of values, or the seconds during which they held.
func (d *Distribution) Weight() float64 { return d.total }

// Mean is the mean of all values by weight; NaN when there are none.
func (d *Distribution) Mean() float64 { return d.sum / d.total }

// Max is the largest value; NaN when there are none.
func (d *Distribution) Max() float64 {
	if d.total == 0 {
		return math.NaN()
	}
	return d.most
}

// Quantile is the least value that at least a part q of the weight does not exceed, 0 <= q <= 1, off by 0.8 %
// at most; NaN when there are no values. Single values are told exactly when no other is near, and the largest
// (q = 1) always is.
func (d *Distribution) Quantile(q float64) float64 {
	if d.total == 0 || q == 1 {
		return d.Max()
	}
	target := q * d.total * (1 - 1e-12) // 0.95 of 20 is 19, however it was rounded
	last := 0.0                         // upper end of the bucket before
	x := d.most
	d.walk(func(b *bucket, slope, before, after float64) bool {
		low, high := lowEnd(b.key), lowEnd(b.key+1)
		switch {
		case target <= before && slope > 0: // between buckets
			x = min(max(low-(before-target)/slope, last), low)
		case target > after:
			last = high
			return true
		case b.single(slope):
			x = b.sum / b.weight
		case b.key == 0: // its upper end is no value that anything measures
			x = 0
		default:
			x = low + (high-low)*(target-before)/(after-before)
		}
		return false
	})
	return min(max(x, d.least), d.most)
}

// Point says which part of the weight does not exceed a value.
type Point struct{ Value, Part float64 }

// Points is the cumulative distribution, one point for each bucket in use, for figures.
func (d *Distribution) Points() (points []Point) {
	d.walk(func(b *bucket, slope, before, after float64) bool {
		x := lowEnd(b.key + 1)
		if b.single(slope) {
			x = b.sum / b.weight
		}
		points = append(points, Point{min(max(x, d.least), d.most), min(max(after/d.total, 0), 1)})
		return true
	})
	return points
}

// single reports whether all values in the bucket are single ones, when slope is the density below it.
func (b *bucket) single(slope float64) bool { return slope == 0 && b.slope == 0 && b.moment == 0 }

// walk calls f for every bucket with the density of changing values below it, and the weight below its lower and
// its upper end, until f returns false.
func (d *Distribution) walk(f func(b *bucket, slope, before, after float64) bool) {
	var singles, slope, moment float64
	for i := range d.buckets {
		b := &d.buckets[i]
		before := singles + slope*lowEnd(b.key) - moment
		after := singles + b.weight + (slope+b.slope)*lowEnd(b.key+1) - (moment + b.moment)
		if !f(b, slope, before, after) {
			return
		}
		singles, slope, moment = singles+b.weight, slope+b.slope, moment+b.moment
	}
}
