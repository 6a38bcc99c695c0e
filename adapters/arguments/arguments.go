// Package arguments checks what was typed on a command line beyond its syntax. It must not know any command.
package arguments

import (
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// Check refuses arguments and flags that were given and are empty: a script whose variable is not set would ask for all
// instead of some, and find that nothing is wrong. Every other value that was given must pass valid, too.
func Check(ctx *kong.Context, valid func(*kong.Value) error) error {
	for _, given := range ctx.Path {
		value := given.Positional
		if given.Flag != nil {
			value = given.Flag.Value
		}
		if value == nil {
			continue
		}
		if isEmpty(value.Target.Interface()) {
			return fmt.Errorf("%s: must not be empty", value.ShortSummary())
		}
		if err := valid(value); err != nil {
			return err
		}
	}
	return nil
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case []string:
		return len(v) == 0 || slices.Contains(v, "")
	}
	return false
}
