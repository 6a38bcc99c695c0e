package cluster

import (
	"encoding/json"
	"fmt"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
	"couchrelay/sim/decide"
)

var admin = jobstore.Writer{Admin: true}

// requester is who makes requests.
const requester = "user"

// request sends POST /_replicate, often the same as before, or cancels what one started.
func (u *users) request(what string, site *decide.Site) {
	p := u.frontend(site)
	if p == nil {
		return
	}
	if what == CancelRequest {
		if len(u.requests) > 0 {
			u.cancel(p, u.requests[site.Int(len(u.requests))])
		}
		return
	}
	body := u.newBody(site)
	if n := len(u.asked); n > 0 && site.Int(3) > 0 {
		body = u.asked[site.Int(n)]
	} else {
		u.asked = append(u.asked, body)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	rep, err := spec.ParseRequest(raw, u.w.store.Config.Parse)
	if err != nil {
		panic(err)
	}
	u.w.Engine.Go(p.Process, "api", func() {
		ctx, now := u.w.Engine.NewContext(p.Process, requestLimit), u.w.Engine.Now()
		id, err := kv.Run(ctx, u.w.db, func(tx kv.Tx) (string, error) { return u.w.store.Replicate(tx, rep, requester, now) })
		if err == nil {
			u.requests = append(u.requests, id)
			u.checkID(id, rep)
			u.w.Engine.After(0, nil, "accepted", func() { u.w.oracle.accepted(id, rep, now) })
		}
	})
}

// checkID is a part of S3: requests for something else have jobs of their own.
func (u *users) checkID(id string, rep *spec.Replication) {
	what := fmt.Sprintf("from %s to %s, continuous: %v, since %s, with %+v", rep.Source.URL, rep.Target.URL, rep.Continuous, rep.SinceSeq, rep.Filter)
	if before, known := u.asksFor[id]; known && before != what {
		u.w.fail("S3", "job %s is one %s, and a request for one %s was given it", id, before, what)
	}
	u.asksFor[id] = what
}

// accepted is S3 for requests: one that was made at a moment and answered has its job, unless that was removed
// meanwhile. Another one may have replaced it.
func (o *oracle) accepted(id string, rep *spec.Replication, made instant.Time) {
	switch s := o.shadows[id]; {
	case s == nil || s.header == nil && s.gone < made:
		o.w.fail("S3", "request %s was accepted, and has no job", id)
	case s.header != nil && s.header.State == jobs.Finished && s.over < made:
		o.w.fail("S3", "request %s was accepted, and its job was over at %s", id, s.over)
	case s.header != nil && s.record.User != requester:
		o.w.fail("S3", "request %s of %s was accepted, and its job is one of %q", id, requester, s.record.User)
	case s.header != nil && (s.record.Source != rep.Source.URL || s.record.Target != rep.Target.URL || s.record.Continuous != rep.Continuous):
		o.w.fail("S3", "request %s from %s to %s was accepted, and its job does something else", id, rep.Source.URL, rep.Target.URL)
	}
}

func (u *users) cancel(p *process, id string) {
	u.w.Engine.Go(p.Process, "api", func() {
		ctx, now := u.w.Engine.NewContext(p.Process, requestLimit), u.w.Engine.Now()
		if kv.Do(ctx, u.w.db, func(tx kv.Tx) error { return u.w.store.Cancel(tx, id) }) == nil {
			u.w.Engine.After(0, nil, "canceled", func() { u.w.oracle.canceled(id, now) })
		}
	})
}

// canceled is S4 for requests: the job of one that was there before somebody canceled it is gone. A request that was
// under way for long may have come since, whatever its date is.
func (o *oracle) canceled(id string, at instant.Time) {
	if s := o.shadows[id]; s != nil && s.header != nil && s.came < at {
		o.w.fail("S4", "request %s was canceled, and its job of %s is there", id, s.record.Created)
	}
}
