// Package top is the live view of a service in a terminal. It decides which requests are sent, what their answers mean
// and what keys do, and makes the lines of the picture. It is pure: another package sends requests, reads keys, draws.
package top
