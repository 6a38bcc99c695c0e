package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"couchrelay/adapters/couch"
	"couchrelay/core/peer"
)

// TestOutcomesOfDashboard: the outcomes that the dashboard marks as bad are those of requests that failed, in the words
// of the metrics.
func TestOutcomesOfDashboard(t *testing.T) {
	script, err := os.ReadFile("../web/dashboard/page/servers.js")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`const bad = \[([^]]*)\]`).FindSubmatch(script)
	if list == nil {
		t.Fatal("no list of bad outcomes")
	}
	marked := strings.Split(strings.ReplaceAll(string(list[1]), "'", ""), ", ")
	var bad []string
	for _, a := range []couch.Attempt{
		{Status: 500}, {Status: 429}, {Status: 401}, {Kind: peer.Unreachable}, {Kind: peer.TimedOut},
		{Kind: peer.Insecure}, {Kind: peer.Malformed},
	} {
		bad = append(bad, outcomeOf(a))
	}
	slices.Sort(bad)
	if slices.Sort(marked); !slices.Equal(marked, bad) {
		t.Errorf("the dashboard marks %s, of the metrics %s are bad", marked, bad)
	}
}
