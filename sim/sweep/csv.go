package sweep

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteCSV writes a row for each run: the point, the seed, the values of the axes, the metrics. Lines that begin
// with "#" say where they come from, and what the columns are.
func (r *Results) WriteCSV(out io.Writer) error {
	names := r.names()
	var text strings.Builder
	r.comment(&text, names)
	rows := csv.NewWriter(&text)
	_ = rows.Write(append(append([]string{"point", "seed"}, r.Header.Axes...), names...)) // see Error below
	for _, run := range r.Runs {
		row := []string{strconv.Itoa(run.Point), strconv.FormatUint(run.Seed, 10)}
		for _, axis := range r.Header.Axes {
			row = append(row, run.Settings[axis])
		}
		for _, name := range names {
			v, has := run.Metrics[name]
			row = append(row, cell(v, has))
		}
		_ = rows.Write(row)
	}
	return flush(out, &text, rows)
}

// WriteSummaryCSV writes a row for each point and metric: its mean over the seeds with its interval.
func (r *Results) WriteSummaryCSV(out io.Writer) error {
	names := r.names()
	var text strings.Builder
	r.comment(&text, names)
	fmt.Fprintf(&text, "# mean, low, high: over the seeds, and the ends of the interval of %g %% by Student's t\n",
		100*confidence)
	rows := csv.NewWriter(&text)
	_ = rows.Write(append(append([]string{"point"}, r.Header.Axes...), "metric", "unit", "mean", "low", "high",
		"seeds"))
	for _, s := range r.Summaries {
		for _, name := range names {
			row := []string{strconv.Itoa(s.Point)}
			for _, axis := range r.Header.Axes {
				row = append(row, s.Settings[axis])
			}
			i := s.Metrics[name]
			_ = rows.Write(append(row, name, r.Header.metric(name).Unit, cell(i.Mean, true), cell(i.Low, true),
				cell(i.High, true),
				strconv.Itoa(i.Seeds)))
		}
	}
	return flush(out, &text, rows)
}

func flush(out io.Writer, text *strings.Builder, rows *csv.Writer) error {
	rows.Flush()
	if err := rows.Error(); err != nil {
		return err
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// cell is empty where there is no value.
func cell(v Number, has bool) string {
	if !has || math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 64)
}

// comment writes where the results come from, and what the columns are.
func (r *Results) comment(text *strings.Builder, names []string) {
	h := &r.Header
	fmt.Fprintf(text, "# %s\n# %s\n# format %d, hash %s\n# seeds %d to %d\n", h.Command, h.Build, h.Format,
		h.Hash, h.First, h.Last)
	for _, i := range h.Inputs {
		fmt.Fprintf(text, "# %s has SHA-256 %s\n", i.File, i.SHA256)
	}
	for _, v := range h.Variants {
		fmt.Fprintf(text, "# variant %s\n", v)
	}
	fmt.Fprintf(text, "# the experiment, %s:\n", h.File)
	for line := range strings.Lines(h.Experiment) {
		fmt.Fprintln(text, strings.TrimRight("#   "+line, "\r\n"))
	}
	fmt.Fprintln(text, "# the metrics:")
	for _, name := range names {
		m := h.metric(name)
		unit := ""
		if m.Unit != "" {
			unit = ", " + m.Unit
		}
		fmt.Fprintf(text, "#   %s%s: %s\n", name, unit, m.Formula)
	}
}

// Unit is that of a metric, or of METRIC/ACCOUNT; empty if it has none.
func (h *Header) Unit(name string) string { return h.metric(name).Unit }

// metric describes a metric, or that of an account.
func (h *Header) metric(name string) Metric {
	name, _, _ = strings.Cut(name, "/")
	for _, m := range h.Metrics {
		if m.Name == name {
			return m
		}
	}
	return Metric{Name: name}
}
