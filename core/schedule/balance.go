package schedule

// Load is a node that takes jobs, as it last told the others.
type Load struct {
	MaxJobs int // slots, 0 or more
	Running int // slots in use, 0 or more; above MaxJobs for a while after that was lowered
}

// Free is the number of free slots.
func (l Load) Free() int { return max(0, l.MaxJobs-l.Running) }

// Split divides the numbers from 0 to n among the nodes, which are at most n and of which there is at least
// one: node i has those from bounds[i] up to bounds[i+1], and at least one. They are divided by free slots, so
// that new jobs go where there is room. When all nodes are full they are divided by slots, since in a full
// node, too, a slot becomes free now and then.
func Split(nodes []Load, n int) (bounds []int) {
	free, slots := int64(0), int64(0)
	for _, l := range nodes {
		free, slots = free+int64(l.Free()), slots+int64(l.MaxJobs)
	}
	rest, total, sum := int64(n-len(nodes)), max(1, slots), int64(0)
	if free > 0 {
		total = free
	}
	bounds = append(bounds, 0)
	for i, l := range nodes {
		if free > 0 {
			sum += int64(l.Free())
		} else {
			sum += int64(l.MaxJobs)
		}
		bounds = append(bounds, i+1+int(mulDiv(rest, sum, total)))
	}
	bounds[len(nodes)] = n // also when there are no slots at all
	return bounds
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
		lack += max(0, min(-off, l.Free()))
	}
	if !uneven {
		return 0
	}
	return max(0, min(nodes[me].Running-targets[me], lack))
}
