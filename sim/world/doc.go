// Package world is everything that acts in one run of the simulator: nodes that drive the core's machines as
// production does, the store and the servers around them, users and an operator, and the nemesis, which does
// faults that come by themselves. A Config and a decider (package decide) determine a run completely.
//
// # What it tells, and to whom
//
// The world judges nothing and imports nothing of the oracle. It emits a Fact at the moment at which
// something happens; observers (Observe) are told of facts in the order of what happens. They read the world
// through its View and the exported methods of what facts name, and change nothing: a run has the same hash
// with observers and without.
//
// # Where things are
//
//   - world.go builds a world, starts it, and heals it; run.go and node.go drive the machines of runs and nodes;
//     disturbances.go has what goes wrong with the clocks of a node and with its way to the store
//   - store.go and network.go decide the faults of single operations and requests; ask.go connects commits with the
//     requests that they carry out
//   - users.go, requests.go, sources.go and operator.go have what people do, actions.go the table of it
//   - nemesis.go does faults, faults.go has the table of them; catalogue.go joins the tables for readers
//   - config.go, event.go and swarm.go describe worlds and draw them
//   - fact.go and view.go are what observers depend on
//   - standin.go lets tests of observers make nodes, runs and commits of a world that does not act by itself
package world
