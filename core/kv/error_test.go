package kv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"couchrelay/core/kv"
)

// TestClassesOfErrors: FoundationDB's client repeats a transaction after these numbers, and after no others may one be
// repeated; and after those a commit may have happened.
func TestClassesOfErrors(t *testing.T) {
	repeated := []kv.Code{1007, 1009, 1020, 1021, 1037, 1038, 1042, 1051, 1078, 1213, 1223}
	unknown := []kv.Code{1021, 1031, 1039}
	for code := range kv.Code(3000) {
		for _, err := range []error{kv.NewError(code), fmt.Errorf("in a chain: %w", kv.NewError(code))} {
			if kv.CodeOf(err) != code {
				t.Errorf("%v has code %d", err, kv.CodeOf(err))
			}
			if kv.Retryable(err) != slices.Contains(repeated, code) {
				t.Errorf("%v is retryable: %v", err, kv.Retryable(err))
			}
			if kv.MaybeCommitted(err) != slices.Contains(unknown, code) {
				t.Errorf("after %v the commit may have happened: %v", err, kv.MaybeCommitted(err))
			}
		}
	}
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, errors.New("no store's"), nil} {
		ended := err == context.Canceled || err == context.DeadlineExceeded
		if kv.CodeOf(err) != 0 || kv.Retryable(err) || kv.MaybeCommitted(err) != ended {
			t.Errorf("%v: %d, %v, %v", err, kv.CodeOf(err), kv.Retryable(err), kv.MaybeCommitted(err))
		}
	}
}

// TestUnreadable: the error of a value that does not open says what is wrong with it, and in which class that is.
func TestUnreadable(t *testing.T) {
	sealed := errors.New("another key")
	err := error(&kv.UnreadableError{Key: []byte("k"), Err: sealed})
	if !errors.Is(err, kv.ErrUnreadable) || !errors.Is(err, sealed) ||
		err.Error() != "a value in the store cannot be read: another key" {
		t.Errorf("it is told as %q", err)
	}
}
