package oracle

import (
	"testing"

	"couchrelay/core/jobstore"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/world"
)

func TestDrops(t *testing.T) {
	waits := jobstore.Record{State: jobstore.Pending, Instance: "i|"}
	runs := waits
	runs.State = jobstore.Running
	// moves has an accept read a version, and change a job, after the database was deleted before version 7.
	moves := func(read int64, before, after jobstore.Record) func(*rig) {
		return func(r *rig) {
			r.o.dropped["i|"] = r.now()
			for _, version := range []int64{7, 9} {
				r.o.on.landed.tell(landing{world.Landed{Landing: fakefdb.Landing{Version: version}}, nil})
			}
			l := landing{world.Landed{Landing: fakefdb.Landing{Version: 10, Read: read}}, []string{"job"}}
			r.o.on.jobMoved.tell(jobChange{id: "job", before: aJob(before), after: aJob(after), landing: l})
		}
	}
	other := runs
	other.Instance = "other|"
	check(t, &dropSubject, []case_{
		{"given after the deletion", moves(7, waits, runs), "S80"},
		{"given much later", moves(8, waits, runs), "S80"},
		{"read before the deletion", moves(6, waits, runs), ""},
		{"given back", moves(8, runs, waits), ""},
		{"goes on", moves(8, runs, runs), ""},
		{"of another database", moves(8, waits, other), ""},
	})
}
