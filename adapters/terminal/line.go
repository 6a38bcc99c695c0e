package terminal

import "strings"

// Style is how a part of a line looks.
type Style string

// The styles. All but the colours are also there without colours.
const (
	Plain   Style = ""
	Bold    Style = "1"
	Reverse Style = "7"
	Dim     Style = "2"
	Red     Style = "31"
	Green   Style = "32"
	Yellow  Style = "33"
	Cyan    Style = "36"
)

// Span is a part of a line.
type Span struct {
	Text  string
	Style Style
}

// Line is a line on a screen.
type Line []Span

// Text is a line in one style.
func Text(text string, style Style) Line { return Line{{text, style}} }

// String is the text of a line.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Cut is a line that takes no more than width columns.
func (l Line) Cut(width int) Line {
	var cut Line
	for _, s := range l {
		if w := Width(s.Text); w > width {
			if width > 0 {
				cut = append(cut, Span{Fit(s.Text, width), s.Style})
			}
			return cut
		} else {
			width -= w
		}
		cut = append(cut, s)
	}
	return cut
}

// Styled is a line with the escape sequences of its styles; of colours only if there are any.
func (l Line) Styled(colours bool) string {
	var b strings.Builder
	for _, s := range l {
		if s.Style == Plain || !colours && strings.HasPrefix(string(s.Style), "3") {
			b.WriteString(s.Text)
		} else {
			b.WriteString("\x1b[" + string(s.Style) + "m" + s.Text + "\x1b[0m")
		}
	}
	return b.String()
}

// What takes a terminal over for a program's pictures, and gives it back as it was.
const (
	Enter = "\x1b[?1049h\x1b[?25l"
	Leave = "\x1b[0m\x1b[?25h\x1b[?1049l"
)

// Picture draws lines over all that is on the screen.
func Picture(lines []Line, colours bool) string {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(l.Styled(colours) + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	return b.String()
}
