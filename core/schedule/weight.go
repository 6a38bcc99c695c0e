package schedule

// Bounds of the weight of a job, and the weight of a job that names none.
const (
	MinWeight     = 1
	MaxWeight     = 1000
	DefaultWeight = 100
)

// weight is that of the job that is placed.
func (a Account) weight() int64 {
	if a.Weight == 0 {
		return DefaultWeight
	}
	return min(max(a.Weight, MinWeight), MaxWeight)
}

// weights is the sum of the weights of the account's jobs.
func (a Account) weights() int64 { return max(0, DefaultWeight*min(a.Jobs, 1<<53)+a.Excess) }

// spaced is the tag of a job of the account where tag is that of a job of the mean weight, and the job's turn before
// began at another. The way from turn to turn is as long as the mean weight is to the job's.
func (a Account) spaced(began, tag int64) int64 {
	began = min(began, tag)
	way := mulDiv(tag-began, a.weights(), max(a.Jobs, 1)*a.weight())
	return max(a.Floor, began+min(way, maxTag-began))
}

// maxTag bounds tags, so that the cost of a turn can be added to one for as long as anybody waits.
const maxTag = 1 << 62

// since is where the way of a job begins that got its slot at a place: there, or at the floor if that place is of
// another policy.
func (o Order) since(began Place, a Account) int64 {
	if began.Epoch != o.Epoch {
		return a.Floor
	}
	return began.Key
}
