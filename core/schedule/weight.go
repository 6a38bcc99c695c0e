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

// spaced is the tag of a job of the account after a turn, where tag is that of a job of the mean weight. The way from
// turn to turn is to that of the mean weight as this is to the job's. Tags jump where only light jobs wait, and go
// back where one comes late. So no way counts that is longer than twice what all jobs would pay for such a turn, or
// light ones would have each jump multiplied, and with that the next.
func (o Order) spaced(t Turn, a Account, tag int64) int64 {
	began, jobs := t.Began.Key, max(a.Jobs, 1)
	if t.Began.Epoch != o.Epoch {
		began = a.Floor
	}
	way := min(max(tag-began, 0), mulDiv(2*Cost(max(t.Owed, o.growth()), a.Shares), jobs, 1), maxWay)
	own := min(mulDiv(way, a.weights(), jobs*a.weight()), maxWay)
	return max(a.Floor, min(tag-way+own, max(tag, maxTag)))
}

// entering is the turn after which a new job stands.
func (o Order) entering(a Account) Turn { return Turn{Began: o.place(a.Floor)} }

// Bounds of tags, so that the costs of turns can be added to one for as long as anybody waits, and of a way, two years
// at 100 shares.
const (
	maxTag = 1 << 62
	maxWay = 1 << 46
)
