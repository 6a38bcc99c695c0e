package couchdb

import (
	"encoding/json"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"

	"github.com/go-json-experiment/json/jsontext"
)

// idRange is a range of ids.
type idRange struct {
	docs.Listing
	empty bool
}

// keyRange reads key, start_key, end_key, inclusive_end and descending.
func (q *request) keyRange() (r idRange, err error) {
	if r.Descending, err = q.switchOf("descending", false); err != nil {
		return r, err
	}
	inclusive, err := q.switchOf("inclusive_end", true)
	if err != nil {
		return r, err
	}
	r.Before = !inclusive
	if r.From, err = q.key(&r, !r.Descending, "key", "start_key", "startkey"); err != nil {
		return r, err
	}
	if q.Query.Has("key") {
		r.To = r.From
		return r, nil
	}
	r.To, err = q.key(&r, r.Descending, "end_key", "endkey")
	return r, err
}

// key is the first of some parameters that is given. What is no string lies before all ids; lower says
// that the key bounds the range from below.
func (q *request) key(r *idRange, lower bool, names ...string) (*string, error) {
	for _, name := range names {
		text := q.Query.Get(name)
		if text == "" {
			continue
		}
		if !jsontext.Value(text).IsValid() {
			return nil, web.BadRequest("%s must be JSON: the id of a document in double quotes", name)
		}
		var key string
		if json.Unmarshal([]byte(text), &key) == nil && text != "null" {
			return &key, nil
		}
		r.empty = r.empty || !lower || name == "key"
		return nil, nil
	}
	return nil, nil
}

func (r *idRange) contains(id string) bool {
	from, to := r.From, r.To
	if r.Descending {
		from, to = to, from
	}
	beyond := to != nil && (id > *to || id == *to && r.Before && !r.Descending)
	return !r.empty && !beyond && (from == nil || *from < id || *from == id && !(r.Before && r.Descending))
}

// within narrows the range to ids that begin with a prefix, which ends in a slash. Local documents have no others.
func (r *idRange) within(of namespace) {
	if of == everything {
		return
	}
	first, behind := string(of), string(of[:len(of)-1])+"0" // which is the character after a slash
	low, high := &r.From, &r.To
	if r.Descending {
		low, high = high, low
	}
	if *low == nil || **low < first {
		*low = &first
		if r.Descending {
			r.Before = false
		}
	}
	if *high == nil || **high >= behind {
		*high = &behind
		if !r.Descending {
			r.Before = true
		}
	}
	r.After = r.After || r.Descending && **high == behind
}
