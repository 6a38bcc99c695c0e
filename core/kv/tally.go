package kv

// Tallier is a transaction that counts what its attempts would bring about. What an attempt has told counts once that
// attempt has committed, and never before: so metrics of the process say what has happened. A commit whose outcome is
// unknown counts nothing, for its repetition may find it done.
type Tallier interface {
	// Tally counts n of a kind, which is one of a few constants.
	Tally(kind string, n int64)
}

// Tally has a transaction count n of a kind, if it counts anything; most stores do not. It changes nothing of the
// transaction.
func Tally(tx Tx, kind string, n int64) {
	if t, is := tx.(Tallier); is {
		t.Tally(kind, n)
	}
}
