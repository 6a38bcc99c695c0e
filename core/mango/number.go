package mango

import (
	"cmp"
	"strconv"
	"strings"
)

// decimal is the number 0.digits times ten to the power of exponent.
type decimal struct {
	negative bool
	digits   string // without zeros at either end; empty for zero
	exponent int    // without meaning for zero
}

// compareNumbers orders two JSON numbers by their exact values.
func compareNumbers(a, b string) int {
	x, y := parseDecimal(a), parseDecimal(b)
	if x.sign() != y.sign() {
		return cmp.Compare(x.sign(), y.sign())
	}
	magnitude := cmp.Or(cmp.Compare(x.exponent, y.exponent), strings.Compare(x.digits, y.digits))
	return magnitude * x.sign()
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	default:
		return 1
	}
}

// maxExponent bounds exponents: a greater one counts as this one. Documents do not have such numbers.
const maxExponent = 1 << 40

func parseDecimal(text string) (d decimal) {
	text, d.negative = strings.CutPrefix(text, "-")
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		// If the exponent does not fit, Atoi returns the greatest or least int.
		e, _ := strconv.Atoi(text[i+1:])
		d.exponent = max(-maxExponent, min(e, maxExponent))
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	significant := strings.TrimLeft(whole+fraction, "0")
	d.exponent += len(whole) - (len(whole) + len(fraction) - len(significant))
	d.digits = strings.TrimRight(significant, "0")
	return d
}
