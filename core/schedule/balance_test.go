package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// fleet are nodes with these loads, and names of their own.
func fleet(loads ...Load) []Load {
	for i := range loads {
		loads[i].Name = fmt.Sprint("relay", i)
	}
	return loads
}

// TestPartsBySlots: how many buckets each node gets.
func TestPartsBySlots(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []Load
		want  []int
	}{
		{"one node", fleet(Load{MaxJobs: 0}), []int{64}},
		{"equal nodes", fleet(Load{MaxJobs: 500}, Load{MaxJobs: 500}), []int{32, 32}},
		{"a node that came back", fleet(Load{"", 500, 150}, Load{"", 500, 150}, Load{MaxJobs: 500}), []int{18, 19, 27}},
		{"a full node shares a bucket", fleet(Load{"", 10, 10}, Load{"", 10, 5}), []int{1, 64}},
		{"only full nodes", fleet(Load{"", 10, 10}, Load{"", 30, 35}), []int{16, 48}},
		{"no slots at all", fleet(Load{}, Load{}), []int{32, 32}},
	} {
		for i, p := range Parts(c.nodes) {
			if got := bits.OnesCount64(p); got != c.want[i] {
				t.Errorf("%s: node %d has %d buckets, not %d", c.name, i, got, c.want[i])
			}
		}
	}
}

var loads = rapid.Custom(func(t *rapid.T) []Load {
	return fleet(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Load {
		return Load{"", rapid.IntRange(0, 600).Draw(t, "slots"), rapid.IntRange(0, 600).Draw(t, "running")}
	}), 1, 80).Draw(t, "nodes")...)
})

// TestPartsCoverAll: every bucket is a node's, and every node has one.
func TestPartsCoverAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := uint64(0)
		for _, p := range Parts(loads.Draw(t, "nodes")) {
			if all |= p; p == 0 {
				t.Fatal("a node has no part")
			}
		}
		if all != ^uint64(0) {
			t.Fatalf("%x", ^all)
		}
	})
}

// TestPartsOfGoneNode: when a node goes, no other one gets more than three quarters of its buckets.
func TestPartsOfGoneNode(t *testing.T) {
	for n := 3; n < 10; n++ {
		nodes := fleet(make([]Load, n)...)
		for i := range nodes {
			nodes[i].MaxJobs = 500
		}
		before := Parts(nodes)
		for i, p := range Parts(nodes[:n-1]) {
			if got := bits.OnesCount64(p & before[n-1]); got > 64/n*3/4 {
				t.Errorf("of %d nodes one goes, and node %d gets %d of its buckets", n, i, got)
			}
		}
	}
}

// TestSurplus: what a node gives away.
func TestSurplus(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []Load
		want  []int
	}{
		{"one node", []Load{{"", 500, 300}}, []int{0}},
		{"as it should be", []Load{{"", 500, 100}, {"", 500, 100}, {"", 500, 100}}, []int{0, 0, 0}},
		{"within the slack", []Load{{"", 500, 120}, {"", 500, 100}, {"", 500, 80}}, []int{0, 0, 0}},
		{"at the edge of the slack", []Load{{"", 500, 120}, {"", 500, 80}}, []int{0, 0}},
		{"beyond the slack", []Load{{"", 500, 121}, {"", 500, 79}}, []int{21, 0}},
		{"a node came back", []Load{{"", 500, 150}, {"", 500, 150}, {"", 500, 0}}, []int{50, 50, 0}},
		{"one has all", []Load{{"", 500, 300}, {"", 500, 0}, {"", 500, 0}}, []int{200, 0, 0}},
		{"by slots", []Load{{"", 100, 90}, {"", 900, 10}}, []int{80, 0}},
		{"few jobs", []Load{{"", 500, 3}, {"", 500, 0}}, []int{0, 0}},
		{"four of five", []Load{{"", 500, 4}, {"", 500, 0}}, []int{0, 0}},
		{"one node has too few", []Load{{"", 500, 110}, {"", 500, 110}, {"", 500, 50}}, []int{20, 20, 0}},
		{"a node came to many", append(slices.Repeat([]Load{{"", 500, 100}}, 6), Load{"", 500, 0}),
			[]int{15, 15, 15, 15, 15, 15, 0}}, // none of which is off by a fifth
		{"no slots", []Load{{"", 0, 10}, {"", 0, 0}}, []int{0, 0}},
		{"others are full", []Load{{"", 500, 400}, {"", 10, 10}, {"", 10, 10}}, []int{0, 0, 0}},
	} {
		for i, want := range c.want {
			if got := Surplus(c.nodes, i); got != want {
				t.Errorf("%s: node %d gives %d, not %d", c.name, i, got, want)
			}
		}
	}
}

// TestSurplusSettles: when all nodes give what they have too many, to those that have too few, the imbalance
// shrinks at every step, and it ends within the slack, after which nothing moves.
func TestSurplusSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := loads.Draw(t, "nodes")
		for i := range nodes {
			nodes[i].Running = min(nodes[i].Running, nodes[i].MaxJobs)
		}
		before := imbalance(nodes)
		for range 1000 {
			moves := 0
			given := slices.Clone(nodes)
			for i := range nodes {
				n := min(5, Surplus(nodes, i))
				given[i].Running -= n
				moves += n
			}
			if moves == 0 {
				return
			}
			for range moves { // each job goes to the node that lacks most
				to, targets := 0, Targets(nodes)
				for i := range given {
					if targets[i]-given[i].Running > targets[to]-given[to].Running {
						to = i
					}
				}
				given[to].Running++
			}
			after := imbalance(given)
			if after >= before {
				t.Fatalf("%v becomes %v", nodes, given)
			}
			nodes, before = given, after
		}
		t.Fatalf("jobs move for ever: %v", nodes)
	})
}

// imbalance is by how many jobs the nodes are off their targets.
func imbalance(nodes []Load) (sum int) {
	for i, target := range Targets(nodes) {
		sum += max(nodes[i].Running-target, target-nodes[i].Running)
	}
	return sum
}

// TestDivision: what is remembered is what Parts says, whatever the nodes were before.
func TestDivision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Division
		for range 20 {
			var nodes []Load
			for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
				if i == 0 || rapid.Bool().Draw(t, "there") {
					running := rapid.IntRange(0, 3).Draw(t, "running")
					nodes = append(nodes, Load{Name: fmt.Sprint("n", i), MaxJobs: 3, Running: running})
				}
			}
			if got, want := d.Parts(nodes), Parts(nodes); !slices.Equal(got, want) {
				t.Fatalf("%v: %x, and should be %x", nodes, got, want)
			}
		}
	})
}
