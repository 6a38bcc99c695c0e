package node

import (
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"
	"couchrelay/core/kv"
)

// Gone is a node that another one gave up. It is kept for a while, for operators; nothing is decided by it.
type Gone struct {
	Info Info         `json:"info"` // of its last heartbeat
	At   instant.Time `json:"at"`   // when it was given up, by the clock of By
	By   string       `json:"by"`   // name of the node that did
}

// goneFor is how long a node that was given up is listed.
const goneFor = time.Hour

// bury notes a worker that is about to be expired by another node, under the name of its node: a node that is
// killed again and again has one row.
func bury(tx kv.Tx, s *jobstore.Store, q Expire, now instant.Time) error {
	if q.By == "" || q.Beat == nil {
		return nil
	}
	members, err := Members(tx.Snapshot(), s)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(members, func(m Member) bool {
		return m.Worker == q.Worker && m.Beat == *q.Beat && !m.Expired // what Expire acts upon
	})
	if i < 0 {
		return nil
	}
	row, err := json.Encode(Gone{Info: members[i].Info, At: now, By: q.By})
	if err != nil {
		return err
	}
	key := s.Keys.Jobs.Gone.Pack(members[i].Info.Name)
	tx.AddReadConflict(kv.KeyRange(key))
	tx.Set(key, row)
	return nil
}

// Departed reads the nodes that others gave up and whose names no member has, in the order of their names.
func Departed(r kv.Reader, s *jobstore.Store, members []Member) (list []Gone, err error) {
	living := map[string]bool{}
	for _, m := range members {
		living[m.Info.Name] = true
	}
	rows, err := r.GetRange(s.Keys.Jobs.Gone.Range(), kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		var g Gone
		if json.Decode(row.Value, &g) == nil && !living[g.Info.Name] {
			list = append(list, g)
		}
	}
	return list, nil
}

// forget removes nodes that were given up long ago, or in a future that some clock was set to.
func forget(tx kv.Tx, s *jobstore.Store, now instant.Time) error {
	rows, err := tx.GetRange(s.Keys.Jobs.Gone.Range(), kv.RangeOptions{})
	if err != nil {
		return err
	}
	for _, row := range rows {
		var g Gone
		if json.Decode(row.Value, &g) != nil || now.Sub(g.At) > goneFor || g.At.Sub(now) > goneFor {
			tx.Clear(row.Key)
		}
	}
	return nil
}
