package mango

import (
	"fmt"
	"regexp/syntax"
)

// maxSteps is how much one match may take: a second or so at most. What a selector costs grows with its size times
// that of a document, and both may have megabytes, so without a bound one member of a database could keep a core
// busy for hours. Twenty conditions on each of 5,000 elements with ten members take a tenth of it.
const maxSteps = 10_000_000

// errCostly is the answer when a match would take more.
var errCostly = &Error{"too_costly", fmt.Sprintf("the selector takes more than %d steps: a step is a condition that "+
	"is looked at, in each element of an array anew, a member on the way to its field, or eight characters of its "+
	"operand or value", maxSteps)}

// steps are what is left of maxSteps. A match whose steps are used up goes on, but everything in it ends at once.
type steps struct{ left int }

// take uses steps up, and reports whether there were as many.
func (s *steps) take(n int) bool {
	s.left -= n
	return s.left >= 0
}

// read uses up the steps that it takes to look at characters.
func (s *steps) read(characters int) bool { return s.take(1 + characters/8) }

// sizeOf is how many instructions a regular expression has that compiles. Each may be tried at each character.
func sizeOf(expression string) int {
	parsed, _ := syntax.Parse(expression, syntax.Perl)
	program, _ := syntax.Compile(parsed.Simplify())
	return len(program.Inst)
}
