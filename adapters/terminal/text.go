package terminal

import (
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// Clean replaces what would move the cursor, change colours or turn the direction of writing: texts of servers and
// documents come here.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// Width is the number of columns that a text takes.
func Width(text string) int { return uniseg.StringWidth(text) }

// Head is the longest beginning of a text that takes no more than width columns.
func Head(text string, width int) string {
	rest, state, taken := text, -1, 0
	for rest != "" {
		_, after, columns, next := uniseg.FirstGraphemeClusterInString(rest, state)
		if taken += columns; taken > width {
			break
		}
		rest, state = after, next
	}
	return text[:len(text)-len(rest)]
}

// Fit is a text in exactly width columns: blanks follow one that is shorter, and one that is longer ends with "…".
func Fit(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if Width(text) > width {
		text = Head(text, width-1) + "…"
	}
	return text + strings.Repeat(" ", width-Width(text))
}
