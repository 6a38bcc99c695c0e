package certs

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// DialContext is a function of net/http's transports.
type DialContext = func(ctx context.Context, network, address string) (net.Conn, error)

// Dial connects by the settings of that moment, so that files which are read again count for the next connection.
// The timeout is for the connection and its handshake together.
func Dial(settings func() (*tls.Config, error), timeout time.Duration) DialContext {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		config, err := settings()
		if err != nil {
			return nil, err
		}
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout}, Config: config}
		return d.DialContext(ctx, network, address)
	}
}
