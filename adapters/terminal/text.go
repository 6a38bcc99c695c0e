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
// Its time grows with the text alone, however wide the lines are: both come from servers.
func Wrap(text string, width int) (lines []string) {
	var line strings.Builder
	taken := 0 // columns
	for _, word := range strings.Fields(text) {
		size := Width(word)
		if line.Len() > 0 && taken+1+size <= width {
			line.WriteString(" " + word)
			taken += 1 + size
			continue
		}
		if line.Len() > 0 {
			lines = append(lines, line.String())
		}
		if size > width {
			var full []string
			full, word = broken(word, width)
			lines, size = append(lines, full...), Width(word)
		}
		line.Reset()
		line.WriteString(word)
		taken = size
	}
	if line.Len() > 0 || len(lines) == 0 {
		lines = append(lines, line.String())
	}
	return lines
}

// broken breaks a word that is wider than a line into full lines and the rest, which is no wider than one.
func broken(word string, width int) (full []string, rest string) {
	for {
		head := Head(word, width)
		if head == "" { // a wide character in a narrow column
			_, n := utf8.DecodeRuneInString(word)
			head = word[:n]
		}
		if len(head) == len(word) {
			return full, word
		}
		full, word = append(full, head), word[len(head):]
	}
}
