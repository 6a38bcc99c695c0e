package sweep

import (
	"fmt"
	"slices"
)

// Again plans the experiment of results once more, with this program. It is an error if a trace is not the one
// that was played.
func (r *Results) Again() (*Plan, error) {
	h := &r.Header
	e, err := Parse(h.File, h.Experiment)
	if err != nil {
		return nil, err
	}
	var points []Point
	for _, text := range h.Variants {
		p := Point{} // what is in the file
		if text != "" {
			if p, err = ParsePoint(text); err != nil {
				return nil, err
			}
		}
		points = append(points, p)
	}
	if err := e.Vary(points); err != nil {
		return nil, err
	}
	p, err := e.Plan(h.Command, max(e.Count(), DefaultLimit))
	if err != nil {
		return nil, err
	}
	if !slices.Equal(p.Header.Inputs, h.Inputs) {
		return nil, fmt.Errorf("other traces were played: they were %v, and are %v", h.Inputs, p.Header.Inputs)
	}
	return p, nil
}

// Differences lists in words which values are not those of other results.
func (r *Results) Differences(was *Results) []string {
	var list []string
	if len(r.Runs) != len(was.Runs) {
		return []string{fmt.Sprintf("there are %d runs, and were %d", len(r.Runs), len(was.Runs))}
	}
	names := r.names()
	for _, name := range was.names() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i, is := range r.Runs {
		was := was.Runs[i]
		for _, name := range names {
			v, has := is.Metrics[name]
			old, had := was.Metrics[name]
			if a, b := cell(v, has), cell(old, had); a != b || has != had {
				list = append(list, fmt.Sprintf("point %d, seed %d: %s is %s, and was %s", is.Point, is.Seed,
					name, word(a), word(b)))
			}
		}
	}
	if len(list) > 0 {
		return list // summaries follow from runs
	}
	for i, is := range r.Summaries[:min(len(r.Summaries), len(was.Summaries))] {
		for _, name := range names {
			a, b := is.Metrics[name].words(), was.Summaries[i].Metrics[name].words()
			if a != b {
				list = append(list, fmt.Sprintf("point %d: the mean of %s is %s, and was %s", is.Point, name, a, b))
			}
		}
	}
	return list
}

// words are the mean, with its interval.
func (i Interval) words() string {
	return fmt.Sprintf("%s (%s to %s, of %d seeds)", word(cell(i.Mean, true)), word(cell(i.Low, true)),
		word(cell(i.High, true)), i.Seeds)
}

func word(cell string) string {
	if cell == "" {
		return "missing"
	}
	return cell
}
