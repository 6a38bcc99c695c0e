package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	coreconfig "couchrelay/core/config"
	"couchrelay/core/forecast"
)

// lintReport is what lint prints.
type lintReport struct {
	title, from string
	settings    coreconfig.Settings
	queue       forecast.Queue
	forecast    forecast.Forecast
	findings    []forecast.Finding
}

// columns are those of a page.
const columns = 100

// shown is how many accounts are listed.
const shown = 20

func (r *lintReport) write(out io.Writer) error {
	f := r.forecast
	nodes := "1 node"
	if r.queue.Nodes > 1 {
		nodes = fmt.Sprint(r.queue.Nodes, " nodes")
	}
	head := fmt.Sprintf("%s: %s for %s of %s (%s).", r.title, forecast.Things(f.Jobs, "job"),
		forecast.Things(f.Slots, "slot"), nodes, r.from)
	if _, err := fmt.Fprintf(out, "%s\n\n", wrapped(head, "", "  ")); err != nil {
		return err
	}
	if f.Waiting > 0 {
		r.accounts(out)
	}
	for _, f := range r.findings {
		severity := "info"
		if f.Warning {
			severity = "WARNING"
		}
		fmt.Fprintf(out, "%s %s: %s = %s\n%s\n", severity, f.Name, f.Key, f.Value, wrapped(f.Says, "  ", "  "))
		for _, b := range f.Better {
			fmt.Fprintln(out, wrapped(fmt.Sprintf("%s = %s: %s", b.Key, b.Value, b.Then), "  better: ", "    "))
		}
		fmt.Fprintln(out)
	}
	return nil
}

// accounts lists what accounts have to expect, those first that are furthest from what they are entitled to.
func (r *lintReport) accounts(out io.Writer) {
	list := slices.Clone(r.forecast.Accounts)
	slices.SortStableFunc(list, func(a, b forecast.Outlook) int {
		return cmp.Compare(max(b.Off(), -b.Off()), max(a.Off(), -a.Off()))
	})
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "shares\tjobs\tentitled\texpected\truns for\twaits for\tup to\tturns a day\t  account")
	for _, o := range list[:min(shown, len(list))] {
		fmt.Fprintf(table, "%d\t%s\t%s %%\t%s %%\t%s\t%s\t%s\t%.2f\t  %s\n", o.Shares, forecast.Count(o.Jobs),
			forecast.Points(o.Entitled), forecast.Points(o.Expected), forecast.Length(o.Run), forecast.Length(o.Wait),
			forecast.Length(o.LongestWait), part(o.Turns()), o.Name)
	}
	table.Flush()
	if more := len(list) - shown; more > 0 {
		fmt.Fprintf(out, "and %s more accounts\n", forecast.Count(int64(more)))
	}
	fmt.Fprintln(out)
}

// wrapped breaks a text into lines of a page, which begin with first and then.
func wrapped(text, first, then string) string {
	var lines []string
	line := first
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) > columns && strings.TrimSpace(line) != "" {
			lines, line = append(lines, strings.TrimRight(line, " ")), then
		}
		line += word + " "
	}
	return strings.Join(append(lines, strings.TrimRight(line, " ")), "\n")
}

// The forecast as JSON: times in seconds, null for waits that do not end; parts from 0 to 1.
type (
	lintValues struct {
		Configuration string          `json:"configuration"`
		Jobs          string          `json:"jobs_are"`
		Nodes         int             `json:"nodes"`
		Forecast      forecastValues  `json:"forecast"`
		Accounts      []accountValues `json:"accounts"`
		Findings      []findingValues `json:"findings"`
	}
	forecastValues struct {
		Slots       int64    `json:"slots"`
		Jobs        int64    `json:"jobs"`
		Waiting     int64    `json:"waiting"`
		Turn        *float64 `json:"turn_s"`
		Memory      *float64 `json:"priority_memory_s"`
		Ratio       float64  `json:"memory_of_turn"`
		UsageMemory *float64 `json:"usage_memory_s"`
		ShareError  float64  `json:"share_error"`
		Starts      int64    `json:"starts_per_hour"`
		StartupCost float64  `json:"startup_cost"`
	}
	accountValues struct {
		Name        string   `json:"account"`
		Shares      int64    `json:"shares"`
		Jobs        int64    `json:"jobs"`
		Entitled    float64  `json:"entitled"`
		Expected    float64  `json:"expected"`
		Run         *float64 `json:"run_s"`
		Wait        *float64 `json:"wait_s"`
		LongestWait *float64 `json:"longest_wait_s"`
		Freshness   *float64 `json:"freshness_s"`
		Turns       float64  `json:"turns_per_hour"`
	}
	findingValues struct {
		Name     string         `json:"finding"`
		Severity string         `json:"severity"`
		Key      string         `json:"key"`
		Value    string         `json:"value"`
		Says     string         `json:"says"`
		Better   []betterValues `json:"better,omitempty"`
	}
	betterValues struct {
		Key   string `json:"key"`
		Value string `json:"value"`
		Then  string `json:"then"`
	}
)

func seconds(d time.Duration) *float64 {
	if d == forecast.Never {
		return nil
	}
	s := d.Seconds()
	return &s
}

func part(millionths int64) float64 { return float64(millionths) / 1e6 }

func (r *lintReport) values() lintValues {
	f := r.forecast
	v := lintValues{Configuration: r.title, Jobs: r.from, Nodes: r.queue.Nodes, Forecast: forecastValues{
		Slots: f.Slots, Jobs: f.Jobs, Waiting: f.Waiting, Turn: seconds(f.Turn), Memory: seconds(f.Memory),
		Ratio: part(f.Ratio), UsageMemory: seconds(f.UsageMemory), ShareError: part(f.ShareError), Starts: f.Starts,
		StartupCost: part(f.StartupCost),
	}}
	for _, o := range f.Accounts {
		v.Accounts = append(v.Accounts, accountValues{
			Name: o.Name, Shares: o.Shares, Jobs: o.Jobs, Entitled: part(o.Entitled), Expected: part(o.Expected),
			Run: seconds(o.Run), Wait: seconds(o.Wait), LongestWait: seconds(o.LongestWait),
			Freshness: seconds(o.Freshness), Turns: part(o.Turns()) / 24,
		})
	}
	for _, f := range r.findings {
		severity := "info"
		if f.Warning {
			severity = "warning"
		}
		one := findingValues{Name: f.Name, Severity: severity, Key: f.Key, Value: f.Value, Says: f.Says}
		for _, b := range f.Better {
			one.Better = append(one.Better, betterValues(b))
		}
		v.Findings = append(v.Findings, one)
	}
	return v
}
