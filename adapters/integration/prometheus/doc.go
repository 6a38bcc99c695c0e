// Package prometheus holds tests of the shipped alert rules and of the dashboard with Prometheus' own parser and
// engine: each alert fires in the story that it is for, and not in its neighbour. TestPrometheus of the package above
// runs them.
package prometheus
