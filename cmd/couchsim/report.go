package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"couchrelay/sim/campaign"
	"couchrelay/sim/world"
)

// printReport prints one table: the speed, and the faults by family.
func printReport(out io.Writer, w worlds, r *campaign.Report) {
	seconds := r.Took.Seconds()
	fmt.Fprintf(out, "%s, %d seeds from %d on %d cores: %d violations\n", w.name, r.Seeds, r.First, r.Workers,
		len(r.Failures))
	fmt.Fprintf(out, "%s, %.1f seeds/s, %s events/s; %.0f hours of virtual time, %s times as fast as the clock\n",
		r.Took.Round(time.Millisecond), float64(r.Seeds)/seconds, thousands(uint64(float64(r.Events)/seconds)),
		r.Virtual.Hours(), thousands(uint64(r.Virtual.Seconds()/seconds)))
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "faults\tof\tenabled\treached\tfired\tnever fired\t")
	for _, family := range families(r) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\t%d\t\n", family.name, len(family.members), family.enabled,
			thousands(family.reached), thousands(family.fired), family.never)
	}
	table.Flush()
	if never := r.Protocol.Never(); len(never) > 0 {
		fmt.Fprintf(out, "\nprotocol: transitions never taken: %s\n", strings.Join(never, "; "))
	}
	if never := r.Jobs.Never(); len(never) > 0 {
		fmt.Fprintf(out, "\njobs: transitions never taken: %s\n", strings.Join(never, "; "))
	}
}

// familyTotal adds up the faults of a family.
type familyTotal struct {
	name           string
	members        []world.CatalogueEntry
	enabled        int // members that were enabled in some seed
	reached, fired uint64
	never          int
}

func families(r *campaign.Report) (all []familyTotal) {
	for _, t := range world.Catalogue {
		if len(all) == 0 || all[len(all)-1].name != t.Family {
			all = append(all, familyTotal{name: t.Family})
		}
		f := &all[len(all)-1]
		f.members = append(f.members, t)
		n := r.Faults[t.Name]
		if n == nil {
			n = &campaign.Count{}
		}
		if n.Enabled > 0 {
			f.enabled++
		}
		f.reached += n.Reached
		f.fired += n.Fired
		if n.Fired == 0 {
			f.never++
		}
	}
	return all
}

// thousands groups digits.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// commit names the revision that was built, when it is known.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return ", commit " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return ""
}

type versionCommand struct{}

// Run prints the version that the build gave the program, with the commit if it knows one.
func (versionCommand) Run() error {
	version := "of an unknown version"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	_, err := fmt.Println("couchsim", version+commit())
	return err
}
