package oracle

import (
	"testing"

	store "couchrelay/core/check"
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
		{"a followed document", func(r *rig) {
			ch, rows := &checked{chronicle: r.o.chronicle}, r.w.View().FollowStore().Keys.Rows
			for kind, want := range map[string]bool{"due": true, "doc": false} {
				row := kv.KeyValue{Key: rows.Pack("m", kind, "d")}
				if got := ch.spares(damageKinds[1], "follow/m/"+kind+"/d", row); got != want {
					t.Errorf("what is no value of the row %s may be so: %v", kind, got)
				}
			}
		}, ""},
	})
}

func TestTells(t *testing.T) {
	for _, c := range []struct {
		key, about string
		want       bool
	}{
		{"spec/a|doc/0", "spec/a|doc/0", true},
		{"spec/a|doc/0", "jobs/replication/job/a|doc", true},
		{"spec/a|doc/0", "spec/a|other/0", false},
		{"jobs/replication/count/ready/3", "jobs/replication/count/ready", true},
		{"jobs/replication/ready/0/a|doc", "jobs/replication/ready/0/a|other", false},
		{"docs/0/db", "docs/1/instance/0", true},
		{"docs/0/db", "usage/other/0", false},
	} {
		if got := tells(store.Finding{Key: c.about}, c.key); got != c.want {
			t.Errorf("a finding about %s tells of %s: %v", c.about, c.key, got)
		}
	}
}
