package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/replication"
	"couchrelay/sim/fakefdb/damaged"
)

// TestDamagedRowsAreTold: whichever row that an explanation reads has a value that nothing can be made of, or stands
// before one whose key cannot be read, there is an error in its place. Values that mean something whatever bytes they
// have are left out: counters, ids, leases, and the keys of holds.
func TestDamagedRowsAreTold(t *testing.T) {
	b := newBench(t)
	b.node(5, 0)
	b.do(func(tx kv.Tx) error { return b.s.Share(tx, jobstore.DefaultSharing(), b.now) })
	ids := []string{
		b.put("complete", "b", ""), b.put("crash", "c", ""), b.put("fail", "d", ""),
		b.put("run", "e", `,"continuous":true`),
	}
	b.accept(4)
	b.end(func(h jobstore.Owned, turn jobstore.Turn) error { return h.Complete(replication.End{}, turn) })
	b.crash("boom", false)
	b.end(func(h jobstore.Owned, turn jobstore.Turn) error {
		return h.Fail(replication.Trouble{Error: "no"}, turn)
	})
	ids = append(ids, b.put("paused", "f", `,"paused":true`), b.put("ready", "g", ""),
		b.put("waits", "e", `,"continuous":true`))
	b.hold(jobstore.Hold{Server: "h:81"})
	values := []string{"claim/", "count/", "jobs/replication/beat/", "jobs/replication/worker/", "hold/"}
	for _, id := range ids {
		op := func(tx kv.Tx) error {
			e, err := Read(tx.Snapshot(), b.s, id, Asking{Now: b.now, MaxChurn: 2})
			if err == nil && e == nil {
				return fmt.Errorf("there is no job")
			}
			return err
		}
		err := damaged.Each(t.Context(), b.db, op, func(row damaged.Row, err error) {
			key := check.Readable(tuple.Subspace(tuple.Pack("t")), row.Key)
			is := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
			if err == nil && (row.Behind || !slices.ContainsFunc(values, is)) {
				t.Errorf("%s is explained past a damaged %s (behind: %v)", id, key, row.Behind)
			}
		})
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	id := ids[len(ids)-2]
	b.do(func(tx kv.Tx) error {
		_, err := b.s.Jobs.Resubmit(tx, id, jobs.Schedule{Priority: []byte{0xfd}})
		return err
	})
	err := kv.Do(t.Context(), b.db, func(tx kv.Tx) error {
		_, err := Read(tx.Snapshot(), b.s, id, Asking{Now: b.now})
		return err
	})
	if !errors.Is(err, jobs.ErrCorrupt) {
		t.Errorf("a job with an unreadable priority is explained: %v", err)
	}
}
