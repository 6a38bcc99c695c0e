package revtree

import (
	"slices"
	"strings"
	"testing"
)

const hexID = "967a00dff5e02add41819138abb3284d"

func TestParseRev(t *testing.T) {
	for text, want := range map[string]string{
		"1-" + hexID:                   "1-" + hexID,
		"12-" + strings.ToUpper(hexID): "12-" + hexID,
		"3-abc":                        "3-abc",
		"3-a-b":                        "3-a-b",
		"007-x":                        "7-x",
		"1-\x00é":                      "1-\x00é",
		"9000000000000000-abc":         "9000000000000000-abc",
	} {
		if rev, err := ParseRev(text); err != nil || rev.String() != want {
			t.Errorf("ParseRev(%q) = %v, %v; want %s", text, rev, err, want)
		}
	}
	for _, text := range []string{
		"", "1", "-", "1-", "-abc", "0-abc", "+1-abc", "-1-abc", "1.5-abc", "x-abc", "1_0-abc", " 1-abc",
		"99999999999999999999-abc", "9000000000000001-abc", "1-" + strings.Repeat("z", 32),
	} {
		if rev, err := ParseRev(text); err != ErrRev {
			t.Errorf("ParseRev(%q) = %v, %v; want an error", text, rev, err)
		}
	}
}

// TestCompare has revisions in rising order, ids as CouchDB sorts them: as bytes, hex ids decoded.
func TestCompare(t *testing.T) {
	rising := []string{
		"1-zzz", "2-0", "2-00000000000000000000000000000000", "2-09000000000000000000000000000000", "2-1",
		"2-60000000000000000000000000000000", "2-a", "2-aa", "2-b", "2-f0000000000000000000000000000000", "10-a",
	}
	want := map[string]int{"2-0": 3, "2-1": 4} // '0' is 0x30, which is more than 0x09
	slices.SortStableFunc(rising, func(a, b string) int { return mustRev(t, a).Compare(mustRev(t, b)) })
	for text, at := range want {
		if rising[at] != text {
			t.Errorf("sorted %v: %s is not at %d", rising, text, at)
		}
	}
	for i, a := range rising {
		for j, b := range rising {
			if got := mustRev(t, a).Compare(mustRev(t, b)); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("Compare(%s, %s) = %d", a, b, got)
			}
		}
	}
}

func mustRev(t *testing.T, s string) Rev {
	t.Helper()
	rev, err := ParseRev(s)
	if err != nil {
		t.Fatalf("ParseRev(%q): %v", s, err)
	}
	return rev
}
