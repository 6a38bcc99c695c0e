package jobs

import (
	"bytes"
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

// checkLots compares what the lots list with the model, and the first jobs of it.
func (s *machine) checkLots(t *rapid.T, tx kv.Tx) error {
	for _, lot := range []string{"red", "blue\x00", "green"} {
		var want []string
		for _, id := range slices.Sorted(maps.Keys(s.m.jobs)) {
			if j := s.m.jobs[id]; j.State == Pending && j.Lot == lot {
				want = append(want, id)
			}
		}
		for _, limit := range []int{2, len(s.m.jobs) + 1} {
			got, err := s.q.Keys.InLot(tx, lot, limit)
			if first := want[:min(limit, len(want))]; err != nil || !slices.Equal(got, first) {
				t.Fatalf("lot %q has %q, not %q: %v", lot, got, first, err)
			}
		}
	}
	return nil
}

// mirror keeps rows of a job's type that follow the headers of jobs.
func (s *machine) mirror(tx kv.Tx, old, to *Job) {
	if old != nil {
		tx.Clear(s.mirrored.Pack(old.ID, old.Label, old.State.String()))
	}
	if to != nil {
		tx.Set(s.mirrored.Pack(to.ID, to.Label, to.State.String()), nil)
	}
}

// checkMirror compares what the job type has heard of with the model.
func (s *machine) checkMirror(t *rapid.T, tx kv.Tx) error {
	rows, err := tx.GetRange(s.mirrored.Range(), kv.RangeOptions{})
	if err != nil || len(rows) != len(s.m.jobs) {
		t.Fatalf("%d of %d jobs are mirrored: %v", len(rows), len(s.m.jobs), err)
	}
	for i, id := range slices.Sorted(maps.Keys(s.m.jobs)) {
		if j := s.m.jobs[id]; !bytes.Equal(rows[i].Key, s.mirrored.Pack(id, j.Label, j.State.String())) {
			t.Fatalf("the mirror of %s with label %q is %q", j, j.Label, rows[i].Key)
		}
	}
	return nil
}
