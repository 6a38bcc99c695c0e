//go:build !fdb

package fdb

import (
	"errors"
	"strings"
	"testing"
)

func TestBuildWithoutFoundationDB(t *testing.T) {
	_, err := Open("/etc/foundationdb/fdb.cluster", Options{})
	if !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "-tags fdb") {
		t.Error(err)
	}
}
