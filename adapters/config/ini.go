package config

import (
	"fmt"
	"strings"
)

// section is a [section] of a file, with its keys in the order of the file.
type section struct {
	name string
	keys []setting
	line int
}

type setting struct {
	key, value string
	line       int
	more       []int // the lines that go on with the value
}

// parseINI reads CouchDB's format: [section], key = value, and comments from a ; or # at the start of a line,
// or from a ; behind a space or a tab. A value is the rest of its line, without the spaces around it. It may
// be a password, so errors give the number of the line and show nothing of it. A line without = that begins with one
// space goes on with the value of the line before.
func parseINI(text string) (sections []section, err error) {
	text = strings.TrimPrefix(text, "\uFEFF")
	for n, whole := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		line := strings.TrimSpace(whole)
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		line = withoutComment(line)
		if name, is := strings.CutPrefix(line, "["); is {
			name, closed := strings.CutSuffix(name, "]")
			if name = strings.TrimSpace(name); !closed || name == "" {
				return nil, fmt.Errorf("line %d: a section is [name]", n+1)
			}
			sections = append(sections, section{name: name, line: n + 1})
			continue
		}
		key, value, is := strings.Cut(line, "=")
		if !is && continues(sections, whole) {
			keys := sections[len(sections)-1].keys
			last := &keys[len(keys)-1]
			last.value, last.more = last.value+" "+line, append(last.more, n+1)
			continue
		}
		if key = strings.TrimSpace(key); !is || key == "" {
			return nil, fmt.Errorf("line %d: neither [section] nor key = value nor a comment", n+1)
		}
		if len(sections) == 0 {
			return nil, fmt.Errorf("line %d: a key before the first [section]", n+1)
		}
		last := &sections[len(sections)-1]
		last.keys = append(last.keys, setting{key: key, value: strings.TrimSpace(value), line: n + 1})
	}
	return sections, nil
}

// continues reports whether a line without = goes on with the value of the key before it.
func continues(sections []section, line string) bool {
	return len(sections) > 0 && len(sections[len(sections)-1].keys) > 0 &&
		len(line) > 1 && line[0] == ' ' && line[1] != ' ' && line[1] != '\t'
}

// withoutComment returns a line without the comment at its end. A ; that does not follow a space or a tab is
// a part of the value, as in CouchDB.
func withoutComment(line string) string {
	for _, mark := range []string{" ;", "\t;"} {
		line, _, _ = strings.Cut(line, mark)
	}
	return strings.TrimSpace(line)
}
