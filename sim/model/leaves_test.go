package model

import "testing"

func TestCompareRevs(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"1-a", "1-a", 0}, {"1-a", "1-b", -1}, {"2-a", "1-b", 1}, {"9-a", "10-a", -1},
		{"3-00000000000000000000000000000000", "3-f0000000000000000000000000000000", -1},
	} {
		if got := compareRevs(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %d instead of %d", c.a, c.b, got, c.want)
		}
		if got := compareRevs(c.b, c.a); got != -c.want {
			t.Errorf("%s and %s: %d instead of %d", c.b, c.a, got, -c.want)
		}
	}
}
