package lint

import (
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// logged are the methods that write an event of the service's log, with the event's name as the first argument.
var logged = []string{"Info", "Warn", "Error", "note"}

// eventName tells names of events from other texts.
var eventName = regexp.MustCompile(`^[a-z]+([_ ][a-z]+)*$`)

// eventsTable is the chapter of the manual that lists all events.
const eventsTable = "docs/troubleshoot.md"

var events = rule{
	name: "events",
	why: "operators look up a log line by its event in the table of " + eventsTable + "; an event that is not " +
		"there tells them nothing, and one that is there alone sends them to look for it",
	canaries: []string{
		`adapters/a/a.go: package a; func f() { logger.Warn("not_in_the_table", "key", 1) }`,
		`core/node/a.go: package node; func (n *Node) f() { n.note("not_in_the_table", "", "") }`,
		eventsTable + ": | `never_logged` | info | a | b |\n",
	},
	check: func(s *source) (found []finding) {
		told := toldEvents(s)
		for _, f := range s.files {
			logs := within(f.path, "adapters") || within(f.path, "cmd/couchrelay") || within(f.path, "core/node") ||
				within(f.path, "core/follow")
			if f.ast == nil || f.test() || !logs {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				name := loggedEvent(n)
				if name == "" {
					return true
				}
				if _, is := told[name]; !is {
					found = append(found, finding{at: s.at(n.Pos()), text: name + " is missing in " + eventsTable})
				}
				told[name] = true
				return true
			})
		}
		for _, name := range slices.Sorted(maps.Keys(told)) {
			if !told[name] {
				found = append(found, finding{at: eventsTable, text: "no code logs " + name})
			}
		}
		return found
	},
}

// idle finds rows of warnings and errors that do not say what to do.
var idle = regexp.MustCompile(
	"(?m)^\\| (`[^|]+) \\| [a-z, ]*(?:warning|error)[a-z, ]* \\|[^|]*\\|(?: nothing| as above)? \\|$")

var advice = rule{
	name: "advice",
	why:  "a warning or an error is for a person, who wants to know what to do",
	canaries: []string{
		eventsTable + ": | `fdb_away`, `fdb_back` | warning, info | a | nothing |\n",
		eventsTable + ": | `store_ended` | error | a | |\n",
		eventsTable + ": | `forecast` | info, warning | a | as above |\n",
	},
	check: func(s *source) (found []finding) {
		for _, f := range s.files {
			if f.path != eventsTable {
				continue
			}
			for _, match := range idle.FindAllStringSubmatch(f.text, -1) {
				found = append(found, finding{at: f.path, text: "the table does not say what to do about " + match[1]})
			}
		}
		return found
	},
}

// row is a line of the table of events: names in backquotes, and their levels.
var row = regexp.MustCompile("(?m)^\\| ((?:`[^`|]+`(?:, )?)+) \\| (?:info|warning|error)\\b")

// toldEvents returns the events of the manual's table, all false.
func toldEvents(s *source) map[string]bool {
	told := map[string]bool{}
	for _, f := range s.files {
		if f.path != eventsTable {
			continue
		}
		for _, match := range row.FindAllStringSubmatch(f.text, -1) {
			for name := range strings.SplitSeq(match[1], ", ") {
				told[strings.Trim(name, "`")] = false
			}
		}
	}
	return told
}

// loggedEvent returns the name of the event that a call logs, empty if it logs none.
func loggedEvent(n ast.Node) string {
	call, is := n.(*ast.CallExpr)
	if !is || len(call.Args) == 0 {
		return ""
	}
	method, is := call.Fun.(*ast.SelectorExpr)
	name, literal := call.Args[0].(*ast.BasicLit)
	if !is || !literal || !slices.Contains(logged, method.Sel.Name) {
		return ""
	}
	text, err := strconv.Unquote(name.Value)
	if err != nil || !eventName.MatchString(text) {
		return ""
	}
	return text
}
