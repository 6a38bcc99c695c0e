// Package lab plays the scheduler alone: the nodes, queue and policies of production with replications that
// only take time. Nothing is lost, late or repeated in it, since that is what package world is for; so a week
// of ten thousand jobs takes seconds, and researchers can compare policies and settings.
//
// Nodes are those of core/node. Their requests are answered by a Queue: the one that production has, on a
// store in memory, or a model of it, which is much faster. A test has both answer the same requests.
package lab
