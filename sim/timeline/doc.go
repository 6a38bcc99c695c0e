// Package timeline makes a picture of a simulated run: one HTML page without anything outside of it, with
// lanes for nodes, what went wrong, transactions and jobs. It watches a run and changes nothing in it.
package timeline
