package seal

import (
	"encoding/json"

	"couchrelay/core/check"
)

// Open returns the value of a row as it was before it was sealed, and others as they are.
func (db *Database) Open(key, value []byte) ([]byte, error) {
	if value == nil || !db.rows.Sealed(key) {
		return value, nil
	}
	return db.Ring.open(db.rows.name(key), value)
}

// Section is the rows of a Keeper, for a check of the store.
func (k *Keeper) Section() check.Section {
	return check.Section{Space: k.space, Row: func(p *check.Page, key, value []byte) {
		var kind, id string
		var state pass
		switch {
		case k.space.Scan(key, &kind, &id) == nil && kind == "key":
			text, err := k.db.Ring.open(k.db.rows.name(key), value)
			if err != nil || string(text) != proof {
				p.Report(key, "values are sealed with this key, which is not at hand")
			}
		case k.space.Scan(key, &kind) != nil || kind != "pass" || json.Unmarshal(value, &state) != nil:
			p.Report(key, "how far values are sealed cannot be read")
		}
	}}
}
