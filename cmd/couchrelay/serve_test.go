package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
)

// TestStopLimitFollowsTheSetting: nothing ends runs before stop_timeout_sec is over.
func TestStopLimitFollowsTheSetting(t *testing.T) {
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Node.StopTimeout = time.Minute
	r.start(c)
	r.stop()
	for _, limit := range []string{"limit=15s", "limit=1m10s"} {
		if !strings.Contains(r.log.String(), "msg=stopping "+limit) {
			t.Errorf("no %s in the log: %s", limit, r.log)
		}
	}
	c.Node.StopTimeout = math.MaxInt64
	if limit := (&service{config: c}).stopLimit(); limit != math.MaxInt64 {
		t.Errorf("without end: %s", limit)
	}
}
