package spec

import (
	"strings"

	"couchrelay/core/ejson"
)

// BeyondCouchDB names the fields of a replication document that a CouchDB does not know. If a field is needed, the
// replication would not run in a CouchDB without it, or would run although it is paused. A field that is ignored only
// changes how the replication runs.
func BeyondCouchDB(body ejson.Value) (needed, ignored []string) {
	for _, side := range []string{"source", "target"} {
		e, _ := body.Get(side)
		needed = append(needed, neededOf(side, e)...)
		for _, name := range []string{"tls", "compression"} {
			if _, has := e.Get(name); has {
				ignored = append(ignored, side+"."+name)
			}
		}
	}
	if paused, _ := body.Get("paused"); paused.Kind == ejson.True {
		needed = append(needed, "paused")
	}
	if _, has := body.Get("weight"); has {
		ignored = append(ignored, "weight")
	}
	if what, has := body.Get("on_refusal"); has && what.Text != "skip" {
		ignored = append(ignored, "on_refusal")
	}
	return needed, ignored
}

// neededOf names what an endpoint needs that a CouchDB does not know: secrets, tokens and local names, of which it
// would send nothing, or something else.
func neededOf(side string, e ejson.Value) (needed []string) {
	url := e
	if e.Kind == ejson.Object {
		url, _ = e.Get("url")
	}
	if url.Kind == ejson.String && !strings.Contains(url.Text, "://") {
		needed = append(needed, side+" without a server")
	}
	auth, _ := e.Get("auth")
	if _, has := auth.Get("bearer"); has {
		needed = append(needed, side+".auth.bearer")
	}
	basic, _ := auth.Get("basic")
	if password, _ := basic.Get("password"); password.Kind == ejson.Object {
		needed = append(needed, side+".auth.basic.password.secret")
	}
	headers, _ := e.Get("headers")
	for _, h := range headers.Members {
		if h.Value.Kind == ejson.Object {
			needed = append(needed, side+".headers."+h.Name+".secret")
		}
	}
	return needed
}
