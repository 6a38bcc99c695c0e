package forecast

import (
	"fmt"
	"strings"
	"time"

	"couchrelay/core/config"
)

// Count writes a number with commas: 10,000.
func Count(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Things writes a number of things: 1 job, 10,000 jobs.
func Things(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Count(n) + " " + thing + "s"
}

// Points writes millionths in percent, with a digit behind the point.
func Points(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	tenths := (n + 500) / 1000
	return fmt.Sprintf("%s%d.%d", sign, tenths/10, tenths%10)
}

// ratio writes millionths with two or three digits that matter.
func ratio(n int64) string {
	switch {
	case n >= 10*million:
		return Count((n + million/2) / million)
	case n >= million/10:
		return fmt.Sprintf("%d.%02d", (n+5000)/million, (n+5000)%million/10_000)
	}
	return fmt.Sprintf("0.%03d", (n+500)/1000)
}

// Length writes a time in days, hours, minutes or seconds, without more digits than it is worth.
func Length(d time.Duration) string {
	switch {
	case d == Never:
		return "ever"
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= time.Minute:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Millisecond)
	}
	return strings.TrimSuffix(config.Short(d), "m0s")
}
