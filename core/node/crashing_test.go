package node

import (
	"math"
	"slices"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

// TestCrashingJobsCount: jobs that wait after a crash count as jobs of their account under fair share, and mean nothing
// under tags. docs/scheduling.md has the numbers.
func TestCrashingJobsCount(t *testing.T) {
	const healthy, crashing = 12, 108
	for policy, want := range map[schedule.Policy]float64{schedule.FairShare: 0.24, schedule.Tags: 0.5} {
		w := newWorld(t)
		w.s.Config.Backoff.Min, w.s.Config.Backoff.Max = 48*time.Hour, 48*time.Hour
		w.share(func(c *jobstore.Sharing) { c.Policy = policy })
		w.tenant("a/_replicator", 2, healthy)
		w.tenant("b/_replicator", 3, healthy+crashing)
		n := w.start("n", func(c *Config) {
			c.Limits = schedule.Limits{MaxJobs: 6, MaxChurn: 3}
		})
		fails := func(r *run) bool {
			id := r.held.JobID
			return id >= documentJob(3, healthy) && id <= documentJob(3, healthy+crashing)
		}
		crashed := map[string]bool{}
		for i := 0; len(crashed) < crashing; i++ { // until all of them wait
			if i == 2000 {
				t.Fatalf("%d of %d have crashed", len(crashed), crashing)
			}
			w.pass(5 * time.Second)
			for _, r := range slices.Clone(n.runs) {
				if fails(r) {
					crashed[r.held.JobID] = true
					n.endRun(r.id, replication.Crashed)
				}
			}
			n.stopAll()
		}
		ran := w.play(6 * time.Hour)
		if got := ran["b/_replicator"].Seconds() / w.all(ran); math.Abs(got-want) > 0.02 {
			t.Errorf("under %s the account gets %.3f, want %.2f", policy, got, want)
		}
		w.audit()
	}
}
