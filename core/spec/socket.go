package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SocketOptions are TCP options of connections to an endpoint. As in Erlang, options that are not set have
// the system's default, which is off for the switches.
type SocketOptions struct {
	KeepAlive bool `json:"keepalive,omitempty"`
	NoDelay   bool `json:"nodelay,omitempty"`
	// Sizes in bytes; 0 leaves the choice to the system. Buffer is a buffer of the program, the others are
	// the kernel's.
	SendBuffer    int `json:"sndbuf,omitempty"`
	ReceiveBuffer int `json:"recbuf,omitempty"`
	Buffer        int `json:"buffer,omitempty"`
	// Priority is that of the packets in the queues of the machine, where its system has such (Linux).
	Priority int `json:"priority,omitempty"`
}

const (
	maxBuffer   = 1 << 30 // bytes
	maxPriority = 6       // that a process may set without privileges
)

// ParseSocketOptions reads Erlang's notation, for example [{keepalive, true}, {sndbuf, 65536}]. It accepts
// the options that valid names. NoDelay is true unless the text turns it off. Errors describe the mistake
// without a prefix.
func ParseSocketOptions(text string, valid []string) (SocketOptions, error) {
	o := SocketOptions{NoDelay: true}
	list, err := parseErlangProps(text)
	for _, prop := range list {
		if err == nil && !slices.Contains(valid, prop.name) {
			err = fmt.Errorf("`%s` is not one of the options %s", prop.name, strings.Join(valid, ", "))
		}
		if err == nil {
			err = o.set(prop)
		}
	}
	return o, err
}

func (o *SocketOptions) set(prop erlangProp) error {
	switch prop.name {
	case "keepalive":
		return setSwitch(&o.KeepAlive, prop)
	case "nodelay":
		return setSwitch(&o.NoDelay, prop)
	case "sndbuf":
		return setNumber(&o.SendBuffer, prop, 1, maxBuffer)
	case "recbuf":
		return setNumber(&o.ReceiveBuffer, prop, 1, maxBuffer)
	case "buffer":
		return setNumber(&o.Buffer, prop, 1, maxBuffer)
	case "priority":
		return setNumber(&o.Priority, prop, 0, maxPriority)
	default:
		return fmt.Errorf("`%s` is not supported yet", prop.name)
	}
}

func setSwitch(to *bool, prop erlangProp) error {
	if prop.value != "true" && prop.value != "false" {
		return fmt.Errorf("`%s` must be true or false", prop.name)
	}
	*to = prop.value == "true"
	return nil
}

func setNumber(to *int, prop erlangProp, least, most int) (err error) {
	if *to, err = strconv.Atoi(prop.value); err != nil || *to < least || *to > most {
		return fmt.Errorf("`%s` must be an integer from %d to %d", prop.name, least, most)
	}
	return nil
}

// erlangProp is a pair of an atom and an atom or integer.
type erlangProp struct{ name, value string }

// parseErlangProps reads a list of pairs.
func parseErlangProps(text string) (props []erlangProp, err error) {
	t := erlangText{strings.TrimSpace(text)}
	ok := t.take("[")
	for ok && !t.take("]") {
		if ok = (len(props) == 0 || t.take(",")) && t.take("{"); !ok {
			break
		}
		prop := erlangProp{name: t.word()}
		ok = t.take(",")
		prop.value = t.word()
		ok = ok && t.take("}") && prop.name != "" && prop.value != ""
		props = append(props, prop)
	}
	if !ok || t.rest != "" {
		return nil, fmt.Errorf("it is not a list such as [{keepalive, true}, {sndbuf, 65536}]")
	}
	return props, nil
}

type erlangText struct{ rest string }

func (t *erlangText) take(token string) (found bool) {
	rest, found := strings.CutPrefix(t.rest, token)
	if found {
		t.rest = strings.TrimLeft(rest, " \t\r\n")
	}
	return found
}

// word takes an unquoted atom or an integer.
func (t *erlangText) word() string {
	end := strings.IndexFunc(t.rest, func(r rune) bool {
		return r > 'z' || !isAlphanumeric(byte(r)) && r != '_' && r != '-'
	})
	if end < 0 {
		end = len(t.rest)
	}
	word := t.rest[:end]
	t.rest = strings.TrimLeft(t.rest[end:], " \t\r\n")
	return word
}

func (p *parser) socketOptions() SocketOptions {
	if _, has := p.body.Get("socket_options"); !has {
		return p.config.SocketOptions
	}
	o, err := ParseSocketOptions(p.text("socket_options"), p.config.ValidSocketOptions)
	if err != nil {
		p.badRequest("parameter `socket_options`: %v", err)
	}
	return o
}
