package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"couchrelay/core/json"
)

// answerTime bounds a request, answerSize its answer.
const (
	answerTime = 9 * time.Second
	answerSize = 64 << 20
)

// Errors that are in the chain of those of servers.
var (
	ErrLogin  = errors.New("needs a login")
	ErrSilent = errors.New("does not answer")
)

// client asks a server.
type client struct {
	http           *http.Client
	base           *url.URL // without user
	user, password string
	patience       time.Duration // for an answer
}

func newClient(address string) (*client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, errors.New("the address of a server must be http://HOST:PORT or https://HOST:PORT, " +
			"with USER:PASSWORD@ ahead of HOST if it needs a login")
	}
	c := &client{base: u, patience: answerTime}
	if u.User != nil {
		c.user = u.User.Username()
		c.password, _ = u.User.Password()
		u.User = nil
	}
	// A redirect could lead the password to another host.
	c.http = &http.Client{CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return c, nil
}

// get asks for a path below the address and decodes the answer. It returns the time by the server's clock.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) (time.Time, error) {
	limited, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	target := strings.TrimSuffix(c.base.String(), "/") + "/" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	now, err := c.ask(limited, target, into)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("%w within %s", ErrSilent, c.patience)
	}
	return now, err
}

func (c *client) ask(ctx context.Context, target string, into any) (now time.Time, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return now, err
	}
	request.Header.Set("Accept", "application/json")
	if c.user != "" {
		request.SetBasicAuth(c.user, c.password)
	}
	answer, err := c.http.Do(request)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return now, failed.Err // the rest is the address once more
	}
	if err != nil {
		return now, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerSize+1))
	switch {
	case err != nil:
		return now, err
	case len(body) > answerSize:
		return now, fmt.Errorf("the answer is longer than %d bytes", answerSize)
	case answer.StatusCode != http.StatusOK:
		return now, c.refusal(answer, body)
	}
	if err := json.Decode(body, into); err != nil {
		return now, fmt.Errorf("the answer is not the JSON that is expected (%s): %w",
			answer.Header.Get("Content-Type"), err)
	}
	if now, err = http.ParseTime(answer.Header.Get("Date")); err != nil {
		now = time.Now()
	}
	return now, nil
}

// refusal is the error of an answer with another status than 200.
func (c *client) refusal(answer *http.Response, body []byte) error {
	var told struct {
		Error  string `json:"error"`
		Reason string `json:"reason"`
	}
	_ = json.Decode(body, &told) // an answer that is no JSON tells no reason
	switch code := answer.StatusCode; {
	case code == http.StatusUnauthorized && c.user == "":
		return fmt.Errorf("it %w: put that of an admin into the address, http://USER:PASSWORD@HOST:PORT", ErrLogin)
	case code == http.StatusUnauthorized:
		return fmt.Errorf("it %w: it refuses user %q, or the password", ErrLogin, c.user)
	case code >= 300 && code < 400:
		return fmt.Errorf("answered %d, a redirect to %q; give that address", code, answer.Header.Get("Location"))
	default:
		return fmt.Errorf("answered %d %s", code, strings.TrimSpace(told.Error+" "+told.Reason))
	}
}
