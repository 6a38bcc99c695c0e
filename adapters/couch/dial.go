package couch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"couchrelay/core/reach"
	"couchrelay/core/spec"
)

// dialer returns the dial function of a transport. It applies an endpoint's socket options to each connection
// and wraps it in a conn. net/http bounds all handshakes but that with a SOCKS proxy, so connections to such a
// proxy have a deadline until their first request; see carry.
func (c *Client) dialer(r route) dialFunc {
	dial := c.options.Files.Dial(func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := c.connect(ctx, r.policy, network, address)
		if err != nil {
			return nil, err
		}
		if err := prepare(raw, r); err != nil {
			raw.Close()
			return nil, err
		}
		return raw, nil
	})
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		counted, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: counted, closed: make(chan struct{})}, nil
	}
}

// prepare sets what an endpoint wants of its connections.
func prepare(raw net.Conn, r route) error {
	if tcp, ok := raw.(*net.TCPConn); ok {
		if err := setOptions(tcp, r.socket); err != nil {
			return err
		}
	}
	if strings.HasPrefix(r.proxy, "socks") {
		return raw.SetDeadline(time.Now().Add(dialTimeout))
	}
	return nil
}

// connect opens a connection to a server or proxy, if the policy allows it by the name, and each address that is tried.
func (c *Client) connect(ctx context.Context, p *reach.Policy, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := p.Host(host, portNumber(port)); err != nil {
		return nil, err
	}
	detour, turns := p.Detours.Find(host, portNumber(port))
	if turns {
		address = detour
	}
	if c.options.Dial != nil {
		return c.options.Dial(ctx, network, address)
	}
	d := net.Dialer{
		Timeout: dialTimeout, KeepAlive: -1,
		Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			switch {
			case err != nil:
				return err
			case turns:
				return p.Detoured(host, portNumber(port), to)
			}
			return p.Address(host, to.Addr(), to.Port())
		},
	}
	return d.DialContext(ctx, network, address)
}

// portNumber reads a port. A text that is no port gives 0, to which no connection succeeds.
func portNumber(text string) uint16 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// setPriority sets the priority of a connection's packets in the queues of the machine. As in Erlang, nothing happens
// on systems that have none: only Linux has.
var setPriority = func(*net.TCPConn, int) error { return nil }

func setOptions(tcp *net.TCPConn, o spec.SocketOptions) error {
	err := errors.Join(tcp.SetKeepAlive(o.KeepAlive), tcp.SetNoDelay(o.NoDelay))
	if o.SendBuffer > 0 {
		err = errors.Join(err, tcp.SetWriteBuffer(o.SendBuffer))
	}
	if o.ReceiveBuffer > 0 {
		err = errors.Join(err, tcp.SetReadBuffer(o.ReceiveBuffer))
	}
	if o.Priority > 0 {
		err = errors.Join(err, setPriority(tcp, o.Priority))
	}
	return err
}

// conn is a connection that lets the server's answer win over a failed write.
//
// A server that refuses a document half-way sends its answer and closes the connection, which makes our next
// write fail. net/http reads and writes on two goroutines and reports whichever result it sees first, so the
// answer with the reason of the refusal may get lost behind "broken pipe". Therefore a write that fails in
// this way does not return before the connection is closed or the request has ended. In the meantime the
// reading goroutine finds the answer or an error of its own: the server is gone, so that read cannot block
// for long. Either makes net/http close the connection, which frees the writer.
//
// Two kinds of writes must fail at once, or they would wait for ever: handshakes with proxies and TLS,
// because nothing reads at the same time (request is not set yet), and TLS's farewell, because closing waits
// for it (see SetWriteDeadline).
type conn struct {
	net.Conn
	once    sync.Once
	closed  chan struct{}                   // closed once the connection is closed or about to be
	request atomic.Pointer[<-chan struct{}] // Done of the present request's context; nil before the first one
}

// carry tells a connection which request uses it from now on. It looks for the conn below TLS. The first request ends
// the deadline of the handshakes.
func carry(c net.Conn, request context.Context) {
	for {
		switch layer := c.(type) {
		case *conn:
			done := request.Done()
			if layer.request.Swap(&done) == nil {
				_ = layer.SetDeadline(time.Time{}) // it fails if the connection is closed
			}
			return
		case interface{ NetConn() net.Conn }:
			c = layer.NetConn()
		default:
			return
		}
	}
}

// Write writes to the connection. If the server has closed it, Write blocks until the request's fate is
// known.
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

// SetWriteDeadline marks the connection as about to be closed. Only TLS calls it, when it closes and is about
// to write its farewell (close_notify): that write must not wait for the end of the close that it is part of.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.end()
	return c.Conn.SetWriteDeadline(t)
}

// Close closes the connection and frees blocked writers.
func (c *conn) Close() error {
	c.end()
	return c.Conn.Close()
}

func (c *conn) end() { c.once.Do(func() { close(c.closed) }) }
