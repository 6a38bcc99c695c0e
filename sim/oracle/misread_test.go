package oracle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/world"
)

func TestMisread(t *testing.T) {
	row, old := &fakefdb.Row{Key: tuple.Pack("jobs", "job", "f1", 7)}, kv.NewError(kv.TransactionTooOld)
	sum := &fakefdb.Row{Key: []byte{0xfe}, Behind: true}
	ends := func(row *fakefdb.Row, failed, err error) func(*rig) {
		return func(r *rig) {
			m := fakefdb.Misreading{Row: row, Failed: failed, Err: err}
			r.see(world.Misread{Misreading: m, Who: "n1"}, world.Misread{Misreading: m, Request: node.Sweep{}})
		}
	}
	handed := func(r *rig, ago time.Duration) {
		waits, ready := aJob(jobstore.Record{State: jobstore.Pending}), aJob(jobstore.Record{State: jobstore.Pending})
		waits.header.Lot = "behind/rep"
		r.know("job", ready)
		r.change(node.Complete{}, waits, ready)
		r.w.Engine.Run(r.now().Add(ago), nil)
		ends(&fakefdb.Row{Key: r.w.View().Store().Keys.Jobs.Job.Pack("job", 0)}, nil, nil)(r)
	}
	check(t, &misreadSubject, []case_{
		{"a row that is told", ends(row, nil, fmt.Errorf("%w: f1", jobs.ErrCorrupt)), ""},
		{"a row that is told by its key", ends(row, nil, fmt.Errorf("malformed: %x", row.Key)), ""},
		{"a row that is not named", ends(row, nil, errors.New("malformed job")), "S101d"},
		{"a key that is no tuple", ends(sum, nil, errors.New("key fe")), ""},
		{"a key that is no tuple and not told", ends(sum, nil, errors.New("key")), "S101d"},
		{"a row that is passed over", ends(row, nil, nil), "S101a"},
		{"a row of a job that waits", func(r *rig) {
			waits := aJob(jobstore.Record{State: jobstore.Pending, RepID: "rep"})
			waits.header.Lot = "behind/rep"
			r.know("f1", waits)
			ends(&fakefdb.Row{Key: r.w.View().Store().Keys.Jobs.Job.Pack("f1", 0), Behind: true}, nil, nil)(r)
		}, ""},
		{"a row of a job that waited when it was read", func(r *rig) { handed(r, 0) }, ""},
		{"a row of a job that waited long ago", func(r *rig) { handed(r, 2*kv.MaxTxSeconds*time.Second) }, "S101a"},
		{"a row of a job that waits, for a promotion", func(r *rig) {
			waits := aJob(jobstore.Record{State: jobstore.Pending, RepID: "rep"})
			waits.header.Lot = "behind/rep"
			r.know("f1", waits)
			m := fakefdb.Misreading{Row: &fakefdb.Row{Key: r.w.View().Store().Keys.Jobs.Job.Pack("f1", 0)}}
			r.see(world.Misread{Misreading: m, Request: node.Promote{}})
		}, "S101a"},
		{"a row of a job that waits for a slot", func(r *rig) {
			r.know("f1", aJob(jobstore.Record{State: jobstore.Pending}))
			ends(&fakefdb.Row{Key: r.w.View().Store().Keys.Jobs.Job.Pack("f1", 0)}, nil, nil)(r)
		}, "S101a"},
		{"a row after which a read fails", ends(row, old, old), ""},
		{"a row, and then no time", ends(row, nil, context.DeadlineExceeded), ""},
		{"a row, and a store that gives the transaction up", ends(row, nil, kv.NewError(kv.TransactionTooLarge)), ""},
		{"a row that is taken for none", ends(row, nil, docs.ErrMissing), "S101b"},
		{"a row that is taken for a revision", ends(row, nil, fmt.Errorf("write: %w", docs.ErrConflict)), "S101b"},
		{"a row that is taken for another lock", ends(row, nil, jobs.ErrCanceled), "S101b"},
		{"data of a job that another worker holds", func(r *rig) {
			for _, k := range []jobs.Keys{r.w.View().Store().Keys.Jobs, r.w.View().FollowStore().Keys.Jobs} {
				ends(&fakefdb.Row{Key: k.Job.Pack("f1", 0)}, nil, jobs.ErrWorkerConflict)(r)
			}
		}, ""},
		{"a key behind a job that another worker holds", func(r *rig) {
			k := r.w.View().FollowStore().Keys.Jobs
			ends(&fakefdb.Row{Key: k.Job.Pack("f1"), Behind: true}, nil, jobs.ErrWorkerConflict)(r)
		}, "S101b"},
		{"a row that is taken for no lease", ends(row, nil, jobs.ErrLeaseLost), "S101b"},
		{"a row that is taken for an index to come", ends(row, nil, jobstore.ErrReindexing), "S101b"},
		{"a row that is taken for what bars an order", ends(row, nil, jobstore.Obstacle("over")), "S101b"},
		{"a read that failed", ends(nil, old, fmt.Errorf("list: %w", old)), ""},
		{"two reads that failed", ends(nil, old, kv.NewError(kv.FutureVersion)), ""},
		{"a read that failed, told as something else", ends(nil, old, jobstore.ErrReindexing), "S101c"},
		{"a read that failed, told without the store's error", ends(nil, old, errors.New(old.Error())), "S101c"},
	})
}
