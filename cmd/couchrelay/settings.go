package main

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
	"couchrelay/adapters/web/relay"
)

// layers are what a configuration is made of. Later ones win.
type layers struct {
	files   config.Config // of --config
	path    string        // of the local file; empty for none
	local   config.Local  // what it holds
	passing config.Local  // settings that last until the configuration is read again
	// last sets what the environment and flags say. It may be nil.
	last func(*config.Config) error
}

// config puts the layers together.
func (l layers) config() (config.Config, error) {
	c := l.files.Clone()
	for _, layer := range []config.Local{l.local, l.passing} {
		if err := c.Apply(layer); err != nil {
			return c, err
		}
	}
	if l.last != nil {
		if err := l.last(&c); err != nil {
			return c, err
		}
	}
	return c, c.Check()
}

// readLayers reads the local file over the configuration of files.
func readLayers(files config.Config, path string, last func(*config.Config) error) (layers, error) {
	l := layers{files: files, path: path, last: last}
	if path == "" {
		return l, nil
	}
	var err error
	if l.local, err = config.ReadLocal(path); err != nil {
		return l, err
	}
	c := files.Clone()
	if err := c.Apply(l.local); err != nil {
		return l, fmt.Errorf("local configuration %s: %w", path, err)
	}
	return l, nil
}

// emptied is the error of a file that has become empty. An editor may empty a file before it writes it, and without
// require_valid_user and endpoint_deny the service would be open meanwhile.
func (l layers) emptied(before layers) error {
	const advice = "; the configuration stays as it is; send SIGHUP once the file is written, or "
	for _, path := range l.files.Empty {
		if !slices.Contains(before.files.Empty, path) {
			return fmt.Errorf("configuration %s: has no section any more%srestart to mean it", path, advice)
		}
	}
	if l.local != nil && len(l.local) == 0 && len(before.local) > 0 {
		return fmt.Errorf("local configuration %s: has no setting any more%sremove it to mean it", l.path, advice)
	}
	return nil
}

// tellSkipped logs what a configuration has that means nothing here, so that nothing is ignored silently.
func tellSkipped(logger *slog.Logger, c config.Config) {
	if len(c.Skipped) > 0 {
		logger.Info("config_skipped", "names", strings.Join(c.Skipped, ", "),
			"detail", "they concern a database server, or cannot be done here")
	}
	for _, name := range c.Ignored {
		logger.Warn("config_ignored", "name", name)
	}
}

// errEdited answers a change that would write over an edited file.
var errEdited = &web.Error{Status: http.StatusConflict, Name: "conflict", Reason: "the local file of the " +
	"configuration has changed since it was read: send SIGHUP, or POST to _config/_reload, and ask again"}

// errForgotten answers a change that would never take effect.
var errForgotten = errors.New("the change would take effect at the next start, which forgets it for " +
	"X-Couch-Persist: false; send it without this header")

// with returns the layers after a change. Its errors are those of the client.
func (l layers) with(ch relay.ConfigChange) (layers, error) {
	l.local, l.passing = maps.Clone(l.local), maps.Clone(l.passing)
	layer := &l.local
	if ch.Passing {
		layer = &l.passing
	} else if l.path == "" {
		return l, errors.New("there is no local file to keep the change in: start the service with --config FILE or " +
			"--local-config FILE, or send the header X-Couch-Persist: false for a change until the next start")
	}
	if *layer == nil {
		*layer = config.Local{}
	}
	for _, n := range ch.Names() {
		delete(l.passing, n) // it would win
		delete(*layer, n)
		if value := ch.Values[n.Key]; value != nil {
			text, err := stored(n, *value)
			if err != nil {
				return l, err
			}
			(*layer)[n] = text
		}
	}
	return l, nil
}

// stored returns a value as files keep it.
func stored(n config.Name, value string) (string, error) {
	if err := config.Known(n); err != nil {
		return "", err
	}
	switch {
	case config.IsSecret(n) && n.Section != "admins":
	case !config.IsSecret(n):
		value = strings.TrimSpace(value) // as in CouchDB
	case value == config.Masked:
		return "", fmt.Errorf("%s: must be a password; %s stands for one that is not shown", n, value)
	case n.Key == "" || strings.Contains(n.Key, ":"):
		return "", fmt.Errorf("%s: the name of an admin must not be empty and have no colon", n)
	case value != "" && !strings.HasPrefix(value, "-pbkdf2") && !strings.HasPrefix(value, "-hashed-"):
		value = hashed(value)
	}
	return value, config.Storable(n, value)
}

// hashed returns a password as CouchDB 3.4 and later hash it.
func hashed(password string) string {
	const iterations = 600_000
	salt := randomHex(16)
	key, err := pbkdf2.Key(sha256.New, password, []byte(salt), iterations, sha256.Size)
	if err != nil {
		panic(err) // sizes that are right never fail
	}
	return fmt.Sprintf("-pbkdf2:sha256-%s,%s,%d", hex.EncodeToString(key), salt, iterations)
}

// checkChange returns an error for a change of the layers old that has no effect on c, the configuration after it:
// the environment, flags and other names of the same setting win over what is stored, and files are not changed.
func (l layers) checkChange(old layers, ch relay.ConfigChange, c config.Config) error {
	for _, n := range ch.Names() {
		value := ch.Values[n.Key]
		if value == nil {
			_, kept := old.local[n]
			_, passing := old.passing[n]
			if _, left := c.Admins[n.Key]; n.Section == "admins" && left && !kept && !passing {
				return fmt.Errorf("%s: is in a file of --config; remove it there, and send SIGHUP", n)
			}
			continue
		}
		alone := c.Clone()
		text := l.local[n]
		if ch.Passing {
			text = l.passing[n]
		}
		if err := alone.Set(n.Section, n.Key, text); err != nil {
			return err
		}
		want, got := alone.Values()[n.Section][n.Key], c.Values()[n.Section][n.Key]
		if want != got {
			return fmt.Errorf("%s: is %s, as the environment, a flag or another name of this setting says, "+
				"and that wins over what is stored", n, got)
		}
	}
	return nil
}
