package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// content are the members of a document in their order.
type content []member

type member struct {
	name  string
	value any // numbers as they are written
}

var errNoObject = errors.New("it is no JSON object")

func parse(text []byte) (c content, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, errNoObject
		}
		m := member{}
		m.name, _ = t.(string)
		if d.Decode(&m.value) != nil {
			return nil, errNoObject
		}
		c = append(c, m)
	}
	return c, nil
}

func (c content) get(name string) any {
	for _, m := range c {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// number is the member n, by which the simulator tells the writes of users apart; 0 if there is none.
func (c content) number() uint64 {
	n, _ := c.get("n").(json.Number)
	number, _ := strconv.ParseUint(n.String(), 10, 64)
	return number
}

// without leaves out the members with some names.
func (c content) without(is func(name string) bool) content {
	return slices.DeleteFunc(slices.Clone(c), func(m member) bool { return is(m.name) })
}

// isMark reports whether a replicator writes a member, and no user.
func isMark(name string) bool { return strings.HasPrefix(name, "_replication_") }

// ofUsers is what users wrote, without the id and the revision.
func (c content) ofUsers() content {
	return c.without(func(name string) bool { return strings.HasPrefix(name, "_") })
}

// marks are the members that a replicator wrote.
func (c content) marks() map[string]any {
	all := map[string]any{}
	for _, m := range c {
		if isMark(m.name) {
			all[m.name] = m.value
		}
	}
	return all
}

// over is completed or failed if the document says that its replication is, else empty.
func (c content) over() string {
	state, _ := c.get("_replication_state").(string)
	if state == stateCompleted || state == stateFailed {
		return state
	}
	return ""
}

// kept is what is stored of a document that was sent: the members of a replicator only if they say that the
// replication is over.
func (c content) kept() content {
	over := c.over() != ""
	return c.without(func(name string) bool {
		return strings.HasPrefix(name, "_") && !(over && isMark(name))
	})
}

// isAs reports whether a stored document has the members that were sent, in the same order. One that was sent without
// an owner was given one, which may be null.
func (c content) isAs(sent content) bool {
	if sent.get("owner") == nil {
		owner := func(name string) bool { return name == "owner" }
		if owned := c.without(owner); len(owned) != len(c)-1 {
			return false
		} else {
			c, sent = owned, sent.without(owner)
		}
	}
	return reflect.DeepEqual([]member(c), []member(sent))
}

// field is a member of documents that means something.
type field struct {
	valid func(value any) bool
	usual any  // as good as no member
	order bool // it is about the job, not about what that replicates
}

// fields are those that users of the simulator write, in the words of the manual (docs/replicate.md).
var fields = map[string]field{
	"source": {valid: endpoint}, "target": {valid: endpoint},
	"continuous": {valid: boolean, usual: false}, "winning_revs_only": {valid: boolean, usual: false},
	"create_target": {valid: boolean, usual: false}, "create_target_params": {valid: object},
	"doc_ids": {valid: anything}, "selector": {valid: object}, "filter": {valid: builtin},
	"query_params": {valid: object}, "since_seq": {valid: position},
	"use_checkpoints": {valid: boolean, usual: true}, "use_bulk_get": {valid: boolean, usual: true},
	"checkpoint_interval": {valid: between(1, day)}, "connection_timeout": {valid: between(1, day)},
	"worker_processes": {valid: between(1, 1000)}, "worker_batch_size": {valid: between(1, 100_000)},
	"http_connections": {valid: between(1, 10_000)}, "retries_per_request": {valid: between(0, 1000)},
	"proxy": {valid: address}, "on_refusal": {valid: anything, usual: "skip"},
	"paused": {valid: boolean, order: true}, "weight": {valid: between(1, 1000), order: true},
	"owner": {valid: anything, order: true}, "user_ctx": {valid: anything, order: true},
	"cancel": {valid: func(v any) bool { return v == false }, order: true},
}

const day = 24 * 60 * 60 * 1000 // ms

func anything(any) bool { return true }

func boolean(v any) bool { _, is := v.(bool); return is }

func object(v any) bool { _, is := v.(map[string]any); return is }

func position(v any) bool {
	switch v := v.(type) {
	case string:
		return v != "now" && v != ""
	case json.Number:
		_, err := strconv.ParseUint(v.String(), 10, 64)
		return err == nil
	}
	_, is := v.([]any)
	return is
}

func builtin(v any) bool {
	name, _ := v.(string)
	return !strings.HasPrefix(name, "_") || slices.Contains([]string{"_design", "_doc_ids", "_view"}, name)
}

func between(least, most int) func(any) bool {
	return func(v any) bool {
		text, _ := v.(json.Number)
		n, err := strconv.Atoi(text.String())
		return err == nil && least <= n && n <= most
	}
}

// wrong is a field for which a document asks for nothing that can be replicated; empty if there is none.
func (c content) wrong() string {
	for _, name := range []string{"source", "target"} {
		if c.get(name) == nil {
			return name
		}
	}
	for _, m := range c {
		if f, is := fields[m.name]; is && !f.valid(m.value) {
			return m.name
		}
	}
	return c.alone()
}

// alone is a way to select documents, if there is another one besides; they exclude each other.
func (c content) alone() (name string) {
	n := 0
	for _, way := range []string{"doc_ids", "selector", "filter"} {
		if c.get(way) != nil {
			n, name = n+1, way
		}
	}
	if n < 2 {
		return ""
	}
	return name
}

// asks is which replication a document asks for. What is as good as no member is left out, by its name.
func (c content) asks(usual map[string]json.Number) map[string]any {
	all := map[string]any{}
	for _, m := range c {
		f, is := fields[m.name]
		number, counts := m.value.(json.Number)
		if is && !f.order && m.value != f.usual && !(counts && number == usual[m.name]) {
			all[m.name] = m.value
			if m.name == "source" || m.name == "target" {
				all[m.name] = endpointOf(m.value)
			}
		}
	}
	return all
}

// unknown are the fields that mean nothing, in their order.
func (c content) unknown() (names []string) {
	for _, m := range c.ofUsers() {
		if _, is := fields[m.name]; !is {
			names = append(names, m.name)
		}
	}
	return names
}
