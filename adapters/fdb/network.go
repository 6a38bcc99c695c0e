//go:build fdb

package fdb

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	client "github.com/apple/foundationdb/bindings/go/src/fdb"
)

// networkOption begins the names of the variables of the environment from which the client takes its options.
const networkOption = "FDB_NETWORK_OPTION_"

// checkNetworkOptions finds a variable of the environment that names no option. The client would ignore it.
func checkNetworkOptions(environment []string) error {
	known := networkOptions()
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		option, ok := strings.CutPrefix(name, networkOption)
		if ok && !slices.Contains(known, option) {
			return fmt.Errorf("the environment has %s, which is no option of FoundationDB's client; these are: %s%s",
				name, networkOption, strings.Join(alike(option, known), ", "+networkOption))
		}
	}
	return nil
}

// word finds the beginning of a word within the name of a method of the bindings, such as TLSCaPath.
var word = regexp.MustCompile(`\B[A-Z][a-z]`)

// networkOptions returns the names of all options. The bindings have a method for each.
func networkOptions() (names []string) {
	methods := reflect.TypeFor[client.NetworkOptions]()
	for i := range methods.NumMethod() {
		if name, ok := strings.CutPrefix(methods.Method(i).Name, "Set"); ok {
			names = append(names, strings.ToUpper(word.ReplaceAllString(name, "_$0")))
		}
	}
	return names
}

// alike returns those names that begin as name does, with as many letters as possible.
func alike(name string, names []string) (found []string) {
	for n := len(name); len(found) == 0; n-- {
		for _, other := range names {
			if strings.HasPrefix(other, name[:n]) {
				found = append(found, other)
			}
		}
	}
	return found
}
