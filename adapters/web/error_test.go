package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
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

// TestWithoutAddress: clients are told why a server behind gave no answer, and not which server that is.
func TestWithoutAddress(t *testing.T) {
	to := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 5984}
	lookup := &net.DNSError{Err: "no such host", Name: "couch.internal", Server: "10.0.0.2:53", IsNotFound: true}
	for want, err := range map[string]error{
		"lookup: no such host":           &net.OpError{Op: "dial", Net: "tcp", Err: lookup},
		"dial: connection refused":       &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: syscall.ECONNREFUSED},
		"read: connection reset by peer": &net.OpError{Op: "read", Net: "tcp", Addr: to, Err: syscall.ECONNRESET},
		context.DeadlineExceeded.Error(): context.DeadlineExceeded,
	} {
		if got := WithoutAddress(err).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
