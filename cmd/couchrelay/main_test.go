package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestSpelled: the command help and the flag --version work as in other programs. Arguments of another command are
// left as they are, also if they are named help.
func TestSpelled(t *testing.T) {
	for _, c := range [][2]string{
		{"[help]", "[--help]"}, {"[help hold add]", "[hold add --help]"}, {"[--version]", "[version]"},
		{"[]", "[]"}, {"[jobs help]", "[jobs help]"}, {"[jobs --version]", "[jobs --version]"},
	} {
		args := strings.Fields(strings.Trim(c[0], "[]"))
		if got := fmt.Sprint(spelled(args)); got != c[1] {
			t.Errorf("%s is read as %s, want %s", c[0], got, c[1])
		}
	}
}
