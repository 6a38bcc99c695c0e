package figures

import (
	"image/color"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// look is how everything of one account, policy or family looks. Its colour, its dashes and its marker each tell
// it apart from all others.
type look struct {
	color  color.RGBA
	dashes []vg.Length
	marker marker
}

// looks are ordered so that neighbours differ most in grey. Yellow, of the same palette, is too pale on paper.
var looks = [Most]look{
	{color.RGBA{0x00, 0x72, 0xB2, 0xFF}, nil, marker{}},                                               // blue
	{color.RGBA{0xE6, 0x9F, 0x00, 0xFF}, []vg.Length{5, 2}, marker{corners: square}},                  // orange
	{color.RGBA{0x00, 0x00, 0x00, 0xFF}, []vg.Length{1, 1.5}, marker{corners: triangle}},              // black
	{color.RGBA{0xCC, 0x79, 0xA7, 0xFF}, []vg.Length{4, 1.5, 1, 1.5}, marker{open: true}},             // purple
	{color.RGBA{0x00, 0x9E, 0x73, 0xFF}, []vg.Length{3, 1.5}, marker{corners: diamond}},               // green
	{color.RGBA{0x56, 0xB4, 0xE9, 0xFF}, []vg.Length{7, 1.5}, marker{corners: square, open: true}},    // sky blue
	{color.RGBA{0xD5, 0x5E, 0x00, 0xFF}, []vg.Length{3, 1.5, 1, 1.5, 1, 1.5}, marker{triangle, true}}, // vermillion
	{color.RGBA{0x80, 0x80, 0x80, 0xFF}, []vg.Length{2, 2}, marker{corners: diamond, open: true}},     // grey
}

// Most is how many accounts, runs or families of points a figure tells apart.
const Most = 8

var (
	ink  = color.RGBA{0x00, 0x00, 0x00, 0xFF}
	soft = color.RGBA{0x70, 0x70, 0x70, 0xFF} // of lines that data are compared with
	grid = color.RGBA{0xDD, 0xDD, 0xDD, 0xFF}
)

const (
	labelSize = vg.Length(8) // points, as papers have in figures
	tickSize  = vg.Length(7)
	thick     = vg.Length(1.1) // of curves
	thin      = vg.Length(0.5)
	radius    = vg.Length(2.2) // of markers
)

// pale is a lighter shade, as of something that does not count yet.
func pale(c color.RGBA) color.RGBA {
	mix := func(v uint8) uint8 { return uint8((int(v) + 2*0xFF) / 3) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 0xFF}
}

// letters is text of a size.
func letters(size vg.Length, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color:   ink,
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		XAlign:  x,
		YAlign:  y,
		Handler: text.Plain{Fonts: font.DefaultCache},
	}
}

// short cuts the middle out of a text that is wider than it may be.
func short(s string, style text.Style, width vg.Length) string {
	runes := []rune(s)
	for cut := len(runes) - 1; style.Width(s) > width && cut > 2; cut-- {
		s = string(runes[:(cut+1)/2]) + "…" + string(runes[len(runes)-cut/2:])
	}
	return s
}
