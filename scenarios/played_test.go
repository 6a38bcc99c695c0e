package scenarios

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"couchrelay/sim/campaign"
	"couchrelay/sim/world"
)

var update = flag.Bool("update", false, "write the hashes of the seeds as they are played now")

// TestPlayed plays the first fifty seeds and compares their hashes with those in the file. A hash covers each
// request, commit and event, so it tells of every change in what nodes decide, also where no invariant looks. A
// change that only moves code leaves all hashes; any other one brings a new file, which `make played` writes.
func TestPlayed(t *testing.T) {
	const file, seeds = "testdata/played.txt", 50
	plan := campaign.Campaign{Seeds: seeds, Stop: 1, World: campaign.Drawn(world.Small)}
	report := plan.Run(context.Background())
	for _, f := range report.Failures {
		t.Fatalf("seed %d: %s\ngo run ./cmd/couchsim replay --seed %d", f.Seed, f.Violation, f.Seed)
	}
	var now strings.Builder
	for seed := range uint64(seeds) {
		fmt.Fprintf(&now, "%d %016x\n", seed, report.Hashes[seed])
	}
	if *update {
		if err := os.WriteFile(file, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var differ []string
	for line := range strings.Lines(now.String()) {
		if !strings.Contains("\n"+string(text), "\n"+line) {
			seed, _, _ := strings.Cut(line, " ")
			differ = append(differ, seed)
		}
	}
	if len(differ) > 0 {
		t.Errorf("%d of %d seeds are played otherwise than %s says: %s\n"+
			"If the change was meant to alter what nodes, the simulator or its worlds do: make played\n"+
			"If not, the first event that differs from a commit before: make part OLD=HEAD SEED=%s",
			len(differ), seeds, file, strings.Join(differ, " "), differ[0])
	}
}
