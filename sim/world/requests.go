package world

import (
	"encoding/json"
	"maps"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
	"couchrelay/sim/decide"
)

var admin = jobstore.Writer{Admin: true}

// Requester is the name of the user who sends requests to _replicate.
const Requester = "user"

// request sends POST /_replicate, often the same as before.
func (u *users) request(site *decide.Site) {
	p := u.frontend(site)
	if p == nil {
		return
	}
	body := u.newBody(site)
	if n := len(u.asked); n > 0 && site.Int(3) > 0 {
		body = u.asked[site.Int(n)]
	} else {
		u.asked = append(u.asked, body)
	}
	body = maps.Clone(body)
	sign(u.w, body)
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	rep, err := spec.ParseRequest(raw, u.w.store.Config.Parse)
	if err != nil {
		panic(err)
	}
	u.w.Engine.Go(p.Process, "api", func() {
		ctx := u.w.Engine.NewContext(p.Process, RequestLimit)
		now := moment(ctx, u)
		begun := false
		id, err := kv.Run(ctx, u.w.db, func(tx kv.Tx) (string, error) {
			id, err := u.w.store.Replicate(tx, rep, Requester, now)
			if err == nil {
				u.w.emit(RequestBegins{id, rep, now})
			}
			if err == nil && !begun {
				begun = true
				looking{u}.follow(id, nil)
			}
			return id, err
		})
		if err == nil {
			u.requests = append(u.requests, id)
			u.w.emit(RequestAnswered{id, rep})
			u.w.Engine.After(0, nil, "accepted", func() { u.w.emit(RequestAccepted{id, rep, now}) })
		}
		if err == nil && u.w.Config.Actions[JobWait] > 0 {
			w := &Waiter{id, Over, p}
			if rep.Continuous {
				w.Wanted = Named
			}
			waiting{u}.await(w)
		}
	})
}

// cancelRequest cancels the job of a request.
func (u *users) cancelRequest(site *decide.Site) {
	if p := u.frontend(site); p != nil && len(u.requests) > 0 {
		u.cancel(p, u.requests[site.Int(len(u.requests))])
	}
}

func (u *users) cancel(p *Node, id string) {
	u.w.Engine.Go(p.Process, "api", func() {
		ctx := u.w.Engine.NewContext(p.Process, RequestLimit)
		now := moment(ctx, u)
		u.w.emit(CancelBegins{id, now})
		looking{u}.follow(id, nil)
		if kv.Do(ctx, u.w.db, func(tx kv.Tx) error { return u.w.store.Cancel(tx, id) }) == nil {
			u.w.Engine.After(0, nil, "canceled", func() { u.w.emit(RequestCanceled{id, now}) })
		}
	})
}
