package eventlog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"

	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// The types that a log may name. A type that is missing here makes logs with it unreadable.
var (
	nodeEvents  = names(node.Events())
	nodeResults = names(node.Results())
	runEvents   = names([]replication.Event{
		replication.Begin{}, replication.Reply{}, replication.Identified{}, replication.Wake{},
		replication.Stop{}, replication.Stored{}, replication.RefusedPage{}, replication.TryRefused{},
		replication.GiveWay{},
	})
	runResults = names([]peer.Result{
		peer.Opened{}, peer.Created{}, peer.Local{}, peer.LocalWritten{}, peer.Filter{}, peer.Changes{},
		peer.Diff{},
		peer.Fetched{}, peer.Written{}, peer.Copied{}, peer.Committed{}, peer.Pending{}, peer.RevFound{},
		peer.NewestChange{},
	})
)

// names returns the types of values by their names.
func names[T any](values []T) map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, v := range values {
		t := reflect.TypeOf(v)
		types[t.Name()] = t
	}
	return types
}

// tag encodes a value. All values here can be encoded.
func tag(v any) tagged {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("eventlog: %T: %v", v, err))
	}
	return tagged{Type: reflect.TypeOf(v).Name(), Value: raw}
}

// untag decodes a value, whose type must be among types.
func untag(t tagged, types map[string]reflect.Type) (any, error) {
	typ, known := types[t.Type]
	if !known {
		return nil, fmt.Errorf("unknown type %q", t.Type)
	}
	v := reflect.New(typ)
	if err := json.Unmarshal(t.Value, v.Interface()); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Type, err)
	}
	return v.Elem().Interface(), nil
}

// putEvent stores an event. Its Result, which has one of several types, is stored apart, with the name of its
// type.
func (s *step) putEvent(ev any) {
	var result any
	switch e := ev.(type) {
	case node.Done:
		if e.Result != nil {
			result = e.Result
		}
		e.Result = nil
		ev = e
	case replication.Reply:
		if e.Result != nil {
			result = e.Result
		}
		e.Result = nil
		ev = e
	}
	s.Event = tag(ev)
	if result != nil {
		t := tag(result)
		s.Result = &t
	}
}

// nodeEvent returns the event of a step of the node.
func (s *step) nodeEvent() (node.Event, error) {
	v, err := untag(s.Event, nodeEvents)
	if err != nil {
		return nil, err
	}
	done, is := v.(node.Done)
	if !is || s.Result == nil {
		return v.(node.Event), nil
	}
	result, err := untag(*s.Result, nodeResults)
	if err != nil {
		return nil, err
	}
	done.Result = result.(node.Result)
	return done, nil
}

// runEvent returns the event of a step of a run.
func (s *step) runEvent() (replication.Event, error) {
	v, err := untag(s.Event, runEvents)
	if err != nil {
		return nil, err
	}
	reply, is := v.(replication.Reply)
	if !is || s.Result == nil {
		return v.(replication.Event), nil
	}
	result, err := untag(*s.Result, runResults)
	if err != nil {
		return nil, err
	}
	reply.Result = result.(peer.Result)
	return reply, nil
}

// redacted returns an event or effect without the parts that must not be in a log (see the package comment).
// The machines decide nothing by those parts, so a replay comes to the same decisions without them. The value
// itself is not changed.
func redacted(v any) any {
	switch v := v.(type) {
	case node.Done:
		if a, is := v.Result.(node.Accepted); is {
			list := make([]jobstore.Work, len(a.Work))
			for i, w := range a.Work {
				list[i] = redactedWork(w)
			}
			a.Work = list
			v.Result = a
		}
		return v
	case node.StartRun:
		v.Work = redactedWork(v.Work)
		return v
	case replication.Reply:
		if f, is := v.Result.(peer.Filter); is {
			v.Result = peer.Filter{Code: digestOf(f.Code), Rev: f.Rev}
		}
		return v
	}
	return v
}

// redactedWork keeps of a replication only whether it is continuous, and of its record's addresses all but
// query and credentials.
func redactedWork(w jobstore.Work) jobstore.Work {
	record := *w.Record
	for _, address := range []*string{&record.Source, &record.Target, &record.SourceProxy,
		&record.TargetProxy} {
		*address = withoutQuery(*address)
	}
	record.Parking = jobstore.Parking{} // which the store reads from the header, and jobs that run have none
	w.Record = &record
	w.Replication = &spec.Replication{Continuous: w.Replication.Continuous}
	return w
}

// withoutQuery returns a URL without query, user and password. A text that is no URL may hold anything, so it
// becomes empty.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// digestOf returns a digest that represents a filter function in a log.
func digestOf(code string) string {
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:16])
}
