// Package lint is a test of the source itself: of what formatters, vet and staticcheck do not know, and what would
// be lost unnoticed. Each rule is a subtest, says why it is there, and has canaries: sources that break it, which
// it must report.
//
// What broke a rule when the rule was made is listed in ratchet.txt, with a number that may only shrink. When one
// has shrunk,
//
//	go test ./internal/lint -tighten
//
// writes the smaller number, and never a greater one.
package lint
