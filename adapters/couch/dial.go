package couch

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"

	"couchrelay/core/repdoc"
)

// dialer connects with an endpoint's socket options.
func (c *Client) dialer(o repdoc.SocketOptions) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := c.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if tcp, ok := raw.(*net.TCPConn); ok {
			if err := setOptions(tcp, o); err != nil {
				raw.Close()
				return nil, err
			}
		}
		return &conn{Conn: raw}, nil
	}
}

func setOptions(tcp *net.TCPConn, o repdoc.SocketOptions) error {
	err := errors.Join(tcp.SetKeepAlive(o.KeepAlive), tcp.SetNoDelay(o.NoDelay))
	if o.SendBuffer > 0 {
		err = errors.Join(err, tcp.SetWriteBuffer(o.SendBuffer))
	}
	if o.ReceiveBuffer > 0 {
		err = errors.Join(err, tcp.SetReadBuffer(o.ReceiveBuffer))
	}
	return err
}

// conn is a connection whose peer may stop listening before it is told everything. A server that
// refuses a document half-way answers, closes, and lets our next write fail; net/http then drops the
// connection and with it, more often than not, the answer that is already here. So a write that the
// peer no longer takes counts as done, and reading tells how it ends: with the answer, or with an
// error if there is none. Reading never waits on such a connection, so neither does the writer.
type conn struct {
	net.Conn
	deaf atomic.Bool
}

func (c *conn) Write(p []byte) (int, error) {
	if c.deaf.Load() {
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		c.deaf.Store(true)
		return len(p), nil
	}
	return n, err
}
