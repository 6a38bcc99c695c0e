package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"couchrelay/core/host"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"pgregory.net/rapid"
)

// file is a file in memory that may become full.
type file struct {
	bytes.Buffer
	room   int // 0: endless
	closed bool
}

func (f *file) Write(p []byte) (int, error) {
	if f.room > 0 && f.Len()+len(p) > f.room {
		n, _ := f.Buffer.Write(p[:f.room-f.Len()])
		return n, errors.New("no space left on device")
	}
	return f.Buffer.Write(p)
}

func (f *file) Close() error { f.closed = true; return nil }

// record has a node and a run live for a moment, and records it.
func record(w *Writer) {
	cfg := node.Config{
		Settings: node.DefaultSettings(), Name: "n", Roles: node.AllRoles, Worker: "n/1", Exclusive: true,
		Seed: 7,
	}
	now := node.Clock{Steady: 1_800_000_000_000_000, Wall: 1_800_000_000_000_000}
	plan := replication.Plan{
		Options: replication.Options{
			Filter: &peer.GetFilter{DesignDoc: "d", Name: "f"}, Workers: 1, BatchSize: 10, Connections: 2,
			Retries:        1,
			UseCheckpoints: true,
		},
		IDs: func(code string) replication.IDs {
			return replication.IDs{Bases: []string{fmt.Sprint("base", len(code)), "old"}}
		}, Seed: 3,
	}
	h := host.New(host.Config{Node: cfg, Observer: w,
		Plan: func(node.StartRun) replication.Plan { return plan }})
	w.NodeBegins(cfg, now.Steady)
	asked := map[reflect.Type]uint64{} // the last request of each kind
	tell := func(ev host.Event) {
		for h.Tell(ev); h.Next() != nil; {
			now.Steady, now.Wall = now.Steady.Add(time.Millisecond), now.Wall.Add(time.Millisecond)
			for _, e := range h.Step(now) {
				if ask, is := e.(node.Ask); is {
					asked[reflect.TypeOf(ask.Request)] = ask.ID
				}
			}
		}
	}
	answer := func(q node.Request, result node.Result) {
		tell(node.Done{ID: asked[reflect.TypeOf(q)], Result: result})
	}
	reply := func(id uint64, r peer.Reply) {
		tell(host.RunEvent{Run: 1, Event: replication.Reply{ID: id, Reply: r}})
	}
	tell(node.Start{})
	answer(node.Join{}, node.Ok{})
	tell(node.Done{ID: 99, Fault: node.StoreDown, Text: "bad \xff text"})
	rec := &jobstore.Record{Source: "http://anna:hunter2@h/db?q=1"}
	work := jobstore.Work{JobID: "j", Record: rec, Replication: &spec.Replication{}}
	answer(node.Accept{}, node.Accepted{Work: []jobstore.Work{work}})
	reply(1, peer.Reply{Result: peer.Filter{Code: "function secret() {}"}})
	answer(node.Claim{}, node.Claimed{})
	reply(2, peer.Reply{Result: peer.Opened{UpdateSeq: `"5-x"`, InstanceStartTime: "0"}})
	reply(3, peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: 500, Reason: "\xffno \xfe"}})
	tell(host.RunEvent{Run: 1, Event: replication.Wake{}})
	tell(node.Drain{})
	answer(node.Requeue{}, node.Ok{})
}

func recorded() *file {
	f := &file{}
	w := NewWriter(f, "test", 0, slog.New(slog.DiscardHandler))
	record(w)
	_ = w.Close()
	return f
}

func TestReplayDecidesTheSame(t *testing.T) {
	f := recorded()
	var steps []Step
	report, err := Replay(bytes.NewReader(f.Bytes()), func(s Step) { steps = append(steps, s) })
	if err != nil || report.Cut || report.Events != len(steps) || report.Events < 16 || report.Runs != 1 ||
		report.Node != "n" || report.Program != "test" {
		t.Errorf("%+v, %v\n%s", report, err, f)
	}
	if !f.closed {
		t.Error("left open")
	}
	for _, secret := range []string{"secret", "hunter2", "anna", "q=1"} {
		if strings.Contains(f.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
	var identified bool
	for _, s := range steps {
		identified = identified ||
			s.Run == 1 && strings.Contains(strings.Join(s.Effects, " "), "identify base20")
	}
	if !identified {
		t.Errorf("the ids that the plan said did not come back: %v", steps)
	}
}

// rewritten is the recorded log as another program might have written it: all its checksums are right.
// change gives the lines that stand for one.
func rewritten(t *testing.T, change func(n int, l line) []line) *file {
	f, sum, n := &file{}, uint32(0), 0
	w := NewWriter(f, "test", 0, slog.New(slog.DiscardHandler))
	for raw := range bytes.Lines(recorded().Bytes()) {
		n++
		l, err := parse(raw, &sum, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range change(n, l) {
			w.write(l)
		}
	}
	return f
}

func TestLogOfOtherDecisions(t *testing.T) {
	for what, change := range map[string]func(*line){
		"an effect":  func(l *line) { l.Step.Effects = append(l.Step.Effects, "ask for the moon") },
		"the digest": func(l *line) { l.Step.Digest++ },
		"an event":   func(l *line) { l.Step.Event.Value = []byte(`{"ID":77}`) },
	} {
		t.Run(what, func(t *testing.T) {
			changed := 0
			f := rewritten(t, func(n int, l line) []line {
				if l.Step != nil && l.Step.Event.Type == "Done" && changed == 0 {
					change(&l)
					changed = n - 1
				}
				return []line{l}
			})
			report, err := Replay(f, nil)
			d, is := errors.AsType[*Difference](err)
			if changed == 0 || !is || d.Number < changed || report.Events != d.Number {
				t.Errorf("%d changed: %+v, %v", changed, report, err)
			}
		})
	}
}

// TestLogOfOtherRouting: what a step brings about is compared with the log too.
func TestLogOfOtherRouting(t *testing.T) {
	type lines = []line
	ended := false
	is := func(l line, event string) bool { return l.Step != nil && l.Step.Event.Type == event }
	for what, c := range map[string]struct {
		change func(int, line) lines
		want   string
	}{
		"left out": {func(_ int, l line) lines {
			if is(l, "Identified") {
				return nil
			}
			return lines{l}
		}, "is identified, and recorded is reply 2"},
		"another": {func(_ int, l line) lines {
			if is(l, "RunIdentifies") {
				l.Step.Event.Value = []byte(`{"Run":1,"ID":"x"}`)
			}
			return lines{l}
		}, "is run 1 identifies as base20, and recorded is run 1 identifies as x"},
		"twice": {func(_ int, l line) lines {
			if is(l, "Reply") && l.Step.IDs == nil {
				return lines{l, l}
			}
			return lines{l}
		}, "is none, and recorded is reply 2"},
		"never": {func(_ int, l line) lines {
			if ended = ended || is(l, "RunEnded"); ended && l.Step != nil {
				return nil
			}
			return lines{l}
		}, "is run 1 end stopped, and recorded is none"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := Replay(rewritten(t, c.change), nil)
			if _, is := errors.AsType[*Difference](err); !is || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, and should be %s", err, c.want)
			}
		})
	}
}

// TestLogWithoutPlan: of a run that never began there is no event.
func TestLogWithoutPlan(t *testing.T) {
	f := rewritten(t, func(_ int, l line) []line {
		if l.Plan != nil {
			return nil
		}
		return []line{l}
	})
	if _, err := Replay(f, nil); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), "there is no run 1") {
		t.Error(err)
	}
}

func TestTamperedLog(t *testing.T) {
	log := recorded().Bytes()
	rapid.Check(t, func(t *rapid.T) {
		bad := bytes.Clone(log)
		i := rapid.IntRange(0, len(bad)-1).Draw(t, "where")
		to := rapid.Byte().Draw(t, "to")
		if bad[i] == to || 'a' <= bad[i]|32 && bad[i]|32 <= 'f' && bad[i]|32 == to|32 {
			return // nothing, or a checksum's digit in capitals
		}
		bad[i] = to
		report, err := Replay(bytes.NewReader(bad), nil)
		if !errors.Is(err, ErrFormat) && !(i == len(bad)-1 && report.Cut) {
			t.Fatalf("byte %d became %q: %+v, %v", i, to, report, err)
		}
	})
	lines := bytes.SplitAfter(log, []byte("\n"))
	if _, err := Replay(bytes.NewReader(bytes.Join(append(lines[:3:3], lines[4:]...), nil)),
		nil); !errors.Is(err, ErrFormat) {
		t.Errorf("a line is missing: %v", err)
	}
}

func TestCutLog(t *testing.T) {
	log := recorded().Bytes()
	whole, err := Replay(bytes.NewReader(log), nil)
	if err != nil {
		t.Fatal(err)
	}
	header := bytes.IndexByte(log, '\n') + 1
	for n := 0; n < len(log); n += 5 {
		report, err := Replay(bytes.NewReader(log[:n]), nil)
		switch {
		case n < header && !errors.Is(err, ErrFormat):
			t.Fatalf("%d bytes: %v", n, err)
		case n >= header && (err != nil || !report.Cut || report.Events > whole.Events):
			t.Fatalf("%d bytes: %+v, %v", n, report, err)
		}
	}
}

func TestOtherFormats(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "no header",
		"hello\n":                           "does not begin with a checksum",
		"00000000 {}\n":                     "was changed",
		sealed(`{"header":{"format":"x"}}`): `the format is "x"`,
		sealed(`{"end":"closed"}`):          "does not begin with a header",
		sealed(`{"header":{"format":"couchrelay-events","version":99,"program":"couchrelay 9"}}`): "version 99, " +
			"written by couchrelay 9; this program reads version 1",
	} {
		if _, err := Replay(strings.NewReader(text), nil); !errors.Is(err, ErrFormat) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// sealed is a line with its checksum.
func sealed(text string) string {
	return fmt.Sprintf("%08x %s\n", crc32.Checksum([]byte(text), castagnoli), text)
}

func TestDiskFull(t *testing.T) {
	for name, make := range map[string]func(*file, *slog.Logger) *Writer{
		"full":  func(f *file, l *slog.Logger) *Writer { f.room = 3000; return NewWriter(f, "test", 0, l) },
		"limit": func(f *file, l *slog.Logger) *Writer { return NewWriter(f, "test", 3000, l) },
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			f := &file{}
			w := make(f, slog.New(slog.NewTextHandler(&log, nil)))
			record(w)
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if strings.Count(log.String(), "recording_stopped") != 1 || !f.closed || f.Len() > 3000 {
				t.Errorf("%d bytes, closed %v, log %s", f.Len(), f.closed, &log)
			}
			if report, err := Replay(f, nil); err != nil || !report.Cut || report.Events == 0 {
				t.Errorf("%+v, %v", report, err)
			}
		})
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	logger := slog.New(slog.DiscardHandler)
	w, err := Create(path, "test", 0, logger)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, "test", 0, logger); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("again: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Create(filepath.Join(path, "below"), "test", 0, logger); err == nil {
		t.Error("made below a file")
	}
}

func TestNilRecordsNothing(t *testing.T) {
	var w *Writer
	record(w)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestPlansComeBack: a run is replayed with all that it was told before it began.
func TestPlansComeBack(t *testing.T) {
	var p replication.Plan
	v, n := reflect.ValueOf(&p).Elem(), 0
	for i := range v.NumField() {
		if v.Field(i).Kind() != reflect.Func {
			fill(v.Field(i), &n)
		}
	}
	p.IDs = func(string) replication.IDs { return replication.IDs{} }
	p.Filter = nil // it has ids of its own
	f := &file{}
	w := NewWriter(f, "test", 0, slog.New(slog.DiscardHandler))
	w.RunBegins(7, p)
	sum := uint32(0)
	l, err := parse(f.Bytes(), &sum, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := &player{plans: map[uint64]*recordedPlan{}}
	r.plan(l.Plan)
	back := r.plans[7].Plan
	back.IDs, p.IDs = nil, nil
	if !reflect.DeepEqual(back, p) {
		t.Errorf("%+v came back as %+v", p, back)
	}
}

// TestEverythingComesBack fills every type that a log may name with values and stores it.
func TestEverythingComesBack(t *testing.T) {
	filled := func(typ reflect.Type) any {
		v, n := reflect.New(typ).Elem(), 0
		fill(v, &n)
		return v.Interface()
	}
	var all []any
	for _, typ := range nodeEvents {
		all = append(all, filled(typ))
	}
	for _, typ := range nodeResults {
		all = append(all, node.Done{ID: 1, Result: filled(typ).(node.Result)})
	}
	for _, typ := range runEvents {
		all = append(all, filled(typ))
	}
	for _, typ := range runResults {
		all = append(all, replication.Reply{ID: 1, Reply: peer.Reply{Result: filled(typ).(peer.Result)}})
	}
	for _, ev := range all {
		var s step
		var back any
		var err error
		s.putEvent(redacted(ev))
		if _, ofNode := ev.(node.Event); ofNode {
			back, err = s.nodeEvent()
		} else {
			back, err = s.runEvent()
		}
		before, _ := digest([]any{redacted(ev)}, nil)
		after, _ := digest([]any{back}, nil)
		if err != nil || before != after {
			t.Errorf("%+v became %+v, %v", ev, back, err)
		}
	}
}

// fill sets everything that can be set to values that differ.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n % 100))
	case reflect.Uint8:
		v.SetUint(1) // what has a few values has this one
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n % 100))
	case reflect.String:
		v.SetString(fmt.Sprint("x", *n))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(fmt.Append(nil, *n)) // where it is JSON it is a number
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Pointer:
		if v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), n)
			}
		}
	}
}

// BenchmarkStep is one batch of 500 changes in and its questions out.
func BenchmarkStep(b *testing.B) {
	changes := peer.Changes{LastSeq: `"500-x"`}
	for i := range 500 {
		changes.Rows = append(changes.Rows,
			peer.Change{Seq: peer.Seq(fmt.Sprintf("%q", fmt.Sprint(i, "-x"))), ID: fmt.Sprint("doc", i),
				Revs: []string{fmt.Sprintf("1-%032x", i)}})
	}
	var diff peer.DiffRevs
	for _, row := range changes.Rows {
		diff.Docs = append(diff.Docs, peer.DocRevs{ID: row.ID, Revs: row.Revs})
	}
	w := NewWriter(discard{}, "bench", 0, slog.New(slog.DiscardHandler))
	b.ReportAllocs()
	for b.Loop() {
		w.RunStepped(1, 1, replication.Reply{ID: 1, Reply: peer.Reply{Result: changes}},
			[]replication.Effect{replication.Call{ID: 2, Op: diff}})
	}
}

type discard struct{ io.Writer }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

// TestAddressesAreRedacted: no address of a job keeps its user, password or query in a log.
func TestAddressesAreRedacted(t *testing.T) {
	const address, left = "http://anna:hunter2@h/db?q=1", "http://h/db"
	record := jobstore.Record{Source: address, Target: address, SourceProxy: address, TargetProxy: address}
	got := redactedWork(jobstore.Work{Record: &record, Replication: &spec.Replication{}}).Record
	for _, shown := range []string{got.Source, got.Target, got.SourceProxy, got.TargetProxy} {
		if shown != left {
			t.Errorf("%s is left", shown)
		}
	}
	if record.Source != address {
		t.Error("the job itself is changed")
	}
}

// TestDigestOfNewFields: a field that came later changes the digest only where it is set.
func TestDigestOfNewFields(t *testing.T) {
	type before struct{ A, C int }
	type after struct {
		A int
		B string `eventlog:"omitzero"`
		C int
	}
	old, _ := digest([]before{{1, 2}}, nil)
	unset, _ := digest([]after{{A: 1, C: 2}}, nil)
	set, _ := digest([]after{{A: 1, B: "b", C: 2}}, nil)
	if unset != old || set == old {
		t.Errorf("%x without the field, %x where it is empty, %x where it is set", old, unset, set)
	}
}
