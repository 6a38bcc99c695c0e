package node

import (
	"cmp"
	"slices"

	"couchrelay/core/instant"
)

// agenda is what is to happen later, in the order of its times, and by number where these are the same. It is a
// sorted list, since most is added at its end and leaves at its front, and a move of thousands of pointers takes a
// microsecond.
type agenda[T interface {
	comesDue() (at instant.Time, number uint64)
}] []T

// place is where x stands, or belongs.
func (a agenda[T]) place(x T) (i int, found bool) {
	return slices.BinarySearchFunc(a, x, func(x, y T) int {
		atX, numberX := x.comesDue()
		atY, numberY := y.comesDue()
		return cmp.Or(cmp.Compare(atX, atY), cmp.Compare(numberX, numberY))
	})
}

// add puts x on the agenda. Its time does not change while it is there.
func (a *agenda[T]) add(x T) {
	i, _ := a.place(x)
	*a = slices.Insert(*a, i, x)
}

// remove takes x off the agenda, if it is there.
func (a *agenda[T]) remove(x T) {
	if i, found := a.place(x); found {
		*a = slices.Delete(*a, i, i+1)
	}
}

// next is the earliest time.
func (a agenda[T]) next() instant.Time {
	if len(a) == 0 {
		return instant.Never
	}
	at, _ := a[0].comesDue()
	return at
}

// take takes off what is due, and returns it in the order of the numbers.
func (a *agenda[T]) take(now instant.Time) []T {
	some := 0
	for (*a)[some:].next() <= now { // next is Never once none is left
		some++
	}
	due := slices.Clone((*a)[:some])
	*a = slices.Delete(*a, 0, some)
	slices.SortFunc(due, func(x, y T) int {
		_, numberX := x.comesDue()
		_, numberY := y.comesDue()
		return cmp.Compare(numberX, numberY)
	})
	return due
}
