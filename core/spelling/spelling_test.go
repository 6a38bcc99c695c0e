package spelling

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	known := []string{"max_jobs", "max_churn", "interval", "q", "checkpoint_size"}
	for name, want := range map[string]string{
		"max_jobz": "max_jobs", "MAX_JOBS": "max_jobs", "mx_chrun": "max_churn", "intervall": "interval",
		"internal": "interval", "something": "", "": "", "x": "", "max_jobs": "max_jobs", "maxxxxxjobs": "",
		"chekpont_siz": "checkpoint_size", "chekpont_sz": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestEdits: the number of edits is a distance.
func TestEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.SampledFrom([]rune("abä")), 0, 6, -1)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := edits(a, b)
		if d != edits(b, a) || (d == 0) != (a == b) || d > max(len([]rune(a)), len([]rune(b))) {
			t.Fatalf("%q, %q: %d and %d", a, b, d, edits(b, a))
		}
	})
}
