// Package timeline draws a simulated run: one self-contained HTML page with lanes for nodes, faults,
// transactions and jobs. It observes a run and changes nothing in it.
package timeline
