package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"

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

// CleanLines is Clean for a text of several lines.
func CleanLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Clean(line)
	}
	return strings.Join(lines, "\n")
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

// Wrap breaks a text at blanks into lines that take no more than width columns, and words that take more anywhere.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && Width(line+" "+word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for Width(word) > width {
			head := Head(word, width)
			if head == "" { // a wide character in a narrow column
				_, n := utf8.DecodeRuneInString(word)
				head = word[:n]
			}
			lines, word = append(lines, head), word[len(head):]
		}
		line = word
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}
