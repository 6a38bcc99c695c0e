package follow

import (
	"fmt"
	"slices"
	"testing"
)

// TestSentStates: a row remembers a bounded number of states that may have arrived, each once, the newest first.
func TestSentStates(t *testing.T) {
	var r row
	for i := range 20 {
		r.send(fmt.Sprint(i))
	}
	r.send("15")
	if want := []string{"15", "19", "18", "17", "16", "14", "13", "12", "11"}; !slices.Equal(r.sent(), want) {
		t.Errorf("sent %v, want %v", r.sent(), want)
	}
}

// TestReplacedRevisions: likewise of the revisions that ours have replaced, also if a backup brings one back.
func TestReplacedRevisions(t *testing.T) {
	var r row
	for i := range 20 {
		r.replace(fmt.Sprint(i), "new")
	}
	r.replace("15", "newer")
	want := []string{"15", "19", "18", "17", "16", "14", "13", "12"}
	if !slices.Equal(r.over(), want) || r.Rev != "newer" {
		t.Errorf("replaced %v by %s, want %v", r.over(), r.Rev, want)
	}
}
