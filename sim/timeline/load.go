package timeline

// load counts what happens to one client of the store, second by second.
type load struct {
	who     string
	seconds [][kinds]uint32
}

// Kinds of events that are counted: the steps of transactions by their numbers in package world, and then
// faults of requests and of store operations.
const (
	faulted = 4
	kinds   = 5
)

// maxBuckets is how many intervals a page has at most.
const maxBuckets = 1500

func (r *Recorder) load(who string) *load {
	for _, l := range r.loads {
		if l.who == who {
			return l
		}
	}
	l := &load{who: who}
	r.loads = append(r.loads, l)
	return l
}

func (l *load) add(at int64, kind int) {
	second := int(at / 1000)
	for len(l.seconds) <= second {
		l.seconds = append(l.seconds, [kinds]uint32{})
	}
	l.seconds[second][kind]++
}

// buckets adds up the counts in intervals of a number of seconds, in a list for each kind.
func (l *load) buckets(seconds int) [kinds][]uint32 {
	var all [kinds][]uint32
	n := (len(l.seconds) + seconds - 1) / seconds
	for kind := range all {
		all[kind] = make([]uint32, n)
		for i, counts := range l.seconds {
			all[kind][i/seconds] += counts[kind]
		}
	}
	return all
}
