package couch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"couchrelay/core/session"
	"couchrelay/core/spec"
)

// Secrets finds the secrets that endpoints name: in a file of a directory, as platforms for containers mount them, or
// in the environment.
type Secrets struct {
	Directory string // empty for none
	// Environ reads the environment; nil for the process's own.
	Environ func(name string) string
}

const (
	// secretPrefix begins the names of variables of the environment that are secrets.
	secretPrefix = "COUCHRELAY_SECRET_"
	maxSecret    = 64 << 10 // bytes
)

// Lookup returns the secret as it is now, without the line break at its end. Its errors show nothing of it.
func (s Secrets) Lookup(name string) (string, error) {
	if !spec.ValidSecretName(name) {
		return "", fmt.Errorf("%q is not the name of a secret", name)
	}
	variable := variableOf(name)
	if s.Directory != "" {
		text, err := readSecret(filepath.Join(s.Directory, name))
		if !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
	}
	environ := s.Environ
	if environ == nil {
		environ = os.Getenv
	}
	if text := environ(variable); text != "" {
		return usable(text)
	}
	if s.Directory == "" {
		return "", fmt.Errorf("it is not in the environment as %s, and [secrets] directory is not set", variable)
	}
	return "", fmt.Errorf("it is neither a file in %s nor in the environment as %s", s.Directory, variable)
}

// variableOf is the variable of the environment that holds a secret: in capitals, with _ for all but letters and
// digits.
func variableOf(name string) string {
	return secretPrefix + strings.Map(func(r rune) rune {
		if r == '-' || r == '.' {
			return '_'
		}
		return r
	}, strings.ToUpper(name))
}

func readSecret(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer would keep it waiting
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", err
	}
	return usable(string(text))
}

// usable returns a secret without the line break at its end, if it can be sent in a header.
func usable(text string) (string, error) {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	switch {
	case text == "":
		return "", errors.New("it is empty")
	case len(text) > maxSecret:
		return "", fmt.Errorf("it is longer than %d bytes", maxSecret)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "", errors.New("it must be one line without control characters")
	}
	return text, nil
}

// references are the secrets that an endpoint names, with where they go.
type references struct {
	secrets  Secrets
	user     string                // whose password is named
	password string                // its name; empty for none
	bearer   string                // name of the token that is sent in place of a user; empty for none
	headers  map[string]string     // names of secrets by header
	found    atomic.Pointer[found] // what they stood for last; nil before
}

// found is what references stand for at a moment.
type found struct {
	password      string // empty for none
	authorization string // for basic authentication; empty for none
	header        map[string]string
	own           []string // texts that failures must not show, sorted
	before        []string // those of earlier moments, which requests in flight may have
}

// keptSecrets is how many texts that were secrets before are kept out of failures.
const keptSecrets = 16

// follow notes what the references stood for before.
func (f *found) follow(last *found) {
	slices.Sort(f.own)
	switch {
	case last == nil:
	case slices.Equal(f.own, last.own):
		f.before = last.before
	default:
		f.before = slices.Concat(last.before, last.own)
		f.before = f.before[max(0, len(f.before)-keptSecrets):]
	}
}

// referencesOf are those of an endpoint.
func referencesOf(s Secrets, from spec.Endpoint) *references {
	n := &references{secrets: s, bearer: from.Bearer.Reference(), headers: map[string]string{}}
	if c := from.Credentials; c.Password.Reference() != "" {
		n.user, n.password = c.User.Reveal(), c.Password.Reference()
	}
	for _, h := range from.Headers {
		header := http.CanonicalHeaderKey(h.Name)
		if name := h.Value.Reference(); name != "" && header != "Host" && !slices.Contains(ownHeaders, header) {
			n.headers[header] = name
		}
	}
	return n
}

// lookUp finds what the references stand for now. It fails if one of them stands for nothing.
func (n *references) lookUp() error {
	if n.password == "" && n.bearer == "" && len(n.headers) == 0 {
		return nil
	}
	now := &found{header: map[string]string{}}
	if n.password != "" {
		text, err := n.get(n.password, now)
		if err != nil {
			return err
		}
		token := basicToken(n.user, text)
		now.password, now.authorization, now.own = text, "Basic "+token, append(now.own, token)
	}
	if n.bearer != "" {
		text, err := n.get(n.bearer, now)
		if err != nil {
			return err
		}
		now.header["Authorization"] = "Bearer " + text
	}
	for header, name := range n.headers {
		text, err := n.get(name, now)
		if err != nil {
			return err
		}
		now.header[header] = text
		if _, token, is := strings.Cut(text, " "); is {
			now.own = append(now.own, spellings(token)...)
		}
	}
	now.follow(n.found.Load())
	n.found.Store(now)
	return nil
}

// get looks one secret up.
func (n *references) get(name string, now *found) (string, error) {
	text, err := n.secrets.Lookup(name)
	if err != nil {
		return "", fmt.Errorf("secret %q: %w", name, err)
	}
	now.own = append(now.own, spellings(text)...)
	return text, nil
}

// put adds the headers that the references stand for, to a request that is authenticated as p says.
func (n *references) put(h http.Header, p session.Pass) {
	f := n.found.Load()
	if f == nil {
		return
	}
	for name, value := range f.header {
		h[name] = []string{value}
	}
	if f.authorization != "" && p.Basic {
		h["Authorization"] = []string{f.authorization}
	}
}

// texts are what failures must not show.
func (n *references) texts() []string {
	f := n.found.Load()
	if f == nil {
		return nil
	}
	return slices.Concat(f.own, f.before)
}
