package terminal

import (
	"strings"
	"testing"
)

// TestTexts: what strangers write takes the columns that it is given, and does nothing to the terminal.
func TestTexts(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"plain", 7, "plain  "}, {"plain", 5, "plain"}, {"plain", 4, "pla…"}, {"plain", 1, "…"}, {"plain", 0, ""},
		{"plain", -1, ""}, {"", 2, "  "}, {"漢字", 4, "漢字"}, {"漢字", 3, "漢…"}, {"漢字", 2, "… "}, {"a漢字", 3, "a… "},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"🇩🇪x", 3, "🇩🇪x"}, {"⸻", 2, "… "},
	} {
		if got := Fit(c.text, c.width); got != c.want || c.width >= 0 && Width(got) != c.width {
			t.Errorf("%q in %d: %q", c.text, c.width, got)
		}
	}
	for text, want := range map[string]string{
		"a\x1b[2Jb\x07\r\u009b\u202e\u200d": "a\uFFFD[2Jb" + strings.Repeat("\uFFFD", 5), "a\nb\tc": "a b c",
		"\xff": "\uFFFD", "漢 é": "漢 é",
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"one two  three", 7, "one two|three"}, {"one", 2, "on|e"}, {"", 5, ""}, {"漢字漢 字", 4, "漢字|漢|字"},
		{"漢字", 1, "漢|字"}, {"a bcdefg", 3, "a|bcd|efg"},
	} {
		if got := strings.Join(Wrap(c.text, c.width), "|"); got != c.want {
			t.Errorf("%q in %d: %q", c.text, c.width, got)
		}
	}
}

func TestLines(t *testing.T) {
	line := Line{{"red", Red}, {" plain ", Plain}, {"漢字", Bold}}
	for width, want := range map[int]string{
		14: "red plain 漢字", 13: "red plain 漢…", 10: "red plain ", 9: "red plai…", 2: "r…", 0: "",
	} {
		if got := line.Cut(width).String(); got != want {
			t.Errorf("in %d: %q", width, got)
		}
	}
	if got := line.Styled(true); got != "\x1b[31mred\x1b[0m plain \x1b[1m漢字\x1b[0m" {
		t.Errorf("%q", got)
	}
	if got := Picture([]Line{line, nil}, false); got != "\x1b[Hred plain \x1b[1m漢字\x1b[0m\x1b[K\r\n\x1b[K\x1b[J" {
		t.Errorf("%q", got)
	}
}

// TestKeys: keys are the same, however the bytes come.
func TestKeys(t *testing.T) {
	for sent, want := range map[string]string{
		"a": "a", "q\x03": "q ctrl-c", "\x1b[A\x1bOB\x1b[5~": "up down pageup", "é漢": "é 漢",
		"\r\x7f\x08": "enter backspace backspace", "\x1b\x1b[A": "escape up", "\x1b": "escape", "\x1b[": "escape",
		"\x1b[200~x": "x", "\x1bx": "", "\x1b[1;5Cz": "z",
		"\xff\xfeb": "b", "\xe6": "", "\x1bO": "escape", "\x1a\x0c": "ctrl-z ctrl-l", "\x1b[\x01": "",
	} {
		for cut := range len(sent) {
			keys, rest := Keys([]byte(sent[:cut]), false)
			more, rest := Keys(append(rest, sent[cut:]...), false)
			last, rest := Keys(rest, true)
			if got := strings.Join(append(append(keys, more...), last...), " "); got != want || len(rest) > 0 {
				t.Errorf("%q cut at %d: %q and %q", sent, cut, got, rest)
			}
		}
	}
}
