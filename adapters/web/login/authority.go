package login

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"couchrelay/adapters/certs"
	"couchrelay/adapters/descriptors"
	"couchrelay/adapters/web"
	"couchrelay/core/kv"
)

// asked are the answers of the CouchDB that knows the users.
type asked struct {
	client *http.Client

	mu      sync.Mutex
	answers map[[sha256.Size]byte]answer
	down    error // why it did not answer, until retry
	retry   time.Time
}

// answer says who sends a header; the zero user is nobody that the CouchDB knows.
type answer struct {
	user  web.User
	until time.Time
}

const (
	maxAnswers   = 10_000
	maxAuthority = 1 << 20          // bytes of an answer
	connectTime  = 30 * time.Second // for a connection with TLS
	downPause    = time.Second      // in which a CouchDB that did not answer is not asked again
	maxUsual     = 4 << 10          // bytes of a header that every server reads
)

// newClient returns what asks the CouchDB. Each connection with TLS is made by the settings of that moment.
func newClient(settings func() (*tls.Config, error), files *descriptors.Budget) *http.Client {
	t := &http.Transport{MaxIdleConnsPerHost: 20, IdleConnTimeout: time.Minute,
		DialContext: files.Dial((&net.Dialer{}).DialContext)}
	if settings != nil {
		t.DialTLSContext = files.Dial(certs.Dial(settings, connectTime))
	}
	files.OnShortage(t.CloseIdleConnections)
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (k *asked) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.answers)
	k.down = nil
}

// known returns an answer that still counts.
func (k *asked) known(key [sha256.Size]byte, now time.Time) (answer, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, found := k.answers[key]
	return a, found && now.Before(a.until)
}

func (k *asked) keep(key [sha256.Size]byte, a answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.answers == nil || len(k.answers) >= maxAnswers {
		k.answers = map[[sha256.Size]byte]answer{}
	}
	k.answers[key] = a
}

// remote reports whether the CouchDB takes a name with a password. Without a delay it is asked again about what it took
// from the same address.
func (l *Login) remote(s *settings, q *web.Request, from, name, password string) (bool, *account, error) {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(name, password)
	header := r.Header.Get("Authorization")
	right := keyOf(from, header)
	if _, known := l.asked.known(right, l.Clock.Now()); !known {
		if err := l.delayed(s, q, name, from); err != nil {
			return false, nil, err
		}
	}
	user, err := l.ask(s, q, "Authorization", header)
	if errors.Is(err, errWrong) {
		return false, nil, nil
	}
	if err == nil {
		l.asked.keep(right, answer{user, l.Clock.Now().Add(s.Couch.Cache)})
	}
	return err == nil, &account{User: user}, err
}

func keyOf(header, value string) [sha256.Size]byte {
	return sha256.Sum256([]byte(header + "\x00" + value))
}

// ask asks the CouchDB who sends a header. Its answer counts for a short time.
func (l *Login) ask(s *settings, q *web.Request, header, value string) (web.User, error) {
	key := keyOf(header, value)
	a, known := l.asked.known(key, l.Clock.Now())
	if !known {
		r, err := http.NewRequest(http.MethodGet, s.Couch.URL+"/_session", nil)
		if err != nil {
			return web.User{}, err
		}
		r.Header.Set(header, value)
		said, err := l.send(s, q, r)
		if err != nil {
			return web.User{}, err
		}
		a = answer{said.user, l.Clock.Now().Add(s.Couch.Cache)}
		l.asked.keep(key, a)
		if said.cookie != "" && header == "Cookie" {
			l.setCookie(s, q, said.cookie) // the CouchDB has renewed it
		}
	}
	if a.user.Name == "" {
		return web.User{}, errWrong
	}
	return a.user, nil
}

// open has the CouchDB make a cookie.
func (l *Login) open(s *settings, q *web.Request, name, password string) (cookie string, err error) {
	body, err := json.Marshal(map[string]string{"name": name, "password": password})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequest(http.MethodPost, s.Couch.URL+"/_session", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	said, err := l.send(s, q, r)
	if err == nil && said.cookie == "" {
		err = errWrong // it changed its mind
	}
	return said.cookie, err
}

// said is an answer of /_session.
type said struct {
	user   web.User
	cookie string
}

// send carries a request out. A CouchDB that did not answer is left alone for a moment, so that requests do not queue
// up behind it. That it gave no answer to a long header says nothing about others: anybody can send one.
func (l *Login) send(s *settings, q *web.Request, r *http.Request) (said, error) {
	k := &l.asked
	k.mu.Lock()
	down := k.down
	if down != nil && !l.Clock.Now().Before(k.retry) {
		down, k.down = nil, nil
	}
	k.mu.Unlock()
	if down != nil {
		return said{}, down
	}
	ctx, cancel := context.WithTimeout(q.Context(), s.Couch.Wait)
	defer cancel()
	r.Header.Set("Accept", "application/json")
	if client, _, err := net.SplitHostPort(q.RemoteAddr); err == nil {
		r.Header.Set("X-Forwarded-For", client) // else its delays after wrong passwords are those of all clients
	}
	answer, err := k.client.Do(r.WithContext(ctx))
	if err == nil {
		defer answer.Body.Close()
		var a said
		if a, err = l.read(q, answer); err == nil || !errors.Is(err, kv.ErrUnavailable) {
			return a, err
		}
	} else if failure, is := errors.AsType[*url.Error](err); is {
		err = failure.Err // without the URL, which clients need not know
	}
	if q.Context().Err() != nil {
		return said{}, q.Context().Err()
	}
	l.Logger.Warn("authority_away", "url", s.Couch.URL, "error", err)
	err = web.WithoutAddress(err)
	err = fmt.Errorf("%w: the CouchDB that knows the users gave no answer: %w", kv.ErrUnavailable, err)
	if len(r.Header.Get("Authorization"))+len(r.Header.Get("Cookie")) <= maxUsual {
		k.mu.Lock()
		k.down, k.retry = err, l.Clock.Now().Add(downPause)
		k.mu.Unlock()
	}
	return said{}, err
}

// read reads an answer of /_session.
func (l *Login) read(q *web.Request, r *http.Response) (said, error) {
	switch r.StatusCode {
	case http.StatusOK:
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return said{}, nil
	case http.StatusTooManyRequests:
		if after := r.Header.Get("Retry-After"); after != "" {
			q.W.Header().Set("Retry-After", after)
		}
		return said{}, &web.Error{Status: r.StatusCode, Name: "too_many_requests",
			Reason: "the CouchDB that knows the users asks to wait"}
	default:
		return said{}, fmt.Errorf("%w: it answers %s", kv.ErrUnavailable, r.Status)
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxAuthority))
	if err != nil {
		return said{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
	}
	var body struct {
		OK   bool
		User *struct {
			Name  *string
			Roles []string
		} `json:"userCtx"`
		Name  *string
		Roles []string
	}
	if json.Unmarshal(text, &body) != nil || !body.OK {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		return said{}, fmt.Errorf("%w: its answer is not that of /_session, but %.100q", kv.ErrUnavailable, kind)
	}
	var a said
	if body.User != nil {
		body.Name, body.Roles = body.User.Name, body.User.Roles
	}
	if body.Name != nil {
		a.user = web.User{Name: *body.Name, Roles: body.Roles}
	}
	for _, c := range r.Cookies() {
		if c.Name == cookieName {
			a.cookie = c.Value
		}
	}
	return a, nil
}
