package jobs

import (
	"maps"
	"slices"

	"couchrelay/core/kv"

	"pgregory.net/rapid"
)

func (s *machine) Stop(t *rapid.T) {
	id := ids.Draw(t, "id")
	before := s.calls(t, id)
	j := s.m.jobs[id]
	asked := j != nil && j.Stop
	running, late, err := run(t, s, func(tx kv.Tx) (bool, error) { return s.q.Stop(tx, id) })
	j = s.m.jobs[id]
	if err != nil || !late && running != (j != nil && j.State == Running) {
		t.Fatalf("to stop %s: %v, %v", j, running, err)
	}
	if j == nil || j.State != Running || !running {
		return
	}
	if j.Stop = true; !asked && !late {
		s.checkCalled(t, j.Lock.Worker, before)
	}
}

// checkLots compares what the lots list with the model, page by page.
func (s *machine) checkLots(t *rapid.T, tx kv.Tx) error {
	for _, lot := range []string{"red", "blue\x00", "green"} {
		var got, want []string
		for after := ""; ; after = got[len(got)-1] {
			page, err := s.q.Keys.InLot(tx, lot, after, 2)
			if err != nil {
				return err
			}
			if got = append(got, page...); len(page) < 2 {
				break
			}
		}
		for _, id := range slices.Sorted(maps.Keys(s.m.jobs)) {
			if j := s.m.jobs[id]; j.State == Pending && j.Lot == lot {
				want = append(want, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("lot %q has %q, not %q", lot, got, want)
		}
	}
	return nil
}
