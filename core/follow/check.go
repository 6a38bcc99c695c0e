package follow

import (
	"fmt"

	"couchrelay/core/check"
	"couchrelay/core/jobs"
	"couchrelay/core/kv/tuple"
)

// Sections are the rows of jobs that follow databases, below the root of the store, for a check of the store.
func Sections(root tuple.Subspace) []check.Section {
	keys := NewStore(root, nil).Keys
	list := jobs.Sections(keys.Jobs, func(p *check.Page, j *jobs.Job) {
		if data, err := decodeJob(j); err != nil || data.ID() != j.ID {
			p.Report(keys.Jobs.Job.Pack(j.ID, int64(0)), "what the job follows cannot be read")
		}
	})
	return append(list, check.Section{Space: keys.Rows, Row: func(p *check.Page, key, value []byte) {
		var job, kind, id string
		if keys.Rows.Scan(key, &job, &kind, &id) != nil || kind != "doc" && kind != "due" {
			p.Report(key, "the row names no document")
			return
		}
		var r row
		wrong := kind == "doc" && r.scan(value) != nil
		switch {
		case !p.Has(keys.Jobs.Job.Pack(job)):
			p.Mend(key, fmt.Sprintf("the row is left over: nothing follows a database for %s", job),
				check.Mend{What: "remove the row", Clear: [][]byte{key}})
		case wrong:
			p.Report(key, "what is known of the document cannot be read")
		}
	}})
}
