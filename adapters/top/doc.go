// Package top is the live view of a service in a terminal: what is asked, what answers mean, what keys do, and the
// lines of the picture. It is a function of what it is told: requests are sent, keys are read and lines are drawn
// elsewhere.
package top
