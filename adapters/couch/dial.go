package couch

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"couchrelay/core/spec"
)

// dialer connects with an endpoint's socket options.
func (c *Client) dialer(o spec.SocketOptions) func(ctx context.Context, network, address string) (net.Conn, error) {
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

func setOptions(tcp *net.TCPConn, o spec.SocketOptions) error {
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
// or the answer, whichever it sees first. So a write of a request that the peer no longer takes does not
// return before the connection is closed or the request given up, and reading decides what becomes of the
// request: it never waits on such a connection, but finds the answer or an error, and after either net/http
// closes it.
//
// Nobody reads while proxies and TLS shake hands, and closing waits for TLS to say goodbye: these writes
// fail at once.
type conn struct {
	net.Conn
	once    sync.Once
	closed  chan struct{}                   // closed when the connection is, or is about to be
	request atomic.Pointer[<-chan struct{}] // closed at the end of the request that has the connection
}

// carry tells a connection, below TLS, that a request has it now.
func carry(c net.Conn, request context.Context) {
	for {
		switch layer := c.(type) {
		case *conn:
			done := request.Done()
			layer.request.Store(&done)
			return
		case interface{ NetConn() net.Conn }:
			c = layer.NetConn()
		default:
			return
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	request := c.request.Load()
	if request != nil && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		select {
		case <-c.closed:
		case <-*request:
		}
	}
	return n, err
}

// SetWriteDeadline is called by TLS before it says goodbye, and by nobody else.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.end()
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) Close() error {
	c.end()
	return c.Conn.Close()
}

func (c *conn) end() { c.once.Do(func() { close(c.closed) }) }
