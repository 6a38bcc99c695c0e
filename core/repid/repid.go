// Package repid computes replication ids, byte for byte as CouchDB's replicator does ("Generate Replication
// ID" in its replication protocol). With the same server UUID and the same replication, couchrelay finds the
// checkpoints that CouchDB wrote, and the other way round. An id is a hash of an Erlang term, so the encoding
// of terms is here too.
//
// What goes into the hash, in which order and encoding, must never change: every replication would begin
// again.
package repid

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"

	"couchrelay/core/ejson"
	"couchrelay/core/mango"
	"couchrelay/core/spec"
)

// ID is the id of a replication.
type ID struct {
	// Base is 32 hexadecimal digits. Checkpoints are at _local/Base.
	Base string
	// Extension is empty, "+continuous", "+create_target", or both in this order. It is no part of the
	// checkpoint's id, so a one-shot and a continuous replication of the same databases share checkpoints.
	Extension string
}

func (id ID) String() string { return id.Base + id.Extension }

// Parse reads an id that a user gave, whatever it looks like. Spaces are read as plus signs, which URL
// decoding turns into spaces.
func Parse(text string) ID {
	text = strings.ReplaceAll(text, " ", "+")
	if i := strings.IndexByte(text, '+'); i >= 0 {
		return ID{text[:i], text[i:]}
	}
	return ID{Base: text}
}

// Server is the identity of a server, as far as it goes into ids.
type Server struct {
	UUID string // of the server or, in a cluster, of all of them
	// HostName and Port go into ids of versions 1 and 2 only.
	HostName string
	Port     int
}

// Version is the version of new ids. Checkpoints are looked for under those of older versions, down to 1,
// too.
const Version = 4

// New computes a replication's id. filterSource is the source text of the filter function, and not looked at
// if the replication has none.
func New(s Server, r *spec.Replication, filterSource string) ID {
	return ID{Base(Version, s, r, filterSource), extension(r)}
}

// Base computes a base id of a version from 1 to 4. It panics for other versions.
func Base(version int, s Server, r *spec.Replication, filterSource string) string {
	var t terms
	switch version {
	case 4:
		t = terms{binaryTerm(s.UUID), endpointV4(&r.Source), endpointV4(&r.Target)}
	case 3:
		t = terms{binaryTerm(s.UUID), endpointV3(&r.Source), endpointV3(&r.Target)}
	case 2:
		t = terms{charlist(s.HostName), integer(s.Port), endpointV3(&r.Source), endpointV3(&r.Target)}
	case 1:
		t = terms{charlist(s.HostName), endpointV3(&r.Source), endpointV3(&r.Target)}
	default:
		panic(fmt.Sprintf("repid: no version %d", version))
	}
	return hash(append(t, optionTerms(r, trimSource(filterSource))...))
}

// JobID computes the id of the job that a user's request to /_replicate creates. It is known before anything
// was read from the network: a filter function goes into it by its name. The user's name is a part of it, so
// that users cannot come across each other's jobs.
func JobID(s Server, r *spec.Replication, user string) string {
	t := terms{
		binaryTerm(s.UUID), endpointV4(&r.Source), endpointV4(&r.Target), binaryTerm(user), binaryTerm(extension(r)),
	}
	return hash(append(t, optionTerms(r, r.Filter.Name)...))
}

func hash(t terms) string {
	sum := md5.Sum(append([]byte{version}, t.list()...))
	return hex.EncodeToString(sum[:])
}

func extension(r *spec.Replication) (e string) {
	if r.Continuous {
		e += "+continuous"
	}
	if r.CreateTarget {
		e += "+create_target"
	}
	return e
}

// endpointV4 leaves out the protocol and the usual ports, so that checkpoints are found after a move to
// https.
func endpointV4(e *spec.Endpoint) []byte {
	user := atom("undefined")
	if e.Credentials.IsSet() {
		user = charlist(e.Credentials.User.Reveal())
	}
	host, port, path := charlist(e.URL), atom("undefined"), atom("undefined")
	if url, err := spec.ParseURL(e.URL); err == nil {
		host, port, path = charlist(url.Host), portTerm(url), charlist(url.Path)
	}
	// The last element once had OAuth settings.
	return terms{atom("remote"), user, host, port, path, headers(e), atom("undefined")}.tuple()
}

func portTerm(u spec.URL) []byte {
	usual := u.Scheme == "https" && u.Port == 443 || u.Scheme == "http" && (u.Port == 80 || u.Port == 5984)
	if u.Port == 0 || usual {
		return atom("default")
	}
	return integer(u.Port)
}

func endpointV3(e *spec.Endpoint) []byte {
	return terms{atom("remote"), charlist(e.URL), headers(e)}.tuple()
}

func headers(e *spec.Endpoint) []byte {
	var t terms
	for _, h := range e.Headers {
		t = append(t, terms{charlist(h.Name), charlist(h.Value.Identity())}.tuple())
	}
	return t.list()
}

// optionTerms returns the terms for the options that choose what is replicated. function stands for a filter
// function: its source text, or its name.
func optionTerms(r *spec.Replication, function string) (t terms) {
	f := r.Filter
	switch f.Kind {
	case spec.BuiltinFilter:
		t = terms{binaryTerm(f.Name), jsonText(f.QueryParams, `{}`)}
	case spec.FunctionFilter:
		t = terms{binaryTerm(function), jsonText(f.QueryParams, `{}`)}
	case spec.DocIDs:
		var ids terms
		for _, id := range f.DocIDs {
			ids = append(ids, binaryTerm(id))
		}
		t = terms{ids.list()}
	case spec.Selector:
		normal, _ := mango.Normalize(f.Selector) // package spec has checked it
		t = terms{jsonText(normal, `{}`)}
	}
	if r.WinningRevsOnly {
		t = append(t, binaryTerm("winning_revs_only"))
	}
	if r.SinceSeq != nil {
		t = append(t, jsonText(r.SinceSeq, `null`))
	}
	return t
}

// jsonText encodes JSON that was parsed before, or otherwise if raw is nil.
func jsonText(raw []byte, otherwise string) []byte {
	if raw == nil {
		raw = []byte(otherwise)
	}
	v, _ := ejson.Parse(raw)
	return appendJSON(nil, v)
}

// trimSource drops the spaces around a filter function of one line. It drops no other white space, and
// nothing from a text of several lines: so does CouchDB's regular expression.
func trimSource(source string) string {
	line := strings.TrimSuffix(source, "\n")
	if strings.Contains(line, "\n") {
		return source
	}
	return strings.Trim(line, " ") + source[len(line):]
}
