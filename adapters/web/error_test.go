package web

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
)

func TestStatuses(t *testing.T) {
	for kind := docs.Kind(0); kind <= docs.Internal; kind++ {
		if statuses[kind] == 0 {
			t.Errorf("kind %d has no status", kind)
		}
	}
	for status, err := range map[int]error{
		409: fmt.Errorf("wrapped: %w", docs.ErrConflict),
		412: docs.ErrExists,
		415: ErrEncoding,
		413: kv.NewError(kv.TransactionTooLarge),
		503: kv.NewError(kv.TransactionTimedOut),
		500: errors.New("odd"),
	} {
		if got := errorOf(err).Status; got != status {
			t.Errorf("%v: %d, want %d", err, got, status)
		}
	}
	if got := errorOf(context.DeadlineExceeded).Status; got != 503 {
		t.Errorf("deadline: %d", got)
	}
}
