package descriptors

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// ErrNone is the error of a connection for which no descriptor is left. The system's own error is in its chain.
var ErrNone = fmt.Errorf("%w: the process may have %d, of which some are kept for the store and for clients",
	syscall.EMFILE, Limit())

// DialContext is a function of net/http's transports.
type DialContext = func(ctx context.Context, network, address string) (net.Conn, error)

// Dial returns a function that connects as dial does, and whose connections count as those of jobs until they are
// closed.
func (b *Budget) Dial(dial DialContext) DialContext {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !b.Job() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: ErrNone}
		}
		made, err := dial(ctx, network, address)
		b.Opened()
		if err != nil {
			b.Give()
			return nil, err
		}
		return &connection{made, sync.OnceFunc(b.Give)}, nil
	}
}

// connection gives its descriptor back when it is closed.
type connection struct {
	net.Conn
	left func()
}

// Close closes the connection.
func (c *connection) Close() error {
	defer c.left()
	return c.Conn.Close()
}
