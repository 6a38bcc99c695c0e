package terminal

import (
	"strings"
	"unicode/utf8"
)

// Names of keys that are no characters. Control keys are "ctrl-c".
const (
	Up, Down, Left, Right  = "up", "down", "left", "right"
	PageUp, PageDown       = "pageup", "pagedown"
	Home, End              = "home", "end"
	Return, Escape, Delete = "enter", "escape", "backspace"
)

// sequences are what special keys send, in the normal and in the application mode.
var sequences = map[string]string{
	"\x1b[A": Up, "\x1b[B": Down, "\x1b[C": Right, "\x1b[D": Left, "\x1bOA": Up, "\x1bOB": Down, "\x1bOC": Right,
	"\x1bOD": Left, "\x1b[5~": PageUp, "\x1b[6~": PageDown, "\x1b[H": Home, "\x1b[F": End, "\x1bOH": Home,
	"\x1bOF": End, "\x1b[1~": Home, "\x1b[4~": End,
}

// Keys reads the keys that a terminal in raw mode has sent: characters as they are, and names for the others. What may
// be the beginning of a key stays in rest, unless all is here: then it is taken for what it is.
func Keys(sent []byte, all bool) (keys []string, rest []byte) {
	for len(sent) > 0 {
		key, n := first(sent)
		if n == 0 {
			if !all {
				return keys, sent
			}
			key, n = "", 1 // the beginning of a character
			if sent[0] == 0x1b {
				key = Escape
				if len(sent) > 1 { // and not of a sequence
					n = len(sent)
				}
			}
		}
		if key != "" {
			keys = append(keys, key)
		}
		sent = sent[n:]
	}
	return keys, nil
}

// first returns the first key, empty for none that has a name, and how many bytes it takes; 0 if more may follow.
func first(sent []byte) (key string, n int) {
	switch b := sent[0]; {
	case b == 0x1b:
		return sequence(sent)
	case b == '\r' || b == '\n':
		return Return, 1
	case b == 0x7f || b == 0x08:
		return Delete, 1
	case b < 0x20:
		return "ctrl-" + string(rune(b|0x60)), 1
	}
	if !utf8.FullRune(sent) {
		return "", 0
	}
	r, n := utf8.DecodeRune(sent)
	if r == utf8.RuneError {
		return "", n
	}
	return string(r), n
}

// sequence reads an escape sequence: ESC [ parameters letter, or ESC O letter. A key with Alt is nothing.
func sequence(sent []byte) (key string, n int) {
	if len(sent) < 2 {
		return "", 0
	}
	switch sent[1] {
	case 0x1b: // a key Escape, and what comes then
		return Escape, 1
	case '[':
		end := strings.IndexFunc(string(sent[2:]), func(r rune) bool { return r >= 0x40 && r <= 0x7e || r < 0x20 })
		if end < 0 {
			return "", 0
		}
		n = 2 + end + 1
	case 'O':
		if len(sent) < 3 {
			return "", 0
		}
		n = 3
	default:
		return "", 2
	}
	return sequences[string(sent[:n])], n
}
