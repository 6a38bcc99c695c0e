package jobstore

import (
	"cmp"
	"errors"
	"net/url"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/kv"
)

var (
	errOthers = docs.Forbidden("Can't update replication documents from other users.")
	errDesign = docs.Forbidden("You are not a db or server admin.")
)

// OwnerOf returns the owner of a document of a replicator database, empty without one.
func OwnerOf(body []byte) string {
	value, err := ejson.Parse(body)
	if err != nil {
		return ""
	}
	owner, _ := value.Get("owner")
	return owner.Text
}

// maxUser bounds the name of a record's user, in bytes. A record has no user if the document names a longer one.
const maxUser = 4096

// userOf returns the user that the job of a document is listed under: the owner or, without one, who user_ctx names.
// It grants nothing.
func userOf(body ejson.Value) string {
	owner, _ := body.Get("owner")
	context, _ := body.Get("user_ctx")
	name, _ := context.Get("name")
	if user := cmp.Or(owner.Text, name.Text); len(user) <= maxUser {
		return user
	}
	return ""
}

// OwnerOfJob returns the owner of a job's document, empty without one.
func OwnerOfJob(s *Store, tx kv.Tx, rec *Record) (string, error) {
	_, doc, body, err := documentOf(s, tx, rec)
	if err != nil || doc == nil {
		return "", err
	}
	owner, _ := body.Get("owner")
	return owner.Text, nil
}

// mayReplace refuses a write to a document of another owner. What the new body says does not count: it may leave the
// owner out, be a tombstone, or a branch that would win. prev is the revision that it replaces, which may be a conflict
// of another owner's: what that hides behind ***** would be the writer's.
func (w *writing) mayReplace(id string, prev *docs.Document) error {
	switch {
	case w.by.Admin:
		return nil
	case prev != nil && !prev.Deleted && OwnerOf(prev.Body) != w.by.Name:
		return errOthers
	}
	winner, err := w.db.Read(id, docs.Want{Deleted: true})
	switch {
	case errors.Is(err, docs.ErrMissing):
		return nil
	case err != nil:
		return err
	case !winner.Deleted && OwnerOf(winner.Body) != w.by.Name:
		return errOthers
	}
	return nil
}

// mayDesign refuses design documents of other users than admins, as CouchDB does in every database.
func (w *writing) mayDesign() error {
	if w.by.Admin {
		return nil
	}
	return errDesign
}

// Redact returns the body of a document of a replicator database for readers that are neither its owner nor admins:
// endpoints have neither credentials nor headers nor query parameters, proxies no credentials.
func Redact(body []byte) ([]byte, error) {
	value, err := ejson.Parse(body)
	if err != nil {
		return nil, err
	}
	for i := range value.Members {
		m := &value.Members[i]
		switch m.Name {
		case "source", "target", "proxy", "source_proxy", "target_proxy":
			m.Value = redactEndpoint(m.Value)
		case "_replication_state_reason":
			m.Value.Text = RedactText(m.Value.Text)
		}
	}
	return value.Append(nil), nil
}

// redactEndpoint leaves the URL of an endpoint, and of an object only what cannot be secret.
func redactEndpoint(v ejson.Value) ejson.Value {
	switch v.Kind {
	case ejson.String:
		return text(RedactURL(v.Text))
	case ejson.Object:
		if address, has := v.Get("url"); has {
			return ejson.Value{Kind: v.Kind, Members: []ejson.Member{{Name: "url", Value: redactEndpoint(address)}}}
		}
		return ejson.Value{Kind: v.Kind}
	}
	return ejson.Value{Kind: ejson.Null}
}

// RedactURL returns a URL without credentials, query and fragment; empty if it cannot be read.
func RedactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	return u.String()
}

// RedactText returns a text in which URLs have neither credentials nor queries.
func RedactText(text string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, "://")
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:i+3])
		text = text[i+3:]
		end := strings.IndexAny(text, " \t\n\"'<>`")
		if end < 0 {
			end = len(text)
		}
		address := text[:end]
		text = text[end:]
		address, _, _ = strings.Cut(address, "?")
		host, path, hasPath := strings.Cut(address, "/")
		b.WriteString(host[strings.LastIndex(host, "@")+1:])
		if hasPath {
			b.WriteString("/" + path)
		}
	}
}
