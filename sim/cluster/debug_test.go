package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"couchrelay/core/instant"
	"couchrelay/sim/decide"
)

func TestDebug(t *testing.T) {
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	w := New(Default(), decide.New(decide.Seed(seed)))
	var lines []string
	w.Engine.Trace = func(at instant.Time, step uint64, actor, text string) {
		lines = append(lines, fmt.Sprintf("%s %d %-6s %s", at.String()[11:], step, actor, text))
	}
	v := w.Run()
	for _, l := range lines {
		ok := os.Getenv("GREP") == ""
		for _, g := range strings.Split(os.Getenv("GREP"), ",") {
			ok = ok || strings.Contains(l, g)
		}
		if ok {
			fmt.Println(l)
		}
	}
	fmt.Println(v)
}
