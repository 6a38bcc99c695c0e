package jobs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
)

// sealedReader does not open some values: a read of them fails, also that of a range with others.
type sealedReader struct {
	kv.Reader
	shut [][]byte
}

func (r sealedReader) GetRange(in kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	rows, err := r.Reader.GetRange(in, o)
	for _, row := range rows {
		for _, key := range r.shut {
			if string(row.Key) == string(key) {
				return nil, &kv.UnreadableError{Key: key, Err: errors.New("forged")}
			}
		}
	}
	return rows, err
}

// TestListWithout: a list names the job of a value that does not open, also where the value is one of many that were
// read, and has all others with the ids of those that it is to leave out.
func TestListWithout(t *testing.T) {
	db, root := newStore(t)
	q := New(KeysBelow(root, "kind"))
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		must(t, db, func(tx kv.Tx) (bool, error) { return true, q.Add(tx, id, Schedule{}, []byte("data")) })
	}
	for limit := 1; limit < 7; limit++ {
		for _, shut := range []string{"a", "bc", "ce", "abcde"} {
			ids := must(t, db, func(tx kv.Tx) (ids string, err error) {
				r := sealedReader{Reader: tx}
				for _, id := range strings.Split(shut, "") {
					r.shut = append(r.shut, q.Keys.Job.Pack(id, int64(0)))
				}
				var without []string
				for {
					list, err := q.List(r, Page{Limit: limit, Without: append(without, "gone")})
					if e, is := errors.AsType[*UnreadableError](err); is && !slices.Contains(without, e.Job) {
						without = append(without, e.Job)
						continue
					}
					for _, j := range list {
						ids += j.ID
					}
					return ids, err
				}
			})
			if want := "abcde"[:min(limit, 5)]; ids != want {
				t.Errorf("limit %d, %s do not open: %q, want %q", limit, shut, ids, want)
			}
		}
	}
}

// fourJobs is a queue of the jobs a to d, which wait in that order or are ready. Without data they have one row each.
func fourJobs(t *testing.T, wait bool) (kv.Database, *Queue) {
	db, root := newStore(t)
	q := New(KeysBelow(root, "kind"))
	for i, id := range []string{"a", "b", "c", "d"} {
		s := Schedule{}
		if wait {
			s.Due = instant.Time(1 + i)
		}
		must(t, db, func(tx kv.Tx) (bool, error) { return true, q.Add(tx, id, s, nil) })
	}
	return db, q
}

// TestListFromWithout: a list that begins with a job that cannot be read has it, and no more jobs than it may.
func TestListFromWithout(t *testing.T) {
	const all = "abcd"
	for i, odd := range strings.Split(all, "") {
		db, q := fourJobs(t, false)
		must(t, db, func(tx kv.Tx) (bool, error) { tx.Set(q.Keys.Job.Pack(odd), []byte{0xff}); return true, nil })
		for limit := 1; limit < 5; limit++ {
			for _, begin := range []int{0, i} {
				list := must(t, db, func(tx kv.Tx) ([]*Job, error) {
					return q.List(tx, Page{From: all[begin : begin+1], Limit: limit, Without: []string{odd}})
				})
				var ids string
				for _, j := range list {
					ids += j.ID
				}
				if want := all[begin:min(begin+limit, 4)]; ids != want {
					t.Errorf("without %s, limit %d: %q, want %q", odd, limit, ids, want)
				}
			}
		}
	}
}

// TestListWithoutTwo: a list does not read two jobs that it is to do without, in whichever order these are named.
func TestListWithoutTwo(t *testing.T) {
	db, q := fourJobs(t, false)
	for _, odd := range []string{"b", "c"} {
		must(t, db, func(tx kv.Tx) (bool, error) { tx.Set(q.Keys.Job.Pack(odd), []byte{0xff}); return true, nil })
	}
	for _, without := range [][]string{{"b", "c"}, {"c", "b"}} {
		list := must(t, db, func(tx kv.Tx) ([]*Job, error) { return q.List(tx, Page{Limit: 9, Without: without}) })
		if len(list) != 4 || list[1].ID != "b" || list[2].ID != "c" {
			t.Errorf("without %s: %v", without, list)
		}
	}
}

// TestMovesWithout: jobs that cannot be read keep no others from being moved, however few are moved at once.
func TestMovesWithout(t *testing.T) {
	odd := []string{"a", "b"}
	db, q := fourJobs(t, true)
	for want := 1; want >= 0; want-- { // d is not due
		moved := must(t, db, func(tx kv.Tx) (n int, err error) {
			n, _, err = q.Promote(tx, 3, 1, odd...)
			return n, err
		})
		if moved != want {
			t.Errorf("%d jobs are made ready, want %d", moved, want)
		}
	}
	db, q = fourJobs(t, true)
	for want := 1; want >= 0; want-- { // a is not beyond
		if moved := must(t, db, func(tx kv.Tx) (int, error) { return q.Recall(tx, 1, 1, "c", "d") }); moved != want {
			t.Errorf("%d jobs are recalled, want %d", moved, want)
		}
	}
	db, q = fourJobs(t, true)
	if moved := must(t, db, func(tx kv.Tx) (int, error) { return q.Recall(tx, 1, 1, "d", "gone") }); moved != 1 {
		t.Errorf("%d jobs are recalled at once, want 1", moved)
	}
	db, q = fourJobs(t, false)
	register(t, db, q, "w")
	must(t, db, accept(q, "w", 1, 4))
	for _, without := range [][]string{odd, odd, odd, nil} {
		done := must(t, db, func(tx kv.Tx) (bool, error) { return q.Expire(tx, "w", nil, 1, without...) })
		leases := must(t, db, func(tx kv.Tx) ([]Lease, error) { return q.Leases(tx) })
		owned := must(t, db, func(tx kv.Tx) ([]Held, error) { return q.Owned(tx, "w") })
		if len(leases) != 1 || len(owned) < 1 || done != (len(owned) == 2 && without != nil) {
			t.Errorf("without %v: done %t, and there are %d leases and %d jobs", without, done, len(leases), len(owned))
		}
	}
}
