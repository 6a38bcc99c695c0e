package world

import (
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
	c, policies := u.w.store.Config.Sharing, len(schedule.Policies)
	c.Policy = (c.Policy + schedule.Policy(site.Int(policies))) % schedule.Policy(policies)
	c.PriorityCoeff = []int64{0, 980_000, 900_000}[site.Int(3)]
	c.Shares = map[string]int64{}
	accounts := []string{"user:" + Requester}
	for _, t := range u.tenants {
		accounts = append(accounts, t.name)
	}
	for _, account := range accounts {
		if n := site.Int(4); n > 0 {
			c.Shares[account] = 25 << n
		}
	}
	asked := u.w.Engine.Now()
	u.sharing = true
	u.w.emit(SharingAsked{})
	u.w.Engine.Go(nil, "operator", func() {
		u.untilDone(func(tx kv.Tx) error { return u.w.store.Share(tx, c, asked) })
		u.sharing = false
		u.w.emit(SharingInForce{c})
		u.w.Engine.Logf("operator", "%s, priority_coeff %d, shares %v", c.Policy, c.PriorityCoeff, c.Shares)
	})
}
