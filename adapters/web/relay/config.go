package relay

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"unicode/utf8"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
	"couchrelay/core/ejson"
	"couchrelay/core/kv"
)

// Setting is a key of the configuration with its value.
type Setting struct {
	Value string // as files have it; ***** for secrets
	// Restart says that the value takes effect at the next start.
	Restart bool
}

// ConfigChange asks for other values of keys of one section.
type ConfigChange struct {
	Section string
	// Values are by key. Nil takes back what an earlier change has set.
	Values map[string]*string
	By     string // the user that asks, if it has a name
	// Passing changes are forgotten at the next start or when the configuration is read again.
	Passing bool
}

// Names are the keys, in order.
func (c ConfigChange) Names() []config.Name {
	var names []config.Name
	for _, key := range slices.Sorted(maps.Keys(c.Values)) {
		names = append(names, config.Name{Section: c.Section, Key: key})
	}
	return names
}

// configPath is the configuration of a node.
const configPath = "/_node/{node}/_config"

// configAPI is the configuration of this node over HTTP.
type configAPI struct{ *service }

// routes lists the endpoints of the configuration, which are CouchDB's. That a section can be written is ours.
func (a configAPI) routes() []web.Route {
	const section = configPath + "/{section}"
	const key = section + "/{key...}" // names of databases have slashes
	return []web.Route{
		{Method: "GET", Path: configPath, Handler: a.forThis(a.showConfig)},
		{Method: "POST", Path: configPath + "/_reload", Handler: a.forThis(a.reloadConfig)},
		{Method: "GET", Path: section, Handler: a.forThis(a.showSection)},
		{Method: "PUT", Path: section, Handler: a.forThis(a.putSection)},
		{Method: "GET", Path: key, Handler: a.forThis(a.showKey)},
		{Method: "PUT", Path: key, Handler: a.forThis(a.putKey)},
		{Method: "DELETE", Path: key, Handler: a.forThis(a.deleteKey)},
	}
}

// ErrNoSetting is CouchDB's answer for a key that there is not.
var ErrNoSetting = web.NotFound("unknown_config_value")

// forThis refuses requests for another node. CouchDB forwards them, but here nodes do not know each other's addresses.
func (a configAPI) forThis(h web.Handler) web.Handler {
	return func(q *web.Request) error {
		name := a.nodeName(q)
		if name == a.Host.NodeName() {
			return h(q)
		}
		views, err := a.nodes(q)
		if err != nil {
			return err
		}
		for _, v := range views {
			if v.Name == name {
				return &web.Error{Status: http.StatusMisdirectedRequest, Name: "misdirected_request",
					Reason: "this is node " + a.Host.NodeName() + "; only node " + name +
						" itself has its configuration: send the request to its address"}
			}
		}
		return web.NotFound("no such node: " + name + "; see /_membership")
	}
}

// restartHeader tells that a setting takes effect at the next start. Bodies are as CouchDB's clients expect them.
const restartHeader = "X-Couchrelay-Restart"

// sendSettings answers with settings as plain values, and with the header if one of them asks for it.
func sendSettings(q *web.Request, body any, settings map[string]Setting) error {
	for _, s := range settings {
		if s.Restart {
			q.W.Header().Set(restartHeader, "required")
		}
	}
	return q.SendJSON(http.StatusOK, body)
}

func plain(settings map[string]Setting) map[string]string {
	values := map[string]string{}
	for key, s := range settings {
		values[key] = s.Value
	}
	return values
}

func (a configAPI) showConfig(q *web.Request) error {
	body, all := map[string]map[string]string{}, map[string]Setting{}
	for name, section := range a.Host.Config(q.Context()) {
		if len(section) > 0 { // as in CouchDB
			body[name] = plain(section)
		}
		for key, setting := range section {
			all[name+"/"+key] = setting
		}
	}
	return sendSettings(q, body, all)
}

func (a configAPI) showSection(q *web.Request) error {
	section := a.Host.Config(q.Context())[q.Param("section")]
	if section == nil {
		return ErrNoSetting
	}
	return sendSettings(q, plain(section), section)
}

func (a configAPI) showKey(q *web.Request) error {
	setting, found := a.Host.Config(q.Context())[q.Param("section")][q.Param("key")]
	if !found {
		return ErrNoSetting
	}
	return sendSettings(q, setting.Value, map[string]Setting{"": setting})
}

func (a configAPI) reloadConfig(q *web.Request) error {
	err := a.Host.ReloadConfig(q.Context())
	switch {
	case errors.Is(err, kv.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || kv.CodeOf(err) != 0:
		return err
	case err != nil:
		return web.BadRequest("%s", err)
	}
	return q.SendJSON(http.StatusOK, struct {
		OK bool `json:"ok"`
	}{true})
}

// putKey takes the new value as a JSON string, and answers with the old one.
func (a configAPI) putKey(q *web.Request) error {
	value, err := readSetting(q)
	if err != nil {
		return err
	}
	if value.Kind != ejson.String {
		return web.BadRequest("the body cannot be read: " + notString)
	}
	return a.changeKey(q, &value.Text)
}

// deleteKey takes a value back, and answers with it.
func (a configAPI) deleteKey(q *web.Request) error { return a.changeKey(q, nil) }

func (a configAPI) changeKey(q *web.Request, value *string) error {
	key := q.Param("key")
	old, err := a.changeConfig(q, map[string]*string{key: value})
	if err != nil {
		return err
	}
	return sendSettings(q, old[key].Value, old)
}

// putSection takes an object with new values, for keys that have to change together, and answers with the old ones. A
// null takes a value back.
func (a configAPI) putSection(q *web.Request) error {
	values, err := readSettings(q)
	if err != nil {
		return err
	}
	old, err := a.changeConfig(q, values)
	if err != nil {
		return err
	}
	return sendSettings(q, plain(old), old)
}

// changeConfig returns the settings that were before; Restart is that of the new ones.
func (a configAPI) changeConfig(q *web.Request, values map[string]*string) (map[string]Setting, error) {
	passing := false
	switch persist := q.Header.Get("X-Couch-Persist"); persist {
	case "", "true":
	case "false":
		passing = true
	default:
		return nil, web.BadRequest("X-Couch-Persist: must be true or false, is %q", persist)
	}
	if q.Param("key") == "" {
		q.Note("keys", slices.Sorted(maps.Keys(values)))
	}
	return a.Host.ChangeConfig(q.Context(), ConfigChange{q.Param("section"), values, q.User.Name, passing})
}

const notString = `the value must be a JSON string, such as "true" or "500"`

// readSetting reads the body, which needs no Content-Type, as in CouchDB. One that is no JSON is null.
func readSetting(q *web.Request) (value ejson.Value, err error) {
	const bound = 64 << 10
	body, err := q.ReadBody(bound)
	if err != nil {
		return value, err
	}
	if value, err = ejson.Parse(body); err != nil || !utf8.Valid(body) {
		return ejson.Value{Kind: ejson.Null}, nil // which no setting is
	}
	return value, onceNamed(body)
}

// readSettings reads a body with several settings.
func readSettings(q *web.Request) (map[string]*string, error) {
	body, err := readSetting(q)
	if err != nil {
		return nil, err
	}
	if body.Kind != ejson.Object || len(body.Members) == 0 {
		return nil, web.BadRequest("the body must be a JSON object of keys and values, which are strings or null")
	}
	values := map[string]*string{}
	for _, m := range body.Members {
		switch m.Value.Kind {
		case ejson.String:
			values[m.Name] = &m.Value.Text
		case ejson.Null:
			values[m.Name] = nil
		default:
			return nil, web.BadRequest("`%s`: %s, or null", m.Name, notString)
		}
	}
	return values, nil
}

// configuration is the part of Host that these endpoints need.
type configuration interface {
	// Config are the keys that have a value, by section. Every section that exists is there.
	Config(context.Context) map[string]map[string]Setting
	// ChangeConfig changes keys, all or none, and returns what they were; Restart says whether the new value takes
	// effect at the next start. Its error says what is accepted.
	ChangeConfig(context.Context, ConfigChange) (map[string]Setting, error)
	// ReloadConfig reads the configuration again.
	ReloadConfig(context.Context) error
}
