package world

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/sim/decide"
	"couchrelay/sim/peers"
)

// begin makes the mirrors, as the first node does that starts, and has users act.
func (f *followings) begin() {
	if len(f.list) == 0 {
		return
	}
	list, instances, _ := f.databases()
	f.w.users.untilDone(func(tx kv.Tx) error {
		_, _, err := follow.Follow(tx, f.store, list, instances, f.w.Engine.Now())
		return err
	})
	f.w.Engine.Go(nil, "users of followed databases", func() {
		for !f.w.healed {
			_ = f.w.Engine.Sleep(context.Background(), f.site.Duration(f.w.Config.Think/10, f.w.Config.Think/2))
			if !f.w.healed {
				f.act(f.list[f.site.Int(len(f.list))])
			}
		}
		for _, one := range f.list {
			if one.DB() == nil {
				f.fill(one)
			}
		}
	})
}

// act has a user do something to a document, or to the database.
func (f *followings) act(one *Following) {
	if one.DB() == nil {
		f.fill(one)
		return
	}
	id := fmt.Sprint("f", 1+f.site.Int(5))
	switch what := f.site.Int(16); what {
	case 11:
		f.remake(one)
	case 12:
		f.restore(one)
	case 13, 14:
		f.retry(one, id)
	case 15: // many at once
		for i := range 5 {
			f.edit(one, fmt.Sprint("f", 1+i), f.site.Int(11))
		}
	default:
		f.edit(one, id, what)
	}
}

// edit has a user write a document anew, delete it, give it away, or write it as before, with its state or without.
func (f *followings) edit(one *Following, id string, what int) {
	d := one.Docs[id]
	if d != nil && d.Body != nil && f.gifts.Chance(f.w.Config.HandedOver*decide.Scale/100) {
		if to := f.handOver(d); to != d {
			f.put(one, id, to, false)
			return
		}
	}
	switch {
	case d == nil || d.Body == nil || what < 4:
		f.put(one, id, f.newBody(id), false)
	case what == 4:
		f.put(one, id, f.newBody(id), true)
	case what < 7:
		f.put(one, id, &FollowedDoc{}, false)
	case one.restored:
		f.put(one, id, f.newBody(id), what == 7)
	case what == 7:
		f.put(one, id, d, true)
	case f.owners.Int(3) == 2:
		f.put(one, id, f.handOver(d), false)
	default:
		f.put(one, id, d, false)
	}
}

// handOver gives a document that has an owner another one, and nothing else. An owner where there was none may be the
// server's, which has seen a state written.
func (f *followings) handOver(d *FollowedDoc) *FollowedDoc {
	var body map[string]any
	if json.Unmarshal(d.Body, &body) != nil || body["owner"] == nil {
		return d
	}
	f.n++
	body["owner"] = fmt.Sprint("owner", f.n)
	to := *d
	to.Body, _ = json.Marshal(body)
	return &to
}

// meet has a user write a document in the moment in which a node reads or writes it.
func (f *followings) meet(one *Following, op peer.Op) {
	var ids []string
	switch op := op.(type) {
	case peer.ReadDocs:
		ids = op.IDs
	case peer.EditDocs:
		for _, e := range op.Docs {
			ids = append(ids, e.ID)
		}
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, "f") })
	if len(ids) == 0 || f.w.healed || f.site.Int(4) < 3 {
		return
	}
	id, what := ids[f.site.Int(len(ids))], f.site.Int(11)
	forks := f.w.Config.conflicts() && f.forks.Int(2) == 1
	f.w.Engine.After(f.site.Duration(0, 2*f.w.Config.NetLatency), nil, "user meets a follower", func() {
		switch {
		case one.DB() == nil || f.w.healed:
		case forks:
			f.fork(one, id)
		default:
			f.edit(one, id, what)
		}
	})
}

// remake deletes a database. It may be made again at once, and may then have documents that it had, without states.
// Where nothing but its last change tells it from the one before, it has none of these.
func (f *followings) remake(one *Following) {
	f.w.Engine.Logf(one.DB().String(), "deleted")
	one.server.Delete(one.Name)
	one.restored, one.hidden = !one.server.TellsApart(), nil
	had := maps.Clone(one.Docs)
	switch f.site.Int(3) {
	case 1:
		f.fill(one)
	case 2:
		f.fill(one)
		some := f.parts.Int(2) == 1
		for _, id := range slices.Sorted(maps.Keys(had)) {
			if d := had[id]; d.Body != nil && !d.Design && !one.restored && !(some && f.parts.Int(2) == 1) {
				f.put(one, id, d, false)
			}
		}
	}
}

// RemakeWithout deletes a followed database and makes it again with its documents, without states and but for one: not
// that which users wrote last. It reports whether there is one to leave out.
func (f *Following) RemakeWithout(w *World) bool {
	had := maps.Clone(f.Docs)
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(had)) {
		if d := had[id]; d.Body != nil && !d.Design {
			ids = append(ids, id)
		}
	}
	slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(had[a].At, had[b].At) })
	if len(ids) < 2 || f.DB() == nil || !f.server.TellsApart() {
		return false
	}
	f.server.Delete(f.Name)
	w.follows.fill(f)
	for _, id := range ids[1:] {
		w.follows.put(f, id, had[id], false)
	}
	return true
}

// restore puts a database back to what it is now, after a while.
func (f *followings) restore(one *Following) {
	db, backup, had := one.DB(), one.DB().Snapshot(), maps.Clone(one.Docs)
	lasts := f.site.Duration(time.Second, 2*time.Minute)
	f.w.Engine.After(lasts, nil, "followed database restored", func() {
		if one.DB() != db || f.w.healed {
			return
		}
		f.w.Engine.Logf(db.String(), "restored")
		f.hide(one, backup)
		db.Restore(backup)
		one.server.Lags[one.Name] = map[string]*docs.Document{} // no copy has what is in no backup
		db.Sync()
		one.restored = true
		for id, now := range one.Docs {
			is := FollowedDoc{}
			if had[id] != nil {
				is = *had[id]
			}
			is.Written = now.Written + 1
			one.Docs[id] = &is
		}
	})
}

// hide notes what a backup hides from a node that has read a part of the feed: a document in a change that the node
// has passed, while the database has it in one that the node has not come to.
func (f *followings) hide(one *Following, backup peers.Snapshot) {
	views, err := follow.List(f.w.db.Present(), f.store)
	if err != nil || !one.server.Numeric {
		return // the store is damaged, or the sequences tell that a backup was put back
	}
	for _, v := range views {
		if v.ID() == one.ID() {
			one.hidden = append(one.hidden, backup.Hidden(one.DB(), v.Since)...)
			one.goal = one.DB().Number(v.Goal)
		}
	}
}

// Hides reports whether no client can know that a document is there. A database that is behind where it was when the
// reading of its feed began would tell.
func (f *Following) Hides(id string) bool {
	return slices.Contains(f.hidden, id) && f.DB() != nil && f.DB().Number(f.DB().Last()) >= f.goal
}

// show notes that a document has a new change, which the feed brings.
func (f *Following) show(id string) {
	f.hidden = slices.DeleteFunc(f.hidden, func(hidden string) bool { return hidden == id })
}

// retry has an operator run the job of a document again.
func (f *followings) retry(one *Following, id string) {
	if p := f.w.users.frontend(f.site); p != nil {
		f.w.Engine.Go(p.Process, "api", func() {
			ctx := f.w.Engine.NewContext(p.Process, RequestLimit)
			_, _, _ = steering{f.w.users}.send(ctx, Retry, jobstore.DocumentJobs(one.tenant.instance)+id)
		})
	}
}

// newBody makes up a document.
func (f *followings) newBody(id string) *FollowedDoc {
	u := f.w.users
	body := map[string]any{"source": u.pick(f.site, true), "continuous": f.site.Int(3) == 0}
	d := &FollowedDoc{Valid: f.site.Int(6) > 0}
	if d.Valid {
		target := u.pick(f.site, false)
		if f.w.Config.DuplicatesFail && f.site.Int(2) == 1 {
			body["source"], target = URL("s1", "a1"), URL("s1", "b1")
		}
		if target == body["source"] {
			target = strings.Replace(target, "/b", "/bb", 1)
		}
		body["target"], body["create_target"] = target, true
	} else if f.w.Config.spoils() && f.slips.Int(4) > 0 {
		body["target"] = u.pick(f.slips, false)
		body = spoilt(body, f.slips)
	}
	f.n++
	if f.owners.Int(2) == 1 {
		body["owner"] = UserOf(id)
	}
	body["n"], body["user_ctx"] = f.n, map[string]any{"name": UserOf(id)}
	d.Body, _ = json.Marshal(body)
	return d
}

// put writes a document as its user does, at once, and with the state that it has if that is to be kept.
func (f *followings) put(one *Following, id string, d *FollowedDoc, keep bool) {
	d = &FollowedDoc{Body: d.Body, Valid: d.Valid, Design: d.Design}
	e := docs.Edit{Document: docs.Document{ID: id, Body: d.Body, Deleted: d.Body == nil}}
	if e.Deleted {
		f.n++
		e.Body = fmt.Appendf(nil, `{"n":%d}`, f.n)
	}
	if latest := one.DB().Latest(id); latest != nil && !latest.Deleted {
		e.Rev = latest.Rev
		if keep && d.Valid {
			e.Body, d.State = withStateOf(latest.Body, d.Body)
		}
	} else if e.Deleted {
		return
	}
	f.write(one, d, e)
}

// write writes a revision of a user.
func (f *followings) write(one *Following, d *FollowedDoc, e docs.Edit) {
	id := e.ID
	written := one.DB().Write([]docs.Edit{e})[0]
	one.DB().Sync() // what users wrote is theirs to lose
	f.w.Engine.Logf(one.DB().String(), "user wrote %s %s as %s: %v", id, e.Body, written.Rev, written.Err)
	if written.Err != nil {
		return
	}
	one.show(id)
	is, write := *d, firstWrite{id, written.Rev}
	if _, known := one.first[write]; !known {
		one.first[write] = f.w.Engine.Now()
	}
	is.Written, is.At = 1, one.first[write]
	if old := one.Docs[id]; old != nil {
		is.Written += old.Written
	}
	one.Docs[id], one.wrote[write] = &is, &is
	one.Forked[id] = one.Forked[id] || e.Replicated
}

// withStateOf returns a body with the members of state of another one, and the state.
func withStateOf(other, body []byte) (with []byte, state string) {
	var had, is map[string]any
	_ = json.Unmarshal(other, &had) // objects
	_ = json.Unmarshal(body, &is)
	for name, value := range had {
		if strings.HasPrefix(name, "_replication") {
			is[name] = value
		}
	}
	state, _ = is["_replication_state"].(string)
	with, _ = json.Marshal(is)
	return with, state
}
