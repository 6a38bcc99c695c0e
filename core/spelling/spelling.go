// Package spelling finds the name that was meant by a misspelled one.
package spelling

import (
	"strings"
	"unicode/utf8"
)

// Nearest is the first of the known names to which the fewest edits lead, at most one in three characters, and three;
// empty when none is as near.
func Nearest(name string, known []string) (near string) {
	name = strings.ToLower(name)
	least := 1 + min(utf8.RuneCountInString(name)/3, 3)
	for _, one := range known {
		if d := edits(name, one); d < least {
			near, least = one, d
		}
	}
	return near
}

// edits is how many characters have to be inserted, removed, replaced or swapped with their neighbour to make b of
// a: the distance of optimal string alignment.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1) // rows[i][j] leads from the first i of x to the first j of y
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
		for j := 1; j <= len(y); j++ {
			if i == 0 {
				rows[i][j] = j
				continue
			}
			replaced := rows[i-1][j-1]
			if x[i-1] != y[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
