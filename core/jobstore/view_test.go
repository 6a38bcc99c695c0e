package jobstore

import (
	"reflect"
	"testing"

	"couchrelay/core/instant"
)

// TestView: users are told all that the record has for them. In the view of a running job each field but the problem is
// set, and has the record's value.
func TestView(t *testing.T) {
	pending := int64(3)
	rec := Record{
		Database: "db", DocID: "doc", User: "user",
		Source: "s", Target: "t", SourceProxy: "sp", TargetProxy: "tp", Continuous: true, CheckpointInterval: 1,
		Unknown: []string{"field"}, State: Running, RepID: "id", Node: "n", ErrorCount: 2,
		Stats: Stats{DocsRead: 7, ChangesPending: &pending}, Refused: &RefusedDocs{Listed: 2, Beyond: 3},
		Created: 1, LastStart: 2, LastUpdated: 3, History: []Event{{Type: "started", At: 2}},
		Control: Control{Pause: &Pause{By: "op"}, PausedByDocument: true, Weight: 5, Awaited: true, Reset: 4,
			Parking: Parking{HeldBy: "hold", WaitsFor: "other"}},
	}
	v := rec.View()
	shown, recorded := reflect.ValueOf(v), reflect.ValueOf(rec)
	for _, field := range reflect.VisibleFields(shown.Type()) {
		got := shown.FieldByIndex(field.Index)
		switch field.Name {
		case "Problem", "Paused":
			if !got.IsZero() {
				t.Errorf("%s of a running job is %v", field.Name, got)
			}
			continue
		case "ActiveID", "Run", "Refused", "Stats":
		default:
			if want := recorded.FieldByName(field.Name); !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("%s is %v, want %v", field.Name, got, want)
			}
		}
		if got.IsZero() {
			t.Errorf("%s is not told", field.Name)
		}
	}
	run := "n@" + instant.Time(2).ISO8601()
	if v.ActiveID != "id" || v.Run != run || v.Refused != 5 || !reflect.DeepEqual(*v.Stats, rec.Stats) {
		t.Errorf("%+v", v)
	}
}

// TestViewOfStates: what a state has users be told.
func TestViewOfStates(t *testing.T) {
	type told struct {
		state         State
		activeID, run string
		errors        int
		problem       string
		stats         bool
		reset         instant.Time
	}
	for _, c := range []struct {
		name   string
		change func(*Record)
		told
	}{
		{"pending, never started", func(r *Record) { r.LastStart, r.Stats = 0, Stats{} },
			told{state: Pending, activeID: "id", errors: 2, reset: 4}},
		{"pending, with numbers of another job", func(r *Record) { r.LastStart = 0 },
			told{state: Pending, activeID: "id", errors: 2, stats: true, reset: 4}},
		{"pending, started before", func(r *Record) { r.Stats = Stats{} },
			told{state: Pending, activeID: "id", errors: 2, stats: true, reset: 4}},
		{"crashing", func(r *Record) { r.State = Crashing },
			told{state: Crashing, activeID: "id", errors: 2, problem: "timeout: too slow", reset: 4}},
		{"failed", func(r *Record) { r.State = Failed }, told{state: Failed, errors: 1, problem: "timeout: too slow"}},
		{"completed", func(r *Record) { r.State = Completed }, told{state: Completed, errors: 2, stats: true}},
		{"paused while crashing", func(r *Record) { r.State, r.Paused = Crashing, true },
			told{state: Paused, activeID: "id", errors: 2, problem: "timeout: too slow", reset: 4}},
	} {
		rec := Record{State: Pending, RepID: "id", Node: "n", ErrorCount: 2, Error: "timeout", Reason: "too slow",
			LastStart: 2, Stats: Stats{DocsRead: 7}, Control: Control{Reset: 4}}
		c.change(&rec)
		v := rec.View()
		got := told{state: v.State, activeID: v.ActiveID, run: v.Run, errors: v.ErrorCount, problem: v.Problem,
			stats: v.Stats != nil, reset: v.Reset}
		if got != c.told {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.told)
		}
	}
}
