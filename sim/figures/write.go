package figures

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Drawing can be drawn: a Chart, Bars or a Gantt.
type Drawing interface {
	check() error
	natural() Size
	draw(draw.Canvas)
}

// Format is that of a file.
type Format string

// Formats.
const (
	SVG Format = "svg"
	PNG Format = "png"
)

// FormatOf returns the format that the name of a file asks for.
func FormatOf(path string) (Format, error) {
	switch f := Format(strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))); f {
	case SVG, PNG:
		return f, nil
	}
	return "", fmt.Errorf("%q must end in .svg or .png", path)
}

// Size is that of a figure on paper, in millimetres. What is 0 is as suits the figure: a column wide, or a page
// for what has many rows.
type Size struct{ Width, Height float64 }

// Least and greatest sizes.
const (
	minSize = 20
	maxSize = 1000
)

// Check refuses sizes that no paper has.
func (s Size) Check() error {
	for _, v := range []float64{s.Width, s.Height} {
		if v != 0 && !(v >= minSize && v <= maxSize) {
			return fmt.Errorf("%g mm: must be from %d to %d", v, minSize, maxSize)
		}
	}
	return nil
}

// dpi is the resolution of PNG files, as journals ask for.
const dpi = 300

// Write writes a figure. The source says where its data come from, and goes with it into an SVG file.
func Write(w io.Writer, d Drawing, size Size, format Format, source string) error {
	if err := d.check(); err != nil {
		return err
	}
	if err := size.Check(); err != nil {
		return err
	}
	if size.Width == 0 {
		size.Width = d.natural().Width
	}
	if size.Height == 0 {
		size.Height = d.natural().Height
	}
	width, height := vg.Length(size.Width)*vg.Millimeter, vg.Length(size.Height)*vg.Millimeter
	if format == PNG {
		c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))
		d.draw(draw.New(c))
		_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
		return err
	}
	c := vgsvg.New(width, height)
	d.draw(draw.New(c))
	var text bytes.Buffer
	if _, err := c.WriteTo(&text); err != nil {
		return err
	}
	_, err := w.Write(complete(text.Bytes(), source))
	return err
}

// complete adds the source to an SVG file, and to its font those of the same widths that machines without it
// have.
func complete(svg []byte, source string) []byte {
	svg = bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	var desc bytes.Buffer
	desc.WriteString("<desc>")
	_ = xml.EscapeText(&desc, []byte(source)) // a buffer takes all
	desc.WriteString("</desc>\n")
	head := bytes.Index(svg, []byte("<g "))
	return bytes.Join([][]byte{svg[:head], desc.Bytes(), svg[head:]}, nil)
}
