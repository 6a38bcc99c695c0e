package oracle

import (
	"testing"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

func TestChecked(t *testing.T) {
	aJob := func(r *rig) {
		r.commit(nil, func(tx kv.Tx) error {
			_, _, err := jobstore.Init(tx, r.w.View().Root(), "uuid")
			return err
		})
		r.request(nil)
	}
	damage := func(spared ...string) func(*rig) {
		return func(r *rig) {
			aJob(r)
			nothing := damageKind{"as it was", func(_ kv.Tx, key []byte) []byte { return key }, spared}
			(&checked{chronicle: r.o.chronicle, kinds: []damageKind{nothing}}).damage()
		}
	}
	check(t, &checkedSubject, []case_{
		{"a job", func(r *rig) { aJob(r); r.atRest() }, ""},
		{"a row that is left over", func(r *rig) {
			r.set(r.w.View().Store().Keys.Retry.Pack("job"), []byte("01234567"))
			r.atRest()
		}, "S3j"},
		{"damage that nobody sees", damage(), "S3k"},
		{"damage to what may be so", damage(""), ""},
	})
}
