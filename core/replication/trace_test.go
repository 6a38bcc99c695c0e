package replication

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

var update = flag.Bool("update", false, "write the traces in testdata as they are now")

// tick is the time between two lines of a trace.
const tick = 500 * time.Millisecond

// trace plays runs for a time. Each line has the seconds since the beginning; then for each run how many batches it may
// work on at once, and how many documents it wrote in a second since the line before; and then how many requests for
// documents were at the servers on average.
func (r *road) trace(runs int, lasts time.Duration, change func(at time.Duration)) []byte {
	out := bytes.Buffer{}
	began, written := r.now, make([]int64, runs)
	fmt.Fprint(&out, "seconds")
	for n := range runs {
		fmt.Fprintf(&out, "\tbatches %d\tdocuments/s %d", n+1, n+1)
	}
	fmt.Fprintln(&out, "\tat the source\tat the target")
	for at := tick; at <= lasts; at += tick {
		change(at - tick)
		end := began.Add(at)
		r.play(func() bool { return r.now >= end })
		fmt.Fprintf(&out, "%.1f", at.Seconds())
		for n := range runs {
			if n >= len(r.runs) {
				fmt.Fprint(&out, "\t0\t0")
				continue
			}
			run, size := r.runs[n].run, 0
			if run.phase == copying {
				size = run.work.window.size()
			}
			fmt.Fprintf(&out, "\t%d\t%d", size, (run.Info().Written-written[n])*int64(time.Second/tick))
			written[n] = run.Info().Written
		}
		fmt.Fprintf(&out, "\t%.1f\t%.1f\n", r.there(peer.Source, tick), r.there(peer.Target, tick))
	}
	return out.Bytes()
}

// TestTraces compares what the window does in some stories with what it did when testdata/traces was written. A
// difference is no mistake by itself: draw both (make traces), and judge.
func TestTraces(t *testing.T) {
	far := [2]time.Duration{80 * time.Millisecond, 80 * time.Millisecond}
	for name, story := range map[string]func(t *testing.T) []byte{
		"start": func(t *testing.T) []byte {
			r := newRoad(t, 1, 30_000)
			r.trip = [2]time.Duration{250 * time.Millisecond, 250 * time.Millisecond}
			return r.trace(1, 20*time.Second, func(time.Duration) {})
		},
		"latency-jumps": func(t *testing.T) []byte {
			r := newRoad(t, 1, 30_000)
			r.trip = [2]time.Duration{time.Millisecond, time.Millisecond}
			return r.trace(1, 100*time.Second, func(at time.Duration) {
				switch at {
				case 10 * time.Second:
					r.trip = [2]time.Duration{500 * time.Millisecond, 500 * time.Millisecond}
				case 60 * time.Second:
					r.trip = [2]time.Duration{time.Millisecond, time.Millisecond}
				}
			})
		},
		"slow-down": func(t *testing.T) []byte {
			r := newRoad(t, 1, 30_000)
			r.trip = far
			began := r.now
			r.throw = func(at instant.Time) bool {
				since := at.Sub(began)
				return since >= 10*time.Second && since < 12*time.Second
			}
			return r.trace(1, 30*time.Second, func(time.Duration) {})
		},
		"two-runs": func(t *testing.T) []byte {
			r := newRoad(t, 2, 30_000)
			r.trip = far
			late := r.runs[1]
			r.runs = r.runs[:1]
			return r.trace(2, 30*time.Second, func(at time.Duration) {
				if at == 10*time.Second {
					late.now = r.now
					r.runs = append(r.runs, late)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, now := filepath.Join("testdata", "traces", name+".tsv"), story(t)
			if *update {
				if err := os.WriteFile(path, now, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			then, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(then, now) {
				t.Errorf("not what %s has (%v); go test -run TestTraces -update writes it anew:\n%s", path, err, now)
			}
		})
	}
}
