package sweep

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
)

// Results are what an experiment measured. As a file they are JSON lines: the header, a line for each point and
// seed, in that order, and a summary of each point.
type Results struct {
	Header    Header
	Runs      []Run
	Summaries []Summary
}

// Run is what one run measured.
type Run struct {
	Point    int               `json:"point"` // from 1
	Seed     uint64            `json:"seed"`
	Settings map[string]string `json:"settings"` // of the point: what differs between points
	Metrics  Values            `json:"metrics"`
}

// Summary is what the runs of a point measured together.
type Summary struct {
	Point    int                 `json:"point"`
	Settings map[string]string   `json:"settings"`
	Metrics  map[string]Interval `json:"metrics"`
}

// Values are measured, by the name of the metric; METRIC/ACCOUNT for one of an account.
type Values map[string]Number

// Number is NaN where nothing could be measured, which is null in JSON.
type Number float64

// MarshalJSON is that of encoding/json, but for numbers that JSON does not have.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// line is one of the file: one field is set. Program stands beside the header in files that are not complete.
type line struct {
	Program string   `json:"program,omitempty"`
	Header  *Header  `json:"header,omitempty"`
	Run     *Run     `json:"run,omitempty"`
	Summary *Summary `json:"summary,omitempty"`
}

// encode returns a line with its end.
func encode(l line) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(l)
	return b.Bytes(), err
}

// Write writes the results as a file.
func (r *Results) Write(out io.Writer) error {
	lines := []line{{Header: &r.Header}}
	for i := range r.Runs {
		lines = append(lines, line{Run: &r.Runs[i]})
	}
	for i := range r.Summaries {
		lines = append(lines, line{Summary: &r.Summaries[i]})
	}
	for _, l := range lines {
		b, err := encode(l)
		if err != nil {
			return err
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// Open reads a file of results.
func Open(path string) (*Results, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// maxLine bounds the lines of a file, of which the header has the text of the experiment.
const maxLine = 64 << 20

var errNoResults = errors.New("is no file of results: its first line must be a header such as couchsim sweep writes")

// Read reads what Write writes.
func Read(in io.Reader) (*Results, error) {
	var r Results
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil && n > 1 {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case n == 1 && (l.Header == nil || l.Header.Format == 0):
			return nil, errNoResults
		case n == 1 && l.Program != "":
			return nil, errors.New("is not complete: the sweep that writes it has not ended; start it again")
		case n == 1 && l.Header.Format != Format:
			return nil, fmt.Errorf("has format %d, and this couchsim reads %d only", l.Header.Format, Format)
		case n == 1:
			r.Header = *l.Header
		case l.Run != nil:
			r.Runs = append(r.Runs, *l.Run)
		case l.Summary != nil:
			r.Summaries = append(r.Summaries, *l.Summary)
		default:
			return nil, fmt.Errorf("line %d: must be a run or a summary", n)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if r.Header.Format == 0 {
		return nil, errNoResults
	}
	if want := r.Header.Points * r.Header.Seeds(); len(r.Runs) != want || len(r.Summaries) != r.Header.Points {
		return nil, fmt.Errorf("is cut: has %d of %d runs and %d of %d summaries", len(r.Runs), want,
			len(r.Summaries), r.Header.Points)
	}
	if err := r.inOrder(); err != nil {
		return nil, err
	}
	return &r, nil
}

// inOrder returns an error unless each point and seed is where it belongs, since results are found by their places.
func (r *Results) inOrder() error {
	seeds := r.Header.Seeds()
	for i, run := range r.Runs {
		if point, seed := i/seeds+1, r.Header.First+uint64(i%seeds); run.Point != point || run.Seed != seed {
			return fmt.Errorf("is damaged: run %d is of point %d and seed %d, and must be of point %d and seed %d", i+1,
				run.Point, run.Seed, point, seed)
		}
	}
	for i, s := range r.Summaries {
		if s.Point != i+1 {
			return fmt.Errorf("is damaged: summary %d is of point %d", i+1, s.Point)
		}
	}
	return nil
}

// finish sorts the runs and computes the summaries.
func (r *Results) finish() {
	slices.SortFunc(r.Runs, func(a, b Run) int {
		return cmp.Or(cmp.Compare(a.Point, b.Point),
			cmp.Compare(a.Seed, b.Seed))
	})
	names := r.names()
	r.Summaries = nil
	for runs := range slices.Chunk(r.Runs, r.Header.Seeds()) {
		s := Summary{Point: runs[0].Point, Settings: runs[0].Settings, Metrics: map[string]Interval{}}
		for _, name := range names {
			s.Metrics[name] = interval(column(runs, name))
		}
		r.Summaries = append(r.Summaries, s)
	}
}

// column has the values of a metric, NaN where a run has none.
func column(runs []Run, name string) []float64 {
	values := make([]float64, len(runs))
	for i, run := range runs {
		values[i] = math.NaN()
		if v, has := run.Metrics[name]; has {
			values[i] = float64(v)
		}
	}
	return values
}

// names are the metrics that runs have, those of the header first and in its order.
func (r *Results) names() []string {
	have := map[string]bool{}
	for _, run := range r.Runs {
		for name := range run.Metrics {
			have[name] = true
		}
	}
	var names []string
	for _, m := range r.Header.Metrics {
		if have[m.Name] {
			names = append(names, m.Name)
			delete(have, m.Name)
		}
	}
	return append(names, slices.Sorted(maps.Keys(have))...)
}
