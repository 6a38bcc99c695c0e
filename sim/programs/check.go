package programs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"couchrelay/core/kv"

	"pgregory.net/rapid"
)

// Store is a store to compare.
type Store struct {
	Name   string
	DB     kv.Database
	Prefix []byte // of keys that are not in use, and that no other client writes
	Exact  bool   // it never fails without a cause, as a cluster may
}

// Check runs random programs on all stores, as many as the flag rapid.checks says, compares each with
// the first, and prints what was run.
func Check(t *testing.T, stores ...Store) {
	report := &Report{Allowed: map[Allowed]int{}}
	rapid.Check(t, func(rt *rapid.T) {
		p := Draw(rt)
		report.Programs++
		report.Steps += len(p)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var first []Line
		for i, s := range stores {
			lines := p.Run(ctx, s.DB, fmt.Appendf(nil, "%s%08d/", s.Prefix, report.Programs))
			if i == 0 {
				first = lines
			} else if difference := report.Compare(p, first, lines, s.Exact); difference != "" {
				rt.Fatalf("%s and %s differ at %s", stores[0].Name, s.Name, difference)
			}
		}
	})
	names := ""
	for _, s := range stores {
		names += " " + s.Name
	}
	fmt.Printf("compared%s: %s\n", names, report)
}
