package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// seconds is a time that files have as a decimal number of seconds, exact to the nanosecond.
type seconds time.Duration

// String writes the time without superfluous zeros.
func (s seconds) String() string {
	text := strconv.FormatInt(int64(s)/1e9, 10)
	if rest := int64(s) % 1e9; rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%09d", rest), "0")
	}
	return text
}

// MarshalJSON writes a number.
func (s seconds) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalJSON reads a number.
func (s *seconds) UnmarshalJSON(text []byte) (err error) {
	*s, err = parseSeconds(string(text))
	return err
}

// parseSeconds reads a time of seconds, 0 or more. Of parts of a nanosecond nothing is kept.
func parseSeconds(text string) (seconds, error) {
	if strings.ContainsAny(text, "eE") { // as some programs write small and large numbers
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= 0 && x <= maxTime.Seconds()) {
			return 0, errSeconds(text)
		}
		return seconds(math.Round(x * 1e9)), nil
	}
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || n > uint64(maxTime.Seconds()) || strings.Trim(fraction, "0123456789") != "" {
		return 0, errSeconds(text)
	}
	nanos, _ := strconv.ParseUint((fraction + "000000000")[:9], 10, 64)
	return seconds(n*1e9 + nanos), nil
}

func errSeconds(text string) error {
	return fmt.Errorf("%s is no time: it must be a number of seconds from 0 to %d (10 years)", text,
		int64(maxTime.Seconds()))
}
