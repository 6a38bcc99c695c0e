package arguments_test

import (
	"errors"
	"strings"
	"testing"

	"couchrelay/adapters/arguments"

	"github.com/alecthomas/kong"
)

// TestCheck: an empty argument is refused, with the name that help has for it; any other is judged by the command.
func TestCheck(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                    "",
		"a|b":                 "",
		"a|--kind|x":          "",
		"a|--kind|":           "--kind",
		"|b":                  "<names>",
		"a|":                  "<names>",
		"a|--times|3":         "",
		"a|--times|0":         "--times: three",
		"a|--kind||--times|0": "--kind",
	} {
		var grammar struct {
			Names []string `arg:"" optional:""`
			Kind  string
			Times int `default:"0"`
		}
		parser, err := kong.New(&grammar)
		if err != nil {
			t.Fatal(err)
		}
		var args []string
		if line != "" {
			args = strings.Split(line, "|")
		}
		ctx, err := parser.Parse(args)
		if err != nil {
			t.Fatal(err)
		}
		err = arguments.Check(ctx, func(v *kong.Value) error {
			if v.Name == "times" && grammar.Times == 0 {
				return errors.New("--times: three")
			}
			return nil
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}
