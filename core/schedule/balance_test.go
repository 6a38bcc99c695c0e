package schedule

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSplit: the parts go by free slots, or by all slots when none is free, and none is empty.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []Load
		want  []int
	}{
		{"one node", []Load{{0, 0}}, []int{0, 1000}},
		{"equal nodes", []Load{{500, 0}, {500, 0}}, []int{0, 500, 1000}},
		{"a node that came back", []Load{{500, 150}, {500, 150}, {500, 0}}, []int{0, 291, 583, 1000}},
		{"a full node", []Load{{10, 10}, {10, 5}}, []int{0, 1, 1000}},
		{"only full nodes", []Load{{10, 10}, {30, 35}}, []int{0, 250, 1000}},
		{"no slots at all", []Load{{0, 0}, {0, 0}}, []int{0, 1, 1000}},
	} {
		if got := Split(c.nodes, 1000); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

var loads = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Load {
	return Load{rapid.IntRange(0, 600).Draw(t, "slots"), rapid.IntRange(0, 600).Draw(t, "running")}
}), 1, 20)

// TestSplitLeavesNoGap: every bucket is one node's, and every node has one.
func TestSplitLeavesNoGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := loads.Draw(t, "nodes")
		bounds := Split(nodes, 1<<16)
		for i := range nodes {
			if bounds[i] >= bounds[i+1] {
				t.Fatal(bounds)
			}
		}
		if bounds[0] != 0 || bounds[len(nodes)] != 1<<16 {
			t.Fatal(bounds)
		}
	})
}

// TestSurplus: what a node gives away.
func TestSurplus(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []Load
		want  []int
	}{
		{"one node", []Load{{500, 300}}, []int{0}},
		{"as it should be", []Load{{500, 100}, {500, 100}, {500, 100}}, []int{0, 0, 0}},
		{"within the slack", []Load{{500, 120}, {500, 100}, {500, 80}}, []int{0, 0, 0}},
		{"a node came back", []Load{{500, 150}, {500, 150}, {500, 0}}, []int{50, 50, 0}},
		{"one has all", []Load{{500, 300}, {500, 0}, {500, 0}}, []int{200, 0, 0}},
		{"by slots", []Load{{100, 90}, {900, 10}}, []int{80, 0}},
		{"few jobs", []Load{{500, 3}, {500, 0}}, []int{0, 0}},
		{"four of five", []Load{{500, 4}, {500, 0}}, []int{0, 0}},
		{"one node has too few", []Load{{500, 110}, {500, 110}, {500, 50}}, []int{20, 20, 0}},
		{"no slots", []Load{{0, 10}, {0, 0}}, []int{0, 0}},
		{"others are full", []Load{{500, 400}, {10, 10}, {10, 10}}, []int{0, 0, 0}},
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
