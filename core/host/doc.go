// Package host is one worker as a stepped machine: a node (package node) with its runs (package replication), and all
// the routing between them. Production and the simulator drive this machine, so that neither has a routing of its own
// that the other does not test.
//
// A host starts the machine of a run when the node asks for a run, hands what a run says to the node and what the node
// says to a run, drops what comes too late, knows which machine is to be woken next, and gives up the calls of a run
// that is gone. It steps one machine at a time: an event that a step brings about waits in a queue, and Step handles
// the first of them, which is Next.
//
// It does not decide when a job runs, that is the node's, or what a run does next, that is the run's. It touches
// neither the store nor an endpoint, has no clock and plans no timer: transactions, watches, operations and timers are
// the driver's.
//
// # Obligations of the driver
//
//  1. The first event is node.Start. Events from outside are node.Done, node.Notified, node.Configure, node.Drain, a
//     RunEvent with a Reply, and what Due returns; each is told with Tell.
//  2. While there is a Next the driver calls Step, and performs the effects of one Step in their order before the next.
//     Clock.Steady never goes back.
//  3. Every node.Ask is answered by one node.Done with the same id, after node.Perform ran in a transaction that
//     committed, or with why it did not. Every node.Await is answered by one node.Notified: when the counter differs,
//     when the watch was lost, or after a minute at the latest.
//  4. node.StartRun opens connections to the databases of a run. When that is impossible the driver calls Refuse at
//     once. Close closes them; of one run it is the last effect.
//  5. Every RunEffect with a Call is answered by one RunEvent with a Reply of the same id, unless a RunEffect with a
//     Cancel came first; then an answer may still come. Bodies that a FetchDocs kept stay until a RunEffect with a
//     Release, or until Close; a FetchDocs that failed keeps none.
//  6. At Deadline, or any time, the driver tells what Due returns, with one and the same time until that is nothing.
//  7. node.Note, node.Rename and node.Exit are for the driver as package node says. After node.Exit nothing else is
//     told.
//
// All other effects are for drivers that look on, such as the simulator's: the host has done what they ask for.
package host
