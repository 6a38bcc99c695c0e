package checkpoint

// maxOwn is the number of its own checkpoints that a run keeps in the log; the rest of MaxHistory is
// left to earlier runs.
const maxOwn = 25

// Trail makes the histories that one run writes. Every checkpoint has a session id of its own, and
// the log keeps some earlier ones of the run: the one before always, so that a crash between the two
// writes of a checkpoint costs one interval, and of the older ones the fewer the older they are.
// A log thus names O(log n) moments of a long run, and a database that is restored from a backup
// finds a common one not far back.
type Trail struct {
	base    []Entry // found when the run began
	own     []Entry // newest first
	numbers []int64 // of own, counted from 1 in the order of writing
	count   int64
}

// NewTrail continues the history that Compare found.
func NewTrail(base []Entry) *Trail { return &Trail{base: base} }

// Add puts a checkpoint in front and returns the whole history to write, newest first.
func (t *Trail) Add(e Entry) []Entry {
	t.count++
	own, numbers := []Entry{e}, []int64{t.count}
	for i, k := range t.numbers {
		if len(own) < maxOwn && t.stays(k) {
			own, numbers = append(own, t.own[i]), append(numbers, k)
		}
	}
	t.own, t.numbers = own, numbers
	all := append(append([]Entry{}, own...), t.base...)
	return all[:min(len(all), MaxHistory)]
}

// stays keeps checkpoint k while its age is within twice the largest power of two that divides k.
func (t *Trail) stays(k int64) bool {
	age := t.count - k
	return age == 1 || age <= 2*(k&-k)
}
