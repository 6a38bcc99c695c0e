package door

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/descriptors"
)

// Connections counts the connections of all listeners of a service. It is safe for concurrent use.
type Connections struct {
	limits  func() config.Limits
	files   *descriptors.Budget
	logger  *slog.Logger
	refused chan struct{} // has a place for each connection that is being refused

	mu    sync.Mutex // guards the fields below
	total int
	from  map[netip.Addr]int
}

// maxRefused bounds the connections that are told at a time that there are too many. Others are just closed.
const maxRefused = 100

// NewConnections returns a count of connections. limits returns those in force, files has the descriptors.
func NewConnections(limits func() config.Limits, files *descriptors.Budget, logger *slog.Logger) *Connections {
	return &Connections{limits: limits, files: files, logger: logger, refused: make(chan struct{}, maxRefused),
		from: map[netip.Addr]int{}}
}

// Listener returns a listener whose connections count. Those that are too many are closed; if answers is set they are
// told so before, which takes a client that does not expect TLS.
func (c *Connections) Listener(l net.Listener, answers bool) net.Listener {
	return listener{l, c, answers}
}

type listener struct {
	net.Listener
	connections *Connections
	answers     bool
}

// Accept waits for the next connection that is not too many.
func (l listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.connections.admit(conn, l.answers); c != nil {
			return c, nil
		}
	}
}

// admit counts a connection, or closes it and returns nil.
func (c *Connections) admit(conn net.Conn, answers bool) net.Conn {
	ip, _ := remote(conn.RemoteAddr().String())
	limits := c.limits()
	exempt := slices.ContainsFunc(limits.Proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
	if ip.Is6() {
		network, _ := ip.Prefix(64) // it has 128 bits
		ip = network.Addr()
	}
	c.mu.Lock()
	why, taken := "", c.files.Client()
	switch {
	case !taken:
		why = fmt.Sprintf("the process has too many open files: it may have %d (LimitNOFILE)", descriptors.Limit())
	case c.total >= limits.Connections:
		why = fmt.Sprintf("the service has %d connections already ([chttpd] max_connections)", c.total)
	case c.from[ip] >= limits.PerAddress && !exempt:
		why = fmt.Sprintf("your address has %d connections already ([limits] max_connections_per_address)", c.from[ip])
	default:
		c.total++
		c.from[ip]++
	}
	c.mu.Unlock()
	if why == "" {
		return &connection{Conn: conn, limits: c.limits, left: sync.OnceFunc(func() { c.leave(ip) })}
	}
	c.logger.Warn("connection_refused", "from", ip, "reason", why)
	if !taken { // to answer, it would have to stay open
		_ = conn.Close()
		return nil
	}
	select {
	case c.refused <- struct{}{}:
		go func() {
			defer func() { <-c.refused }()
			defer c.files.Give()
			refuse(conn, why, answers)
		}()
	default:
		_ = conn.Close()
		c.files.Give()
	}
	return nil
}

func (c *Connections) leave(ip netip.Addr) {
	c.files.Give()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if c.from[ip]--; c.from[ip] == 0 {
		delete(c.from, ip)
	}
}

// refuse tells a client why its connection is closed. What it has sent is read: closing before would make its system
// forget the answer.
func refuse(conn net.Conn, why string, answers bool) {
	defer conn.Close()
	if !answers {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	body := `{"error":"service_unavailable","reason":"` + why + `"}` + "\n"
	_, err := fmt.Fprintf(conn, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if half, is := conn.(*net.TCPConn); is && err == nil {
		_ = half.CloseWrite()
	}
	for sent, n := make([]byte, 4096), 0; err == nil && n < 1<<20; {
		var more int
		more, err = conn.Read(sent)
		n += more
	}
}

// connection is one that counts until it is closed, and whose writes must get on.
type connection struct {
	net.Conn
	limits func() config.Limits
	left   func()
	until  atomic.Pointer[time.Time] // what the server itself has set as the end of writes
}

// Close closes the connection.
func (c *connection) Close() error {
	defer c.left()
	return c.Conn.Close()
}

// SetDeadline is net.Conn's.
func (c *connection) SetDeadline(t time.Time) error {
	c.until.Store(&t)
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline is net.Conn's.
func (c *connection) SetWriteDeadline(t time.Time) error {
	c.until.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

// progress is how many bytes a client must take in the time of a write.
const progress = 16 << 10

// Write writes piece by piece, each of which the client must take in time.
func (c *connection) Write(p []byte) (written int, err error) {
	for {
		piece := p[written:min(written+progress, len(p))]
		until := time.Now().Add(c.limits().WriteTime)
		if set := c.until.Load(); set != nil && !set.IsZero() && set.Before(until) {
			until = *set
		}
		if err := c.Conn.SetWriteDeadline(until); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(piece)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}
