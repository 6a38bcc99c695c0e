package couch

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/ratelimit"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

const (
	// idleTimeout closes connections that nobody used for so long (connection_close_interval).
	idleTimeout = 90 * time.Second
	// idlePerHost bounds the unused connections that are kept to one server.
	idlePerHost = 100
	// dialTimeout ends an attempt to connect that nobody waits for any more.
	dialTimeout = 30 * time.Second
	// maxHeaderBytes bounds an answer's headers.
	maxHeaderBytes = 64 << 10
)

// Options are what a Client needs from its process. All but Version may be left out.
type Options struct {
	// Version goes into User-Agent.
	Version string
	Clock   clock.Clock
	// TLS is used for all https endpoints and proxies. Without it, or when it names no roots,
	// certificates are verified against the system's: CouchDB's own replicator verifies nothing by
	// default. InsecureSkipVerify is for verify_ssl_certificates = false.
	TLS *tls.Config
	// Dial replaces the way to connections, for tests and connect_to.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Broken is told of a broken invariant of the limiter, which then starts anew; without it the process
	// ends.
	Broken func(*invariant.Broken)
}

// Client is shared by all replications of a process: it holds their connections and knows which
// servers asked to be left in peace. It is safe for concurrent use.
type Client struct {
	agent string
	clock clock.Clock
	start time.Time
	tls   *tls.Config
	dial  func(ctx context.Context, network, address string) (net.Conn, error)

	broken func(*invariant.Broken) // Options.Broken

	mu         sync.Mutex
	limiter    ratelimit.Limiter
	transports map[route]*shared
}

// route is what connections must have in common to be shared.
type route struct {
	proxy  string // with credentials
	socket spec.SocketOptions
}

// shared is a pool of connections in use by some pairs.
type shared struct {
	transport *http.Transport
	users     int
}

// New makes a Client.
func New(o Options) *Client {
	c := &Client{
		agent: "couchrelay/" + o.Version, clock: o.Clock, tls: o.TLS, dial: o.Dial, broken: o.Broken,
		transports: map[route]*shared{},
	}
	if c.clock == nil {
		c.clock = clock.New()
	}
	c.start = c.clock.Now()
	if c.tls == nil {
		c.tls = &tls.Config{}
	}
	if c.dial == nil {
		c.dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: -1}).DialContext
	}
	return c
}

// Close closes all idle connections. Pairs close theirs.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.transports {
		s.transport.CloseIdleConnections()
	}
}

// acquire returns the connection pool for an endpoint. Each call needs one of release.
func (c *Client) acquire(e spec.Endpoint) (*http.Transport, route, error) {
	r := route{socket: e.SocketOptions}
	proxy, err := proxyURL(e.Proxy)
	if err != nil {
		return nil, r, err
	}
	if proxy != nil {
		r.proxy = proxy.String()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.transports[r]
	if s == nil {
		s = &shared{transport: c.newTransport(proxy, e.SocketOptions)}
		c.transports[r] = s
	}
	s.users++
	return s.transport, r, nil
}

func (c *Client) release(r route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.transports[r]
	if s.users--; s.users == 0 {
		s.transport.CloseIdleConnections()
		delete(c.transports, r)
	}
}

func (c *Client) newTransport(proxy *url.URL, socket spec.SocketOptions) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		DialContext:            c.dialer(socket),
		TLSClientConfig:        c.tls.Clone(),
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		WriteBufferSize:        socket.Buffer,
		ReadBufferSize:         socket.Buffer,
		OnProxyConnectResponse: checkConnect,
		Protocols:              protocols,
	}
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	return t
}

func proxyURL(p *spec.Proxy) (*url.URL, error) {
	if p == nil {
		return nil, nil
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return nil, fmt.Errorf("proxy has an invalid url")
	}
	if p.Credentials.IsSet() {
		u.User = url.UserPassword(p.Credentials.User.Reveal(), p.Credentials.Password.Reveal())
	}
	return u, nil
}

// proxyRefusal is a proxy's answer to CONNECT.
type proxyRefusal struct{ status int }

func (p proxyRefusal) Error() string {
	return fmt.Sprintf("the proxy answered %d %s", p.status, http.StatusText(p.status))
}

func checkConnect(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return proxyRefusal{answer.StatusCode}
	}
	return nil
}

// steady is a clock that starts with the wall clock and never jumps, as the loop's: set back, the wall clock
// would close servers for as long.
func (c *Client) steady() instant.Time { return instant.Of(c.start).Add(c.clock.Since(c.start)) }

// delay asks the rate limiter before a request.
func (c *Client) delay(k ratelimit.Key) (verdict ratelimit.Verdict) {
	c.limit(func() { verdict = c.limiter.Delay(k, c.steady()) })
	return verdict
}

// report tells the rate limiter of an answer. 408 and 5xx say nothing about being asked too often.
func (c *Client) report(k ratelimit.Key, status int, retryAfter time.Duration) {
	c.limit(func() {
		now := c.steady()
		switch {
		case status == http.StatusTooManyRequests:
			c.limiter.Failure(k, now, retryAfter)
		case status < 500 && status != http.StatusRequestTimeout:
			c.limiter.Success(k, now)
		}
	})
}

// limit has f use the limiter. A limiter that broke an invariant is replaced: it holds nothing but pauses,
// which the servers' next answers set again.
func (c *Client) limit(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if invariant.Guard(c.broken, f) != nil {
		c.limiter = ratelimit.Limiter{}
	}
}
