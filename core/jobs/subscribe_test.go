package jobs

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"couchrelay/core/kv"

	"pgregory.net/rapid"
)

// subscription is what a subscriber has read, and the watch that tells of another job than that.
type subscription struct {
	job   *Job
	watch kv.Watch
}

func never(*Job) (bool, error) { return false, nil }

// Subscribe is a subscriber of a job, to its data or not.
func (s *machine) Subscribe(t *rapid.T) {
	id, data := ids.Draw(t, "id"), rapid.Bool().Draw(t, "to data")
	seen, _, err := runOnce(t, s, func(tx kv.Tx) (subscription, error) {
		j, w, err := s.q.Subscribe(tx, id, Interest{Data: data, Until: never})
		return subscription{j, w}, err
	})
	if err != nil || seen.watch == nil {
		t.Fatalf("subscribed with %v, %v", seen, err)
	}
	s.subscriptions[subscribed{id, data}] = seen
}

// subscribed names a subscription.
type subscribed struct {
	id   string
	data bool
}

// checkSubscriptions wants each watch to have fired whose job is not as it was read.
func (s *machine) checkSubscriptions(t *rapid.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for key, seen := range s.subscriptions {
		old, now := seen.job, s.m.jobs[key.id]
		same := (old == nil) == (now == nil)
		if same && old != nil {
			same = old.String() == now.String() && old.Schedule.equal(now.Schedule) &&
				(!key.data || bytes.Equal(old.Data, now.Data))
		}
		if same {
			continue
		}
		delete(s.subscriptions, key)
		if err := fired(ctx, seen.watch); err != nil {
			t.Fatalf("%s was read as %v and is %v, and its subscriber is not told: %v", key.id, old, now, err)
		}
	}
}

// TestSubscribe: a subscriber is told of what it waits for, and of nothing else.
func TestSubscribe(t *testing.T) {
	big := bytes.Repeat([]byte{'x'}, 3*chunkSize)
	other := bytes.Clone(big)
	other[len(other)-1] = 'y'
	update := func(data []byte) func(*Queue, kv.Tx, Lock) error {
		return func(q *Queue, tx kv.Tx, l Lock) error { return q.Update(tx, "a", l, data) }
	}
	finish := func(q *Queue, tx kv.Tx, l Lock) error {
		if j, err := q.Get(tx, "a"); err != nil || j.State == Finished { // by an attempt of unknown outcome
			return err
		}
		_, err := q.Finish(tx, "a", l, big)
		return err
	}
	remove := func(q *Queue, tx kv.Tx, _ Lock) error { _, err := q.Remove(tx, "a"); return err }
	for _, c := range []struct {
		name   string
		until  Interest
		change func(*Queue, kv.Tx, Lock) error
		told   bool
	}{
		{"data, by its state", In(Finished), update(nil), false},
		{"data", Interest{Data: true, Until: never}, update(other), true},
		{"longer data", Interest{Data: true, Until: never}, update(append(bytes.Clone(big), other...)), true},
		{"no data", Interest{Data: true, Until: never}, update(nil), true},
		{"state", In(Finished), finish, true},
		{"state, by its data", Interest{Data: true, Until: never}, finish, true},
		{"removal", In(Finished), remove, true},
	} {
		told := func() bool {
			db, q := newQueue(t)
			register(t, db, q, "w")
			add(t, db, q, "a")
			lock := must(t, db, accept(q, "w", 1, 1))[0].Lock
			must(t, db, func(tx kv.Tx) (struct{}, error) { return struct{}{}, q.Update(tx, "a", lock, big) })
			look := func() subscription {
				return must(t, db, func(tx kv.Tx) (subscription, error) {
					j, w, err := q.Subscribe(tx, "a", c.until)
					return subscription{j, w}, err
				})
			}
			seen := look()
			must(t, db, func(tx kv.Tx) (struct{}, error) { return struct{}{}, c.change(q, tx, lock) })
			patience := 10 * time.Second
			if !c.told {
				patience = 10 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := fired(ctx, seen.watch)
			again := look()
			over := again.job == nil || again.job.State == Finished
			if (again.watch == nil) != over && !c.until.Data {
				t.Errorf("%s: afterwards the subscriber gets %v and a watch %v", c.name, again.job, again.watch)
			}
			return err == nil
		}
		is := told()
		for n := 0; is && !c.told && n < 10; n++ {
			is = told() // a client that loses a watch lets it fire, which is allowed, but not each time
		}
		if is != c.told {
			t.Errorf("%s: told %t", c.name, is)
		}
	}
}

// TestSubscribeFails: what goes wrong with the job or with the subscriber's question is told.
func TestSubscribeFails(t *testing.T) {
	db, q := newQueue(t)
	broken := errors.New("broken")
	_, err := kv.Run(t.Context(), db, func(tx kv.Tx) (*Job, error) {
		j, _, err := q.Subscribe(tx, "a", Interest{Until: func(*Job) (bool, error) { return false, broken }})
		return j, err
	})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}
