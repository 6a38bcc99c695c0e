package couch

import (
	"context"
	"errors"
	"net"
	"sync"
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
		return &conn{Conn: raw, closed: make(chan struct{})}, nil
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
// refuses a document half-way answers, closes, and lets our next write fail. net/http takes that error
// or the answer, whichever it sees first. So a write that the peer no longer takes does not return
// before the connection is closed, and reading decides what becomes of the request: it never waits on
// such a connection, but finds the answer or an error, and after either net/http closes it.
type conn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		<-c.closed
	}
	return n, err
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
