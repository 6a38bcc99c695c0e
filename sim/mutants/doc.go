// Package mutants plants bugs, to measure the simulator: each is a small change of the core, of the kind that
// people make, which some seed must bring to light. They are kept as patches of the source and compiled into a
// copy of couchsim of their own, so that the core knows nothing of them.
//
// # Add a bug
//
// The patches are in bugs/SUBJECT.diff, where the subject is the part of the product that the bug breaks. Each
// file begins with a comment (#) that says what its subject covers. A bug is its name, what is wrong in words,
// the file and one hunk:
//
//	lease-from-answer: a lease counts from the answer to the heartbeat, not from when it was sent
//	--- a/core/node/lease.go
//	@@
//	 	n.granted = q.Info.ActivityTimeout
//	-	n.ends = c.sent.Add(n.granted)
//	+	n.ends = n.clock.Steady.Add(n.granted)
//
// The sentence may take several lines. The hunk has no line numbers: its old lines, those with a blank or - before
// them, must be in the file exactly once, so give it as much context as that needs, and no more. An empty line
// ends it, unless lines of a hunk follow. The file must still compile with the new lines.
//
// Then go test ./sim/mutants tells whether the bug can be planted, and couchsim mutants NAME --table
// sim/mutants/caught.txt how many seeds find it, and writes that into the table. When none does, a fault, an
// invariant or a world is missing.
//
// When a line of the core changes that a bug quotes, change the bug so that it remains the same bug.
package mutants
