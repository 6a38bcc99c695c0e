package top

import (
	"fmt"
	"strings"

	"couchrelay/adapters/terminal"
)

// jobLines are the page of one job.
func (k *known) jobLines(width int) (lines []terminal.Line) {
	j, e := k.detail.job, k.detail.explain
	if k.detail.gone != "" {
		lines = append(lines, terminal.Text(k.detail.gone, terminal.Yellow), nil)
	}
	if j == nil {
		return append(lines, terminal.Text("...", terminal.Dim))
	}
	if e != nil {
		lines = append(lines, wrapped(terminal.Clean(e.Sentence), width, terminal.Bold)...)
		lines = append(lines, nil)
	}
	for _, f := range append(j.facts(k), e.facts()...) {
		if f[1] != "" {
			label := terminal.Fit(f[0], 12) + " "
			for i, l := range wrapped(f[1], max(width-13, min(width, 10)), terminal.Plain) {
				if i > 0 {
					label = strings.Repeat(" ", 13)
				}
				lines = append(lines, append(terminal.Text(label, terminal.Dim), l...))
			}
		}
	}
	lines = append(lines, nil, terminal.Text("history, the newest first", terminal.Bold))
	for _, event := range j.History {
		line := terminal.Clean(event.Timestamp) + "  " + terminal.Clean(event.Type)
		if event.By != "" {
			line += " by " + terminal.Clean(event.By)
		}
		if event.Reason != "" {
			line += ": " + terminal.Clean(event.Reason)
		}
		lines = append(lines, wrapped(line, width, terminal.Plain)...)
	}
	return lines
}

// facts returns the known properties of a job, as names and values.
func (j *Job) facts(k *known) [][2]string {
	list := [][2]string{
		{"state", terminal.Clean(j.State)}, {"document", text(j.DocID)}, {"database", text(j.Database)},
		{"id", text(j.ID)}, {"job", terminal.Clean(j.Job)}, {"source", text(j.Source)}, {"target", text(j.Target)},
		{"user", text(j.User)}, {"node", text(j.Node)}, {"started", terminal.Clean(j.Started)},
		{"problem", j.problem()},
	}
	if i := j.Info; i != nil && i.Error == "" {
		numbers := fmt.Sprintf("%s read, %s written, %s refused", number(i.DocsRead), number(i.DocsWritten),
			number(i.Failures))
		if r, known := k.jobRate(j); known {
			numbers += ", " + rate(r) + "/s"
		}
		list = append(list, [2]string{"documents", numbers})
		if n, known := j.pending(); known {
			list = append(list, [2]string{"pending", number(n) + " changes"})
		}
	}
	return list
}

// facts are those of an explanation, which may be nil.
func (e *explained) facts() (list [][2]string) {
	if e == nil {
		return nil
	}
	if a := e.Account; a != nil {
		account := fmt.Sprintf("%s: %s jobs, %s shares (%s)", terminal.Clean(a.Name), number(a.Jobs), number(a.Shares),
			terminal.Clean(a.Policy))
		if a.Usage != nil {
			account += fmt.Sprintf(", %s s recent use of slots", rate(*a.Usage))
		}
		list = append(list, [2]string{"account", account})
	}
	list = append(list, [2]string{"weight", number(e.Weight)}, [2]string{"due", text(e.Due)})
	if e.Position != nil {
		place := number(*e.Position)
		if e.Bounded {
			place += " or later"
		}
		list = append(list, [2]string{"position", place + " among the ready jobs"})
	}
	if e.Wait != nil {
		list = append(list, [2]string{"waits", "about " + rate(*e.Wait) + " s more"})
	}
	if x := e.Error; x != nil {
		list = append(list, [2]string{"error", terminal.Clean(x.Error + " (" + x.Class + ")")},
			[2]string{"what to do", terminal.Clean(x.Advice)})
	}
	return list
}

// wrapped breaks a text into lines that are no wider than width, if that is bounded.
func wrapped(text string, width int, style terminal.Style) (lines []terminal.Line) {
	if width <= 0 {
		return []terminal.Line{terminal.Text(text, style)}
	}
	for _, line := range terminal.Wrap(text, width) {
		lines = append(lines, terminal.Text(line, style))
	}
	return lines
}
