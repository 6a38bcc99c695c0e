package spec

import (
	"bytes"
	"fmt"
	"io"

	"couchrelay/core/ejson"

	"github.com/go-json-experiment/json/jsontext"
)

// StripCredentials makes a replication document fit for readers who are not its owner. It removes user and
// password from the URLs of endpoints, in objects too, and of proxies. Endpoint objects lose headers and
// auth, and are written without spaces. Everything else stays byte for byte. The document need not be a valid
// replication: null takes the place of an endpoint or URL of a type that it cannot have.
func StripCredentials(doc []byte) ([]byte, error) {
	var out []byte
	copied := 0 // how much of doc is dealt with
	err := eachMember(doc, func(name string, value jsontext.Value, end int) {
		var shown jsontext.Value
		switch name {
		case "source", "target":
			shown = stripEndpoint(value)
		case "proxy", "source_proxy", "target_proxy":
			shown = stripURL(value)
		default:
			return
		}
		out = append(out, doc[copied:end-len(value)]...)
		out = append(out, shown...)
		copied = end
	})
	if err != nil {
		return nil, err
	}
	return append(out, doc[copied:]...), nil
}

// eachMember visits the members of an object, also those with repeated names. end is the offset behind the
// value.
func eachMember(object []byte, visit func(name string, value jsontext.Value, end int)) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	t, err := d.ReadToken()
	if err == nil && t.Kind() != ejson.Object {
		return fmt.Errorf("document is not a JSON object: %w", ejson.ErrSyntax)
	}
	for err == nil && d.PeekKind() != jsontext.KindEndObject {
		var value jsontext.Value
		if t, err = d.ReadToken(); err == nil {
			name := t.String()
			if value, err = d.ReadValue(); err == nil {
				visit(name, value, int(d.InputOffset()))
			}
		}
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	if err == nil {
		if _, err = d.ReadToken(); err == io.EOF {
			return nil
		}
	}
	return fmt.Errorf("document: %w at byte %d", ejson.ErrSyntax, d.InputOffset())
}

func stripEndpoint(value jsontext.Value) jsontext.Value {
	if value.Kind() != ejson.Object {
		return stripURL(value)
	}
	out := jsontext.Value("{")
	// It cannot fail: the value was read before as a part of the document.
	_ = eachMember(value, func(name string, member jsontext.Value, _ int) {
		switch name {
		case "headers", "auth":
			return
		case "url":
			member = stripURL(member)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = quote(out, name)
		out = append(out, ':')
		out = append(out, member...)
	})
	return append(out, '}')
}

func stripURL(value jsontext.Value) jsontext.Value {
	switch value.Kind() {
	case ejson.String:
		url, _ := jsontext.AppendUnquote(nil, value)
		if stripped := StripUserinfo(string(url)); stripped != string(url) {
			return quote(nil, stripped)
		}
		return value
	case ejson.Object, ejson.Array:
		return jsontext.Value("null")
	default:
		return value
	}
}

// quote appends s as a JSON string. It cannot fail: invalid UTF-8 was replaced when s was read.
func quote(dst jsontext.Value, s string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(dst, s)
	return quoted
}
