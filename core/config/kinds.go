package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/spec"
	"couchrelay/core/spelling"
)

// Key is one setting of a section. C is what the section configures.
type Key[C any] struct {
	Name string
	Says string // one sentence for operators: what the key sets
	Kind[C]
}

// Kind says how the value of a key is read and written.
type Kind[C any] struct {
	// Takes describes the accepted values, with their unit and range, as the end of the sentence "the value must be".
	Takes string
	// Set reads a value. The error of a value that is not accepted says which ones are.
	Set func(c *C, value string) error
	// Get writes the value as Set reads it; empty if there is none.
	Get func(c *C) string
	// Secret values are shown as *****, and not in errors.
	Secret bool
}

// Section lists the keys of a section, in the order in which they are printed.
type Section[C any] []Key[C]

// Row describes a key for operators, with its value in one configuration.
type Row struct {
	Section, Key string
	Says         string // one sentence: what the key sets
	Takes        string // the accepted values, with unit and range
	Default      string // as files have it; empty if there is none
	Value        string // likewise
}

// Rows describes all keys of the section called name, with their values in c and in the default configuration.
func (s Section[C]) Rows(name string, c, byDefault *C) []Row {
	rows := make([]Row, len(s))
	for i, k := range s {
		rows[i] = Row{
			Section: name, Key: k.Name, Says: k.Says, Takes: k.Takes, Default: k.Get(byDefault), Value: k.Get(c),
		}
	}
	return rows
}

// Set sets one key. Errors begin with the section's name and the key. A key that does not exist is an error: no setting
// is ignored silently.
func (s Section[C]) Set(c *C, section, name, value string) error {
	i := slices.IndexFunc(s, func(k Key[C]) bool { return k.Name == name })
	if i < 0 {
		return NoSuchKey(section, name, s.Names())
	}
	if err := s[i].Set(c, value); err != nil {
		if s[i].Secret {
			value = masked
		}
		return fmt.Errorf("[%s] %s = %s: %w", section, name, value, err)
	}
	return nil
}

// NoSuchKey is the error of a key that a section does not have, though it has the known ones.
func NoSuchKey(section, name string, known []string) error {
	if near := spelling.Nearest(name, known); near != "" {
		return fmt.Errorf("[%s] %s: no such key; the nearest is %s", section, name, near)
	}
	slices.Sort(known)
	return fmt.Errorf("[%s] %s: no such key; known are %s", section, name, strings.Join(known, ", "))
}

// Get writes the value of a key that exists.
func (s Section[C]) Get(c *C, name string) string {
	return s[slices.IndexFunc(s, func(k Key[C]) bool { return k.Name == name })].Get(c)
}

// Has reports whether a key exists.
func (s Section[C]) Has(name string) bool {
	return slices.ContainsFunc(s, func(k Key[C]) bool { return k.Name == name })
}

// Names are the names of the keys, in the order of the section.
func (s Section[C]) Names() []string {
	names := make([]string, len(s))
	for i, k := range s {
		names[i] = k.Name
	}
	return names
}

// must is the error of a value that is not among those that takes describes.
func must(takes string) error { return errors.New("must be " + takes) }

// Text takes any text but the empty one. An empty address would bind every interface, an empty CA file would mean the
// system's roots, and an empty value is usually a template that was not filled in. takes describes the text.
func Text[C any](field func(*C) *string, takes string) Kind[C] {
	return Kind[C]{
		Takes: takes,
		Get:   func(c *C) string { return *field(c) },
		Set: func(c *C, v string) error {
			if v == "" {
				return errors.New("must not be empty; leave the key out for the default")
			}
			*field(c) = v
			return nil
		},
	}
}

const masked = "*****"

// Password takes any text but the empty one, and does not show it.
func Password[C any](field func(*C) *spec.Secret) Kind[C] {
	const takes = "a password; it is shown as " + masked
	return Kind[C]{
		Takes:  takes,
		Secret: true,
		Get:    func(c *C) string { return field(c).String() },
		Set: func(c *C, v string) error {
			if v == "" || v == masked {
				return must(takes)
			}
			*field(c) = spec.Hide(v)
			return nil
		},
	}
}

// OneOf takes the allowed words only.
func OneOf[C any](field func(*C) *string, allowed ...string) Kind[C] {
	takes := "one of " + strings.Join(allowed, ", ")
	return Kind[C]{
		Takes: takes,
		Get:   func(c *C) string { return *field(c) },
		Set: func(c *C, v string) error {
			if !slices.Contains(allowed, v) {
				return must(takes)
			}
			*field(c) = v
			return nil
		},
	}
}

// Integer takes whole numbers from least to most.
func Integer[C any](field func(*C) *int, least, most int) Kind[C] {
	takes := fmt.Sprintf("a whole number from %d to %d", least, most)
	return Kind[C]{
		Takes: takes,
		Get:   func(c *C) string { return strconv.Itoa(*field(c)) },
		Set: func(c *C, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < least || n > most {
				return must(takes)
			}
			*field(c) = n
			return nil
		},
	}
}

// Boolean takes true and false.
func Boolean[C any](field func(*C) *bool) Kind[C] {
	const takes = "true or false"
	return Kind[C]{
		Takes: takes,
		Get:   func(c *C) string { return strconv.FormatBool(*field(c)) },
		Set: func(c *C, v string) error {
			if v != "true" && v != "false" {
				return must(takes)
			}
			*field(c) = v == "true"
			return nil
		},
	}
}

// Duration takes a whole number of units, which are hours, seconds or milliseconds, or a number with a unit such
// as 90s. least is a number of units.
func Duration[C any](field func(*C) *time.Duration, unit time.Duration, least int64) Kind[C] {
	unitName := map[time.Duration]string{
		time.Hour: "hour", time.Second: "second", time.Millisecond: "millisecond",
	}[unit]
	example := "90s"
	if unit == time.Hour {
		example = "90m"
	}
	takes := fmt.Sprintf("a whole number of %ss, at least %d, or a time such as %s", unitName, least, example)
	return Kind[C]{
		Takes: takes,
		Get:   func(c *C) string { return Short(*field(c)) },
		Set: func(c *C, v string) error {
			d, err := time.ParseDuration(v)
			if n, plain := strconv.ParseInt(v, 10, 64); plain == nil {
				if most := math.MaxInt64 / int64(unit); n > most || n < -most {
					n = -1
				}
				d, err = time.Duration(n)*unit, nil
			}
			if err != nil || d < time.Duration(least)*unit {
				return must(takes)
			}
			*field(c) = d
			return nil
		},
	}
}

// Short returns a time as files have it: 2h, where its String is 2h0m0s.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Some takes words with commas between them, each of which is allowed, and at least one.
func Some[C any](field func(*C) *[]string, allowed ...string) Kind[C] {
	takes := "some of " + strings.Join(allowed, ", ") + ", with commas between them"
	return Kind[C]{
		Takes: takes,
		Get:   func(c *C) string { return strings.Join(*field(c), ", ") },
		Set: func(c *C, v string) error {
			var items []string
			for item := range strings.SplitSeq(v, ",") {
				if item = strings.TrimSpace(item); !slices.Contains(allowed, item) {
					return must(takes)
				}
				items = append(items, item)
			}
			*field(c) = items
			return nil
		},
	}
}

const million = 1_000_000

// Coefficient takes a decimal number, of which it keeps millionths. least and most are millionths.
func Coefficient[C any](field func(*C) *int64, least, most int64) Kind[C] {
	takes := fmt.Sprintf("a number from %s to %s", decimal(least), decimal(most))
	return Kind[C]{
		Takes: takes,
		Get:   func(c *C) string { return decimal(*field(c)) },
		Set: func(c *C, v string) error {
			n, ok := millionths(v)
			if !ok || n < least || n > most {
				return must(takes)
			}
			*field(c) = n
			return nil
		},
	}
}

// millionths rounds a number. It reports whether there is one that fits.
func millionths(text string) (int64, bool) { // float: each operation is rounded correctly, and so the same everywhere
	f, err := strconv.ParseFloat(text, 64)
	n := math.Round(f * million)
	return int64(n), err == nil && math.Abs(n) < math.MaxInt64
}

// decimal writes millionths as a number without superfluous zeros.
func decimal(n int64) string {
	s := strings.TrimRight(fmt.Sprintf("%d.%06d", n/million, n%million), "0")
	return strings.TrimSuffix(s, ".")
}
