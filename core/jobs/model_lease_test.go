package jobs

import (
	"context"
	"errors"

	"couchrelay/core/kv"

	"pgregory.net/rapid"
)

// look is a worker's heartbeat, and how many it had sent by then.
type look struct {
	beat  [10]byte
	beats int
}

func (s *machine) Register(t *rapid.T) {
	w := workers.Draw(t, "worker")
	_, _, err := run(t, s, func(tx kv.Tx) (struct{}, error) { return struct{}{}, s.q.Register(tx, w, []byte("info")) })
	if err != nil {
		t.Fatal(err)
	}
	s.m.workers[w] = true
	s.m.beats[w]++
}

func (s *machine) Heartbeat(t *rapid.T) {
	w := workers.Draw(t, "worker")
	_, _, err := run(t, s, func(tx kv.Tx) (int64, error) { return s.q.Heartbeat(tx, w, []byte("info")) })
	if s.m.workers[w] != (err == nil) || err != nil && !errors.Is(err, ErrLeaseLost) {
		t.Fatalf("heartbeat of %s: %v", w, err)
	}
	if err == nil {
		s.m.beats[w]++
	}
}

func (s *machine) Look(t *rapid.T) {
	leases, err := kv.Run(context.Background(), s.db, func(tx kv.Tx) ([]Lease, error) { return s.q.Leases(tx) })
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		s.looks[l.Worker] = look{l.Beat, s.m.beats[l.Worker]}
	}
}

// calls is the call counter of whoever runs a job.
func (s *machine) calls(t *rapid.T, id string) int64 {
	j := s.m.jobs[id]
	if j == nil || j.State != Running {
		return 0
	}
	n, err := kv.Run(context.Background(), s.db, func(tx kv.Tx) (int64, error) { return s.q.Calls(tx, j.Lock.Worker) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkCalled wants a worker to be called whose job is not its own any more, or not for long.
func (s *machine) checkCalled(t *rapid.T, w string, before int64) {
	n, err := kv.Run(context.Background(), s.db, func(tx kv.Tx) (int64, error) { return s.q.Calls(tx, w) })
	if err != nil || n <= before {
		t.Fatalf("worker %s has been called %d times, after %d; %v", w, n, before, err)
	}
}

func (s *machine) Expire(t *rapid.T) {
	w, limit := workers.Draw(t, "worker"), rapid.IntRange(1, 3).Draw(t, "limit")
	s.expire(t, w, nil, limit)
	s.gone(w, 0)
}

// ExpireSilent is a monitor's.
func (s *machine) ExpireSilent(t *rapid.T) {
	w, limit := workers.Draw(t, "worker"), rapid.IntRange(1, 3).Draw(t, "limit")
	seen := s.looks[w]
	s.expire(t, w, &seen.beat, limit)
	if s.m.beats[w] == seen.beats {
		s.gone(w, 1)
	}
}

func (s *machine) expire(t *rapid.T, w string, beat *[10]byte, limit int) {
	expire := func(tx kv.Tx) (bool, error) { return s.q.Expire(tx, w, beat, limit) }
	done, _, err := runOnce(t, s, expire)
	for !done && err == nil {
		done, err = kv.Run(context.Background(), s.db, expire)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// gone is that a worker is not there any more, and whether it vanished.
func (s *machine) gone(w string, vanished int) {
	delete(s.m.workers, w)
	for _, j := range s.m.jobs {
		if j.Lock.Worker == w {
			j.State, j.Lock, j.Resubmit, j.Stop, j.Lost = Pending, Lock{}, false, false, j.Lost+vanished
		}
	}
}

func (s *machine) checkLeases(t *rapid.T, tx kv.Tx) error {
	leases, err := s.q.Leases(tx)
	if err != nil {
		return err
	}
	if len(leases) != len(s.m.workers) {
		t.Fatalf("leases %v, want %v", leases, s.m.workers)
	}
	for _, l := range leases {
		owned, err := s.q.Owned(tx, l.Worker)
		if err != nil {
			return err
		}
		if l.Expired || string(l.Info) != "info" || l.Beat == [10]byte{} {
			t.Fatalf("lease %+v", l)
		}
		for _, h := range owned {
			if !s.holds(h.ID, h.Lock) {
				t.Fatalf("%v is not held", h)
			}
		}
		holds := 0
		for _, j := range s.m.jobs {
			if j.State == Running && j.Lock.Worker == l.Worker {
				holds++
			}
		}
		if len(owned) != holds {
			t.Fatalf("%s has %d jobs, and is told of %d", l.Worker, holds, len(owned))
		}
	}
	return nil
}

// checkFence wants a write under a lock to fail unless that is the lock of the job, and to say why.
func (s *machine) checkFence(t *rapid.T, id string, l Lock, err error) {
	j := s.m.jobs[id]
	var want error
	switch {
	case s.holds(id, l):
	case j == nil || j.State == Finished || s.m.workers[l.Worker]:
		want = ErrCanceled
	default:
		want = ErrWorkerConflict
	}
	if !errors.Is(err, want) || want != nil && !errors.Is(err, ErrHalt) {
		t.Fatalf("write of %s under %v, which is %v: %v, want %v", id, l, j, err, want)
	}
}
