// Package terminal has what programs on a terminal need beside their own logic: texts of strangers made harmless and
// measured in columns, lines in colours, and what keys send.
package terminal
