package world

import (
	"testing"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
	"couchrelay/sim/decide"
)

// TestLanded: a request has made a job if the job does what it asks for, and is of its moment.
func TestLanded(t *testing.T) {
	w := New(Default(), decide.New(1))
	ask := func(more string) *spec.Replication {
		body := `{"source":"http://s1/a1/","target":"http://s2/b1/"` + more + `}`
		rep, err := spec.ParseRequest([]byte(body), w.store.Config.Parse)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	const now = instant.Time(1000)
	var id string
	if err := w.Commit(nil, func(tx kv.Tx) (err error) {
		id, err = w.store.Replicate(tx, ask(`,"weight":200`), Requester, now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		more   string
		at     instant.Time
		landed bool
	}{
		"itself":           {`,"weight":200`, now, true},
		"an earlier one":   {`,"weight":200`, now - 1, false},
		"another weight":   {``, now, false},
		"another interval": {`,"weight":200,"checkpoint_interval":1000`, now, false},
	} {
		if got := landed(w, id, ask(c.more), c.at); got != c.landed {
			t.Errorf("%s: %v", name, got)
		}
	}
}
