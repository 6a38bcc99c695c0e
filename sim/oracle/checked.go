package oracle

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	store "couchrelay/core/check"
	"couchrelay/core/check/whole"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/prng"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/world"
)

// checked judges the check of the store that operators run: at rest on the store itself, then on a copy of it in which
// a row is damaged.
type checked struct {
	*chronicle
	ticks int
	kinds []damageKind
}

var checkedSubject = subject{
	invariants: []Invariant{
		{"S3j", "A check of the whole store finds nothing wrong with any row."},
		{"S3k", "A check reports a row that was lost, or of which nothing can be made, and a key that no row has. " +
			"After its repairs it has nothing more to repair."},
	},
	begin: func(c *chronicle) {
		ch := &checked{chronicle: c, kinds: damageKinds}
		c.on.ticked.add(func(world.Ticked) {
			if ch.ticks++; ch.ticks == 8 || ch.ticks == 64 { // seldom, since a check reads everything
				ch.check()
			}
		})
		c.on.atRest.add(func(struct{}) {
			ch.check()
			ch.damage()
		})
	},
}

// check is S3j.
func (ch *checked) check() {
	if found := ch.look(ch.w.Present()); len(found) > 0 {
		ch.Fail("S3j", "a check finds that %s: %s", found[0].Key, found[0].What)
	}
}

// look returns what a check finds.
func (ch *checked) look(r kv.Reader) (all []store.Finding) {
	c := whole.New(ch.w.Root(), nil, true)
	for {
		found, done, err := c.Step(r)
		if err != nil {
			ch.unreadable("the store, for a check", err)
			return nil
		}
		if all = append(all, found...); done {
			return all
		}
	}
}

// damagedRows is how many rows are damaged in a world, each in a copy of its own. Each costs two checks.
const damagedRows = 3

// damage is S3k.
func (ch *checked) damage() {
	pairs, err := ch.w.Present().GetRange(tuple.Subspace(ch.w.Root()).Range(), kv.RangeOptions{})
	if err != nil || len(pairs) == 0 {
		return // it is an empty store, or S3j has told
	}
	kinds, rows := []string{}, map[string][]kv.KeyValue{}
	for _, p := range pairs {
		kind, _ := rowKind(store.Readable(ch.w.Root(), p.Key))
		if rows[kind] = append(rows[kind], p); len(rows[kind]) == 1 {
			kinds = append(kinds, kind)
		}
	}
	r := prng.Fork(ch.w.Step(), "damaged rows")
	for range damagedRows {
		alike := rows[kinds[r.Intn(len(kinds))]]
		row, how := alike[r.Intn(len(alike))], ch.kinds[r.Intn(len(ch.kinds))]
		if key := store.Readable(ch.w.Root(), row.Key); !ch.spares(how, key, row) {
			ch.damageRow(pairs, row.Key, key, how)
		}
	}
}

// tells reports whether a finding is about a row: by a name in its key, or by another row of the databases. Numbers say
// nothing, since most findings have some.
func tells(f store.Finding, key string) bool {
	kind, names := rowKind(key)
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := strconv.Atoi(name)
		return err != nil && strings.Contains(f.Key+f.What, name)
	}) || kind == "docs" && strings.HasPrefix(f.Key, "docs/")
}

// rowKind splits a key, as people read it, into what rows of its kind have in common, and what the row is about.
func rowKind(key string) (kind string, names []string) {
	elements := strings.Split(key, "/")
	n := 1
	if elements[0] == "jobs" { // then come the name of a queue and the kind
		n = min(3, len(elements))
	}
	return strings.Join(elements[:n], "/"), elements[n:]
}

// damageRow damages a row in a copy of the store, which is checked and repaired.
func (ch *checked) damageRow(pairs []kv.KeyValue, row []byte, key string, how damageKind) {
	db := fakefdb.New()
	for part := range slices.Chunk(pairs, 50) {
		ch.write(db, func(tx kv.Tx) error {
			for _, p := range part {
				tx.Set(p.Key, p.Value)
			}
			return nil
		})
	}
	wrong := key
	ch.write(db, func(tx kv.Tx) error {
		wrong = store.Readable(ch.w.Root(), how.do(tx, row))
		return nil
	})
	found := ch.look(db.Present())
	if !slices.ContainsFunc(found, func(f store.Finding) bool { return f.Key == wrong || tells(f, key) }) {
		ch.Fail("S3k", "%s is %s, and a check does not tell, of %d findings", key, how.name, len(found))
	}
	ch.repair(db, found)
	for _, f := range ch.look(db.Present()) {
		if f.Mends() {
			ch.Fail("S3k", "%s was %s, and after the repairs another is needed: %s: %s", key, how.name, f.Key, f.What)
		}
	}
}

func (ch *checked) write(db *fakefdb.Database, f func(kv.Tx) error) {
	if err := kv.Do(context.Background(), db, f); err != nil {
		panic("oracle: a copy of the store cannot be written: " + err.Error())
	}
}

// repair does all repairs that a check has found.
func (ch *checked) repair(db *fakefdb.Database, found []store.Finding) {
	for _, f := range found {
		ch.write(db, func(tx kv.Tx) error {
			done, err := store.Repairs(tx, ch.w.Root())
			if err == nil {
				_, err = store.Mended(tx, &f, done)
			}
			return err
		})
	}
}

// damageKind is a way to damage a row.
type damageKind struct {
	name string
	do   func(tx kv.Tx, key []byte) (wrong []byte) // returns the key of the row that is wrong then
	// spared are beginnings of keys, as people read them, of rows that may be so.
	spared []string
}

var damageKinds = []damageKind{
	{"lost", func(tx kv.Tx, key []byte) []byte {
		tx.Clear(key)
		return key
	}, []string{
		// As in a store that is new.
		"usage/", "virtual", "floor", "tail/", "order", "shares/", "swept/", "repairs",
		"jobs/replication/incarnation", "jobs/follow/incarnation",
		// All jobs for which these are there may be gone.
		"dropped/", "lifted/", "hold/",
		// The next run of the job claims again, refused documents are tried some day without the order, and what a
		// document of the mirror was made of is read anew.
		"claim/", "retry/", "follow/",
		// They are made again, or not needed.
		"jobs/replication/signal/", "jobs/replication/call/", "jobs/replication/gone/",
		"jobs/follow/signal/", "jobs/follow/call/", "jobs/follow/gone/",
	}},
	{"of no meaning", func(tx kv.Tx, key []byte) []byte {
		tx.Set(key, []byte(fakefdb.Unreadable))
		return key
	}, []string{
		"index/", "lifted/", "dropped/", "swept/", // the keys say all
		"jobs/replication/call/", "jobs/follow/call/", "jobs/replication/gone/", "jobs/follow/gone/",
		"uuid", // is any text
	}},
	{"beside another key", func(tx kv.Tx, key []byte) []byte {
		key = fakefdb.UnreadableKey(key)
		tx.Set(key, []byte{})
		return key
	}, []string{
		"jobs/replication/gone/", "jobs/follow/gone/", "swept/", // no read looks into these keys
	}},
}

// spares reports whether a row may be so. A counter that is 0 may be damaged, too, as may the replication of a job that
// is over: only runs need replications. Of a state that is to be written into a followed document the key says all.
func (ch *checked) spares(how damageKind, key string, row kv.KeyValue) bool {
	if slices.ContainsFunc(how.spared, func(begin string) bool { return strings.HasPrefix(key, begin) }) {
		return true
	}
	var id string
	var part int64
	if ch.w.Store().Keys.Spec.Scan(row.Key, &id, &part) == nil {
		s := ch.shadows[id]
		return s != nil && s.header != nil && s.header.State == jobs.Finished
	}
	var kind string
	due := ch.w.FollowStore().Keys.Rows.Scan(row.Key, &id, &kind, new(string)) == nil && kind == "due"
	return due && how.name == "of no meaning" || bytes.Equal(row.Value, make([]byte, 8))
}
