package loop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

func finding(id string, over bool) []replication.Finding {
	return []replication.Finding{{Refusal: peer.Refusal{ID: id, Rev: "1-a"}, Over: over}}
}

// TestPagesOfRefused: the pages of the list have each revision once, with its attempts and its age.
func TestPagesOfRefused(t *testing.T) {
	var l Refused
	start := instant.Time(0)
	for i, id := range []string{"c", "a", "b", "d", "a", "e"} {
		l.change(finding(id, false), start.Add(time.Duration(i)*time.Second))
	}
	l.change(finding("d", true), start)
	l.change(finding("x", true), start)
	want := []string{"a 2 6s", "b 1 8s", "c 1 10s", "e 1 5s"}
	for limit := range 5 {
		var got []string
		at := replication.ReadRefused{Limit: limit + 1}
		for more := true; more && len(got) <= len(want); {
			page := l.page(at, start.Add(10*time.Second))
			for _, d := range page.Docs {
				got = append(got, fmt.Sprint(d.ID, " ", d.Attempts, " ", d.Age))
				at.ID, at.Rev = d.ID, d.Rev
			}
			more = page.More
		}
		if !slices.Equal(got, want) || l.Len() != len(want) {
			t.Errorf("pages of %d have %q of %d, want %q", at.Limit, got, l.Len(), want)
		}
	}
}

// TestFullListOfRefused: what the list has no place for is counted.
func TestFullListOfRefused(t *testing.T) {
	var l Refused
	for i := range jobstore.MaxRefused + 2 {
		l.change(finding(fmt.Sprint(i), false), 0)
	}
	l.change(finding("0", true), 0)
	l.change(finding("never listed", true), 0)
	if l.Len() != jobstore.MaxRefused+1 || len(l.rows) != jobstore.MaxRefused-1 {
		t.Errorf("%d refused, %d listed", l.Len(), len(l.rows))
	}
}

// TestPageHasTheAnswer: a page of the list says that the target refused a document. One that is too large for a proxy
// does not have the next replication read all again.
func TestPageHasTheAnswer(t *testing.T) {
	var l Refused
	refusal := peer.Refusal{ID: "a", Rev: "1-a", Status: 413}
	l.change([]replication.Finding{{Refusal: refusal, Failed: true, Refused: true}}, 0)
	got := l.page(replication.ReadRefused{Limit: 1}, 0).Docs
	want := replication.Listed{ID: "a", Rev: "1-a", Attempts: 1, Failed: true, Refused: true}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
