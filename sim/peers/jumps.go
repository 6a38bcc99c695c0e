package peers

import (
	"cmp"
	"slices"
)

// jumps are gaps in the numbers of a database's changes as clients see them, in order.
type jumps []jump

// jump has the numbers of the changes behind the after-th be higher by so much.
type jump struct{ after, by int64 }

// MaxNumber bounds what jumps make of numbers: with a million changes more, all are exact in a float64.
const MaxNumber = 1<<53 - 1_000_000

// Jump has the numbers of the changes to come be higher, as far as MaxNumber allows.
func Jump(db *DB, by int64) {
	most := MaxNumber - db.last()
	for _, j := range db.jumps {
		most -= j.by
	}
	db.jumps = append(db.jumps, jump{db.last(), max(0, min(by, most))})
	slices.SortStableFunc(db.jumps, func(a, b jump) int { return cmp.Compare(a.after, b.after) })
}

// shown is the number of the n-th change as clients see it.
func (all jumps) shown(n int64) int64 {
	sum := n
	for _, j := range all {
		if j.after < n {
			sum += j.by
		}
	}
	return sum
}

// counted is how many changes there are up to a number that clients see.
func (all jumps) counted(shown int64) int64 {
	n := shown
	for _, j := range all {
		if n > j.after {
			n = max(j.after, n-j.by)
		}
	}
	return n
}
