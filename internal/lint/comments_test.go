package lint

import (
	"path"
	"strings"
)

var packageComments = rule{
	name: "package-comments",
	why: "a newcomer looks for what a package is in doc.go, in the file of its name or in main.go; staticcheck is " +
		"content with a comment in any file",
	ratchet: true,
	canaries: []string{
		"core/node/step.go: // Package node is one.\npackage node",
		"core/node/step_test.go: // Package node is one.\npackage node",
	},
	check: func(s *source) (found []finding) {
		for _, f := range s.files {
			if f.ast == nil || f.ast.Doc == nil || !strings.HasPrefix(f.ast.Doc.Text(), "Package ") {
				continue
			}
			switch path.Base(f.path) {
			case "doc.go", "main.go", f.ast.Name.Name + ".go":
				continue
			}
			text := "the comment of package " + f.ast.Name.Name + " belongs into doc.go"
			found = append(found, finding{at: f.path, text: text, what: f.dir(), n: 1})
		}
		return found
	},
}
