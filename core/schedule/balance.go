package schedule

import (
	"cmp"
	"slices"

	"couchrelay/core/prng"
)

// Load is a node that takes jobs, as it last told the others.
type Load struct {
	Name    string // no other node has it
	MaxJobs int    // slots, 0 or more
	Running int    // slots in use, 0 or more; above MaxJobs for a while after that was lowered
}

// Free is the number of free slots.
func (l Load) Free() int { return max(0, l.MaxJobs-l.Running) }

// buckets is the number of buckets into which jobs fall, a bit of a uint64 for each. It is jobs.Buckets.
const buckets = 64

// Parts divides the buckets of jobs among the nodes by free slots, so that new jobs go where there is room.
// When all nodes are full it divides them by slots, since a slot becomes free now and then in a full node,
// too. Which buckets a node gets depends on its name (rendezvous hashing): when a node goes, its buckets are
// spread over all others, and most of the others stay. Nodes that are too small for a bucket, or beyond the
// 64th, share one with another node.
func Parts(nodes []Load) []uint64 {
	if len(nodes) == 1 {
		return []uint64{^uint64(0)}
	}
	type bid struct {
		score        uint64
		bucket, node int
	}
	bids := make([]bid, 0, buckets*len(nodes))
	for i, l := range nodes {
		for b := range buckets {
			score := prng.Fork(uint64(b), l.Name)
			bids = append(bids, bid{score.Uint64(), b, i})
		}
	}
	slices.SortFunc(bids, func(a, b bid) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.node, b.node))
	})
	parts, left, taken := make([]uint64, len(nodes)), quotas(nodes), uint64(0)
	for _, b := range bids {
		if bit := uint64(1) << b.bucket; left[b.node] > 0 && taken&bit == 0 {
			parts[b.node] |= bit
			taken |= bit
			left[b.node]--
		}
	}
	for _, b := range bids {
		if parts[b.node] == 0 {
			parts[b.node] = 1 << b.bucket
		}
	}
	return parts
}

// Division remembers how buckets were divided last, since a node asks for that many times as often as the
// answer changes. The zero value remembers nothing.
type Division struct {
	names  []string
	quotas []int
	parts  []uint64
}

// Parts is Parts of these nodes. What it returns must not be changed.
func (d *Division) Parts(nodes []Load) []uint64 {
	names, q := make([]string, len(nodes)), quotas(nodes)
	for i, l := range nodes {
		names[i] = l.Name
	}
	if !slices.Equal(names, d.names) || !slices.Equal(q, d.quotas) {
		d.names, d.quotas, d.parts = names, q, Parts(nodes)
	}
	return d.parts
}

// quotas is how many buckets each node gets, all of them together.
func quotas(nodes []Load) []int {
	weights, total := make([]int64, len(nodes)), int64(0)
	for i, l := range nodes {
		weights[i] = int64(l.Free())
		total += weights[i]
	}
	if total == 0 {
		for i, l := range nodes {
			weights[i] = int64(l.MaxJobs) + 1
			total += weights[i]
		}
	}
	list, sum, given := make([]int, len(nodes)), int64(0), 0
	for i, w := range weights {
		sum += w
		upTo := int(mulDiv(buckets, sum, total))
		list[i], given = upTo-given, upTo
	}
	return list
}

// slackOf is by how many jobs a node may be off its target: a fifth, and two in any case, since ids fall into
// parts of the jobs by chance.
func slackOf(target int) int { return max(2, target/5) }

// Targets is how many jobs each node would run if those of all were spread by the nodes' slots. They add up
// to all jobs, but for less than one for each node.
func Targets(nodes []Load) []int {
	slots, running := int64(0), int64(0)
	for _, l := range nodes {
		slots, running = slots+int64(l.MaxJobs), running+int64(l.Running)
	}
	targets := make([]int, len(nodes))
	for i, l := range nodes {
		if slots > 0 {
			targets[i] = int(mulDiv(running, int64(l.MaxJobs), slots))
		}
	}
	return targets
}

// Surplus is how many jobs the node with number me should give to others. It is 0 while every node is within
// its slack: jobs move only once the imbalance is worth it. Then they move until the node has reached its
// target, but no more of them than other nodes lack, so that no node gives what it would get back.
func Surplus(nodes []Load, me int) int {
	targets := Targets(nodes)
	uneven, lack := false, 0
	for i, l := range nodes {
		off := l.Running - targets[i]
		uneven = uneven || max(off, -off) > slackOf(targets[i])
		lack += max(0, -off)
	}
	if !uneven {
		return 0
	}
	return max(0, min(nodes[me].Running-targets[me], lack))
}
