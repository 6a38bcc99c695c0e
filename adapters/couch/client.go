package couch

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"couchrelay/adapters/descriptors"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/peer"
	"couchrelay/core/ratelimit"
	"couchrelay/core/reach"
	"couchrelay/core/session"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

const (
	// idleTimeout is how long an unused connection stays open unless Options say otherwise.
	idleTimeout = 90 * time.Second
	// idlePerHost bounds the unused connections that are kept to one server. Thousands of jobs of one server send
	// their requests in step, as when they are stopped, and would connect anew for each beyond the bound.
	idlePerHost = 1000
	// dialTimeout bounds connecting, and then the handshakes of TLS and SOCKS. net/http dials on a goroutine of its
	// own, which may outlive the request that asked for the connection; without a bound it could stay for ever.
	dialTimeout = 30 * time.Second
	// maxHeaderBytes bounds an answer's headers.
	maxHeaderBytes = 64 << 10
)

// dialFunc opens a connection, as net.Dialer.DialContext does.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Options are what a Client needs from its process. All but Version may be left out.
type Options struct {
	// Version goes into User-Agent.
	Version string
	// Clock measures timeouts and pauses; nil stands for the system's clock.
	Clock clock.Clock
	// TLS returns the TLS configuration of https endpoints and proxies, by the name that an endpoint gives: the same
	// one as long as connections may be shared. If it is nil, certificates are verified against the system's roots.
	TLS func(name string) (*tls.Config, error)
	// Dial opens connections instead of a net.Dialer, for tests. It has to keep a time limit of its own, and no
	// address is compared with Reach.
	Dial dialFunc
	// Files are the descriptors that connections take; without it there is no bound.
	Files *descriptors.Budget
	// Secrets finds what endpoints name instead of a password or a header's value.
	Secrets Secrets
	// Auth says how endpoints with a user authenticate it; without plugins by basic authentication.
	Auth session.Settings
	// Reach says where the jobs of a user may connect: the same policy as long as connections may be shared. Without it
	// they may connect everywhere.
	Reach func(user string, admin bool) *reach.Policy
	// RequestTimeout ends requests that take longer as a whole, but those to the changes feed; 0 ends none.
	RequestTimeout time.Duration
	// IdleTimeout closes connections that are not used for so long; 0 stands for 90 seconds.
	IdleTimeout time.Duration
	// PlainHTTP is told of each endpoint without TLS, as runs begin. It may be nil.
	PlainHTTP func(side peer.Side, url string)
	// Attempted is told of each HTTP request, once its answer has begun or there will be none. It may be nil. Several
	// goroutines call it.
	Attempted func(Attempt)
	// Broken is told of a broken invariant of the rate limiter, which then starts anew. If it is nil, a
	// broken invariant ends the process.
	Broken func(*invariant.Broken)
}

// Client holds the connections of all replications of a process, and the pauses that servers asked for. It is
// safe for concurrent use.
type Client struct {
	options Options // none of them changes
	agent   string  // value of User-Agent
	clock   clock.Clock
	start   time.Time // by clock, when the Client was made; see steady

	mu         sync.Mutex // guards the fields below
	limiter    ratelimit.Limiter
	transports map[route]*shared // only those with users
}

// route is what two endpoints must have in common to share connections. The proxy belongs to it with its
// credentials: a tunnel that one replication's password opened must not serve another replication.
type route struct {
	proxy  string // URL with credentials; empty for none
	socket spec.SocketOptions
	tls    *tls.Config // never changed; transports have clones
	policy *reach.Policy
}

// shared is a pool of connections. Client.mu guards its users.
type shared struct {
	transport *http.Transport
	users     int // endpoints that acquired it and have not released it, at least 1
}

// New returns a Client. Close it after its last Pair.
func New(o Options) *Client {
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	if o.TLS == nil {
		plain := &tls.Config{}
		o.TLS = func(string) (*tls.Config, error) { return plain, nil }
	}
	o.IdleTimeout = cmp.Or(o.IdleTimeout, idleTimeout)
	c := &Client{
		options: o, agent: "couchrelay/" + o.Version, clock: o.Clock, start: o.Clock.Now(),
		transports: map[route]*shared{},
	}
	o.Files.OnShortage(c.Close)
	return c
}

// Close closes the idle connections of pairs that are still open, which may go on. A pair that is closed closes its
// own.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.transports {
		s.transport.CloseIdleConnections()
	}
}

// acquire returns the connection pool for an endpoint. The caller releases the route once for each call that
// succeeded.
func (c *Client) acquire(e spec.Endpoint, policy *reach.Policy) (*http.Transport, route, error) {
	r := route{socket: e.SocketOptions, policy: policy}
	proxy, err := proxyURL(e.Proxy)
	if err != nil {
		return nil, r, err
	}
	if proxy != nil {
		r.proxy = proxy.String()
	}
	if r.tls, err = c.options.TLS(e.TLS); err != nil {
		return nil, r, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.transports[r]
	if s == nil {
		s = &shared{transport: c.newTransport(r, proxy)}
		c.transports[r] = s
	}
	s.users++
	return s.transport, r, nil
}

// release gives back a pool. The last user's release closes its idle connections.
func (c *Client) release(r route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.transports[r]
	if s.users--; s.users == 0 {
		s.transport.CloseIdleConnections()
		delete(c.transports, r)
	}
}

func (c *Client) newTransport(r route, proxy *url.URL) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		DialContext:            c.dialer(r),
		TLSClientConfig:        r.tls.Clone(),
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        c.options.IdleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		WriteBufferSize:        r.socket.Buffer,
		ReadBufferSize:         r.socket.Buffer,
		OnProxyConnectResponse: checkConnect,
		Protocols:              protocols,
	}
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	return t
}

// proxyURL returns a proxy's URL with its credentials, nil for no proxy. Its error leaves the URL out, which
// may hold a password.
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

// proxyRefusal is the error of a proxy that answered CONNECT with another status than 200, or any request with 407.
type proxyRefusal struct{ status int }

func (p proxyRefusal) Error() string {
	return fmt.Sprintf("the proxy answered %d %s", p.status, http.StatusText(p.status))
}

// checkConnect replaces net/http's own error for a refused CONNECT, which has no type to recognise it by.
func checkConnect(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return proxyRefusal{answer.StatusCode}
	}
	return nil
}

// steady reads a monotonic clock that starts at the wall clock's time. With the wall clock itself, setting it
// back by an hour would lengthen every pause of the limiter by an hour.
func (c *Client) steady() instant.Time { return instant.Of(c.start).Add(c.clock.Since(c.start)) }

// delay asks the rate limiter how long a request has to wait, or whether it must not be sent at all.
func (c *Client) delay(k ratelimit.Key) (verdict ratelimit.Verdict) {
	c.limit(func() { verdict = c.limiter.Delay(k, c.steady()) })
	return verdict
}

// Pauses are the endpoints whose requests wait, since their servers have asked for fewer.
func (c *Client) Pauses() (list []ratelimit.Kept) {
	c.limit(func() { list = c.limiter.Pauses(c.steady()) })
	return list
}

// report tells the rate limiter of an answer. A server that answers 408 or 5xx has trouble of another kind,
// so these neither lengthen nor shorten the pauses.
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

// limit calls f, which may use the limiter, under the lock. A limiter that broke an invariant is replaced by
// an empty one: it holds nothing but pauses, which the servers' next answers set again.
func (c *Client) limit(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if invariant.Guard(c.options.Broken, f) != nil {
		c.limiter = ratelimit.Limiter{}
	}
}
