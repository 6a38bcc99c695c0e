package jobs

import (
	"errors"
	"slices"
	"strings"
	"testing"

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
			must(t, db, func(tx kv.Tx) (bool, error) {
				r := sealedReader{Reader: tx}
				for _, id := range strings.Split(shut, "") {
					r.shut = append(r.shut, q.Keys.Job.Pack(id, int64(0)))
				}
				var without []string
				for {
					var ids string
					list, err := q.List(r, Page{Limit: limit, Without: append(without, "gone")})
					if e, is := errors.AsType[*UnreadableError](err); is && !slices.Contains(without, e.Job) {
						without = append(without, e.Job)
						continue
					}
					for _, j := range list {
						ids += j.ID
					}
					if want := "abcde"[:min(limit, 5)]; err != nil || ids != want {
						t.Errorf("limit %d, %s do not open: %q, want %q: %v", limit, shut, ids, want, err)
					}
					return true, nil
				}
			})
		}
	}
}
