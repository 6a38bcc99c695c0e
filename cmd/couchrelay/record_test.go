package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/eventlog"
)

// recordTo restarts the rig's service with an event log.
func (r *rig) recordTo(path string) {
	r.t.Helper()
	r.stop()
	log, err := eventlog.Create(path, "test", 0, slog.New(slog.NewTextHandler(r.log, nil)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.record = log
	r.start(config.Default())
}

// replayed stops the service and replays its log.
func (r *rig) replayed(path string) (eventlog.Report, string) {
	r.t.Helper()
	r.stop()
	if err := r.record.Close(); err != nil {
		r.t.Error(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	report, err := eventlog.Replay(strings.NewReader(string(text)), nil)
	if err != nil {
		r.t.Errorf("after %d events: %v", report.Events, err)
	}
	return report, string(text)
}

func TestRecordedServiceDecidesTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "log")
	r.recordTo(path)
	r.fill(300)
	secretly := func(url string) string {
		return fmt.Sprintf(`{"url":%q,"auth":{"basic":{"username":"anna","password":"hunter2"}},`+
			`"headers":{"X-Token":"tok3n"}}`, url)
	}
	r.want(201, "PUT", "_replicator/one", r.body(""))
	r.want(201, "PUT", "_replicator/two", r.body(`,"continuous":true`))
	r.want(201, "PUT", "_replicator/three",
		fmt.Sprintf(`{"source":%s,"target":%s,"create_target":true,"selector":{"hidden":"sel3ctor"}}`,
			secretly(r.source.url+"db"), secretly(r.target.url+"three")))
	r.want(201, "PUT", "_replicator/four",
		fmt.Sprintf(`{"source":%q,"target":%q}`, r.source.url+"none", r.target.url+"copy"))
	for _, id := range []string{"one", "three"} {
		r.await(id, func() bool { return r.docState(id) == "completed" })
	}
	r.await("a crash", func() bool { return r.docState("four") == "crashing" })
	report, text := r.replayed(path)
	if report.Cut || report.Runs < 4 || report.Events < 50 {
		t.Errorf("%+v", report)
	}
	for _, secret := range []string{"hunter2", "tok3n", "anna", "sel3ctor"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
	if !strings.Contains(text, "doc299") {
		t.Error("the log lacks what was replicated")
	}
}

// fullDisk is a file on a disk with room for so many bytes.
type fullDisk struct{ room int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.room -= len(p); d.room < 0 {
		return 0, fmt.Errorf("no space left on device")
	}
	return len(p), nil
}

func (*fullDisk) Close() error { return nil }

func TestServiceOutlivesItsLog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stop()
	r.record = eventlog.NewWriter(&fullDisk{2000}, "test", 0, slog.New(slog.NewTextHandler(r.log, nil)))
	r.start(config.Default())
	r.fill(20)
	r.want(201, "PUT", "_replicator/r", r.body(""))
	r.await("completion", func() bool { return r.docState("r") == "completed" })
	r.same()
	if n := strings.Count(r.log.String(), "recording_stopped"); n != 1 {
		t.Errorf("said %d times that recording stopped", n)
	}
}

func TestRecordFlags(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none", "log")
	for path, want := range map[string]string{
		taken: "--record: " + taken + " is there already", none: "--record: open " + none,
	} {
		s := serveCommand{Record: path}
		if _, err := s.record(slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if log, err := (&serveCommand{}).record(slog.New(slog.DiscardHandler)); log != nil || err != nil {
		t.Error(log, err)
	}
}

// BenchmarkRecording replicates through a service with and without a log, and reports how many times as
// much processor time it takes with one, servers and all, and the log's bytes per document.
func BenchmarkRecording(b *testing.B) {
	const count = 20_000
	var plain, recorded time.Duration
	var size int64
	for b.Loop() {
		plain += recordOnce(b, "", count)
		path := filepath.Join(b.TempDir(), "log")
		recorded += recordOnce(b, path, count)
		info, err := os.Stat(path)
		must(b, err)
		size += info.Size()
	}
	b.ReportMetric(recorded.Seconds()/plain.Seconds(), "ratio")
	b.ReportMetric(float64(size)/float64(count*b.N), "log-B/doc")
	b.ReportMetric(0, "ns/op")
}

func recordOnce(b *testing.B, path string, count int) time.Duration {
	r := newRig(b)
	if path != "" {
		r.recordTo(path)
	}
	r.fill(count)
	before := processorTime(b)
	r.want(200, "POST", "_replicate", r.body(""))
	took := processorTime(b) - before
	r.stop()
	must(b, r.record.Close())
	return took
}

// processorTime returns the processor time that this process has used so far.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
