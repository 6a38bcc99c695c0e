// Package shrink makes a failing run small: it leaves out what happens, and parts of the world, as long as
// the same invariant breaks (delta debugging: Zeller and Hildebrandt, Simplifying and Isolating
// Failure-Inducing Input, 2002). At first a seed still decides how long things take, since many failures are
// races. When little is left, the seed is left out, too, if the invariant breaks without it. What remains is
// a scenario.
package shrink
