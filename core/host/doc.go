// Package host is one worker as a stepped machine: a node (package node) with its runs (package
// replication), and all the routing between them. Production and the simulator drive this machine, so that
// the routing which is tested is the routing which runs.
//
// A host starts the machine of a run when the node asks for one, hands each machine the events that the
// effects of another bring about, drops events that come too late, knows which machine is to be woken next,
// and gives up the calls of a run that is gone. It steps one machine at a time: an event that a step brings
// about waits in a queue, whose first event is Next, and Step handles that one.
//
// The node decides when a job runs, and a run what it does next; the host decides neither. It touches
// neither the store nor an endpoint, has no clock and plans no timer: transactions, watches, operations and
// timers are the driver's.
//
// # Obligations of the driver
//
//  1. The first event is node.Start. The other events from outside are node.Done, node.Notified,
//     node.Configure, node.Drain, a RunEvent with a Reply, and wakes. Each is told with Tell.
//  2. While there is a Next the driver calls Step, and performs the effects of one Step in their order
//     before the next Step. Clock.Steady never goes back.
//  3. Every node.Ask is answered by one node.Done with the same id, after node.Perform ran in a transaction
//     that committed, or with why it did not. Every node.Await is answered by one node.Notified: when the
//     counter differs, when the watch was lost, or after a minute at the latest; but not one whose place a
//     newer node.Await of its topic has taken.
//  4. node.StartRun opens connections to the databases of a run. When that is impossible the driver calls
//     Refuse at once. Close closes them; it is the last effect of a run.
//  5. Every RunEffect with a Call is answered by one RunEvent with a Reply of the same id, unless a
//     RunEffect with a Cancel came first; then a Reply may still come, and is dropped. Bodies that a
//     FetchDocs kept stay until a RunEffect with a Release, or until Close; a FetchDocs that failed keeps
//     none.
//  6. At Deadline, or any time, the driver tells what Due returns, again and again with one and the same
//     time until Due returns nil. Or it wakes each machine by itself at the deadline of that machine, which
//     Node and Run give.
//  7. node.Note and node.Rename are the driver's to act on. After node.Exit nothing else is told.
//
// All other effects are there to be looked at, as the simulator does: the host has done what they ask for.
package host
