package world

import (
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
	"couchrelay/sim/decide"
)

// share has an operator put other settings in force on all nodes: another policy, priority_coeff and shares.
// Shares differ by a factor of four at most, as whoever has few waits for their square.
func (u *users) share(site *decide.Site) {
	if u.sharing {
		return
	}
	c, policies := u.w.store.Config.Sharing, len(schedule.Policies())
	c.Policy = (c.Policy + schedule.Policy(site.Int(policies))) % schedule.Policy(policies)
	c.PriorityCoeff = []int64{0, 980_000, 900_000}[site.Int(3)]
	c.Shares = map[string]int64{}
	for _, account := range u.w.Config.Accounts() {
		if n := site.Int(4); n > 0 {
			c.Shares[account] = 25 << n
		}
	}
	asked := u.w.Engine.Now()
	u.sharing = true
	u.w.emit(SharingAsked{})
	u.w.Engine.Go(nil, "operator", func() {
		putInForce(u.w, c, asked)
		u.sharing = false
	})
}

// putInForce stores settings that an operator asked for.
func putInForce(w *World, c jobstore.Sharing, asked instant.Time) {
	w.users.untilDone(func(tx kv.Tx) error { return w.store.Share(tx, c, asked) })
	w.emit(SharingInForce{c})
	w.Engine.Logf("operator", "%s, priority_coeff %d, shares %v", c.Policy, c.PriorityCoeff, c.Shares)
}
