package lint

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var links = rule{
	name: "links",
	why:  "a reader who follows a link at night needs the answer behind it, not a page that is not there",
	canaries: []string{
		"docs/a.md: # A\n[b](no-such-file.md)\n",
		"docs/a.md: # A\n[b](../no-such-file.md#a)\n",
		"docs/a.md: # A\n[b](#no-such-anchor)\n",
		"docs/a.md: # A\n[b\nc](a.md#no-such-anchor)\n",
		"docs/a.md: # A\n[b](../Makefile#anchor)\n",
		"docs/a.md: # A\n[b](/docs/a.md)\n",
	},
	check: func(s *source) (found []finding) {
		for _, f := range s.files {
			if !strings.HasSuffix(f.path, ".md") {
				continue
			}
			for _, at := range link.FindAllStringSubmatchIndex(f.text, -1) {
				to := f.text[at[2]:at[3]]
				if text := broken(s, f, to); text != "" {
					line := 1 + strings.Count(f.text[:at[2]], "\n")
					found = append(found, finding{at: fmt.Sprintf("%s:%d", f.path, line), text: to + " " + text})
				}
			}
		}
		return found
	},
}

// link finds what a link of Markdown leads to.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// broken says what is wrong with a link of a file, empty if nothing is. Addresses elsewhere are not looked at.
func broken(s *source, from file, to string) string {
	if strings.Contains(to, "://") {
		return ""
	}
	name, anchor, anchored := strings.Cut(to, "#")
	target := from.path
	if name != "" {
		target = path.Join(from.dir(), name)
	}
	i := slices.IndexFunc(s.files, func(f file) bool { return f.path == target })
	if _, err := os.Stat(filepath.Join(root, target)); err != nil && i < 0 || path.IsAbs(name) {
		return "leads to no file of the repository"
	}
	if anchored && (i < 0 || !slices.Contains(anchors(s.files[i].text), anchor)) {
		return "leads to no heading of " + target
	}
	return ""
}

// heading finds the text of headings, which do not stand in code.
var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors are the names of a file's headings, as pages of Markdown give them.
func anchors(text string) (names []string) {
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, match[1])
		first := name
		for n := 1; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s-%d", first, n)
		}
		names = append(names, name)
	}
	return names
}
