package descriptors

import "testing"

// TestBudget: connections leave enough to the store, whatever the limit is, and those of jobs leave some to clients.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		limit         uint64
		clients, jobs int // how many connections there may be
	}{
		{0, 0, 0}, {64, 32, 23}, {256, 136, 101}, {1024, 832, 623}, {4096, 3346, 3089}, {65536, 64786, 64529},
	} {
		b, jobs, clients := New(c.limit), 0, 0
		for ; b.Job(); jobs++ {
			b.Opened()
		}
		for clients = jobs; b.Client(); clients++ {
			if b.Job() {
				t.Errorf("limit %d: a job takes what is left to clients", c.limit)
			}
		}
		if jobs != c.jobs || clients != c.clients || c.limit >= 256 && clients+StoreFiles(c.limit) >= int(c.limit) {
			t.Errorf("limit %d: %d connections of jobs, %d in all, %d files of the store",
				c.limit, jobs, clients, StoreFiles(c.limit))
		}
		if jobs > 0 {
			for range clients {
				b.Give()
			}
			if !b.Job() {
				t.Errorf("limit %d: what was given back is not there", c.limit)
			}
		}
	}
	var none *Budget
	if !none.Job() || !none.Client() {
		t.Error("without a bound there is none")
	}
	none.Opened()
	none.Give()
}

// TestLimit: the limit of this process is the one that the system has.
func TestLimit(t *testing.T) {
	if l := Limit(); l < 16 {
		t.Errorf("%d", l)
	}
}
