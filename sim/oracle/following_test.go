package oracle

import (
	"encoding/json"
	"fmt"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
	"couchrelay/sim/world"
)

// TestFollowing: the documents of a followed database, their mirror and its jobs, in a world in which nothing happens.
func TestFollowing(t *testing.T) {
	const body, bad = `{"source":"http://s1/a1/","target":"http://s2/b1/","n":%d}`, `{"n":%d}`
	const owned = `{"source":"http://s1/a1/","target":"http://s2/b1/","n":%d,"owner":%q}`
	const failed = `"_replication_state":"failed","_replication_state_reason":"no target"`
	c := world.Default()
	c.Followed = 1
	for _, c_ := range []struct {
		name string
		tell func(*rig, *world.Following)
		// breaks is an invariant that breaks at once, left one of those that wait for the world to settle.
		breaks, left string
	}{
		{"nothing but a design document", func(*rig, *world.Following) {}, "", ""},
		{"no job", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
		}, "", "L14"},
		{"no job, of a document that a backup hides", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.HideFollowed(f, "d", 1)
		}, "", ""},
		{"no job, of a document of a backup that is behind", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.HideFollowed(f, "d", 9)
		}, "", "L14"},
		{"no job, of a document that a backup hid, and that was written since", func(r *rig, f *world.Following) {
			world.HideFollowed(f, "d", 1)
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
		}, "", "L14"},
		{"no job, of a document that cannot be read", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.DamageFollowed(f, "d")
		}, "", ""},
		{"no job, of a document beside one that cannot be read", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.WriteFollowed(r.w, f, "e", fmt.Sprintf(body, 2), true)
			world.DamageFollowed(f, "d")
		}, "", "L14"},
		{"its job", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(body, 1))
		}, "", ""},
		{"a job of an earlier document", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(body, 1))
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 2), true)
		}, "", "L14"},
		{"a document of its owner", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(owned, 1, "u"), true)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(owned, 1, "u"))
		}, "", ""},
		{"a document of an owner before", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(owned, 1, "v"), true)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(owned, 1, "u"))
		}, "", "L14"},
		{"a document of the mirror alone", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(body, 1))
			world.WriteFollowed(r.w, f, "d", "", true)
		}, "", "L16"},
		{"a failure that is not told", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(bad, 1))
		}, "", "L14"},
		{"completed by another replicator, which accepts it", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			world.CompleteFollowed(r.w, f, "d")
			world.MirrorFollowed(r.w, f, "d", string(f.DB().Latest("d").Body))
			r.see(world.Ticked{})
		}, "", ""},
		{"completed by another replicator, whose leaf is deleted", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			world.CompleteFollowed(r.w, f, "d")
			completed := string(f.DB().Latest("d").Body)
			world.MirrorFollowed(r.w, f, "d", completed)
			world.WriteFollowed(r.w, f, "d", "", false)
			state(f, "d", completed, `"_replication_state":"completed"`)
			r.see(world.Ticked{})
		}, "", ""},
		{"completed by another replicator, and its job failed", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			world.CompleteFollowed(r.w, f, "d")
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(bad, 1))
		}, "", "L14"},
		{"completed by nobody", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(bad[:len(bad)-1]+`,"_replication_state":"completed"}`, 1))
		}, "", "L14"},
		{"a revision that was there before", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(bad, 1))
			state(f, "d", fmt.Sprintf(bad, 1), failed)
			r.pass(1e9)
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			world.RemakeFollowed(r.w, f)
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			state(f, "d", fmt.Sprintf(bad, 1), marksOf(r, f, "d"))
		}, "", ""},
		{"another reason than that of the job", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(bad, 1))
			state(f, "d", fmt.Sprintf(bad, 1), failed)
		}, "", "L15"},
		{"a mirror that lacks a member", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.MirrorFollowed(r.w, f, "d", `{"source":"http://s1/a1/","n":1}`)
		}, "", "L14"},
		{"a document that was written again after its job was over", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(bad, 1))
			state(f, "d", fmt.Sprintf(bad, 1), failed)
			r.pass(1e9)
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(bad, 1), false)
			state(f, "d", fmt.Sprintf(bad, 1), failed)
		}, "", "L14"},
		{"a state that is gone", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(body, 1))
			state(f, "d", fmt.Sprintf(body, 1), `"_replication_id":"x"`)
		}, "", "L15"},
		{"a job made twice for one write", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(body, 1))
			r.pass(1e9)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(bad, 1))
		}, "S84", ""},
		{"another member", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			state(f, "d", fmt.Sprintf(body, 1), `"x":1`)
			r.see(world.Ticked{})
		}, "S82", ""},
		{"a document that comes back", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.WriteFollowed(r.w, f, "d", "", true)
			state(f, "d", fmt.Sprintf(body, 1), `"_replication_state":"completed"`)
			r.see(world.Ticked{})
		}, "S82", ""},
		{"a state in a design document", func(r *rig, f *world.Following) {
			state(f, "_design/x", `{"n":0}`, `"_replication_state":"failed"`)
			r.see(world.Ticked{})
		}, "S82", ""},
		{"a state that no job had", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			state(f, "d", fmt.Sprintf(body, 1), `"_replication_state":"completed"`)
			r.see(world.Ticked{})
		}, "S83", ""},
		{"a leaf that wins, and the job of the one before", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(body, 1))
			world.ForkFollowed(r.w, f, "d", fmt.Sprintf(body, 2), 1)
		}, "", "L14"},
		{"a leaf that wins, and its job", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.ForkFollowed(r.w, f, "d", fmt.Sprintf(body, 2), 1)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(body, 2))
			r.see(world.Ticked{})
		}, "", ""},
		{"a leaf that loses", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 2), true)
			world.ForkFollowed(r.w, f, "d", fmt.Sprintf(body, 3), -1)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(body, 2))
			r.see(world.Ticked{})
		}, "", ""},
		{"a leaf that loses, and its job", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 2), true)
			world.ForkFollowed(r.w, f, "d", fmt.Sprintf(body, 3), -1)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(body, 3))
		}, "", "L14"},
		{"the leaf that is left, and no job", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.ForkFollowed(r.w, f, "d", fmt.Sprintf(body, 2), 1)
			world.WriteFollowed(r.w, f, "d", "", true)
		}, "", "L14"},
		{"the leaf that is left, and its job", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.ForkFollowed(r.w, f, "d", fmt.Sprintf(body, 2), 1)
			world.WriteFollowed(r.w, f, "d", "", true)
			world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(body, 1))
			r.see(world.Ticked{})
		}, "", ""},
		{"a deleted leaf, and no job", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.ForkFollowed(r.w, f, "d", "", 1)
		}, "", "L14"},
		{"what the other leaf says, over the winner", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.ForkFollowed(r.w, f, "d", fmt.Sprintf(body, 2), 1)
			state(f, "d", fmt.Sprintf(body, 1), `"_replication_id":"x"`)
			r.see(world.Ticked{})
		}, "S82", ""},
		{"a job made more often than the leaves were written", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.ForkFollowed(r.w, f, "d", fmt.Sprintf(body, 2), 1)
			for n, text := range []string{body, bad, body} {
				world.MirrorFollowed(r.w, f, "d", fmt.Sprintf(text, n))
				r.pass(1e9)
			}
		}, "S84", ""},
		{"an error that is told", func(r *rig, f *world.Following) {
			world.FailFollowed(r.w, f)
		}, "", "L18"},
		{"an error beside a document that cannot be read", func(r *rig, f *world.Following) {
			world.WriteFollowed(r.w, f, "d", fmt.Sprintf(body, 1), true)
			world.DamageFollowed(f, "d")
			world.FailFollowed(r.w, f)
		}, "", "L18"},
		{"a write without the job", func(r *rig, f *world.Following) {
			r.see(world.FollowCalls{Node: r.node(1), Worker: "n1/1", Of: f, Op: peer.EditDocs{}})
		}, "S85", ""},
		{"a look without the job", func(r *rig, f *world.Following) {
			r.see(world.FollowCalls{Node: r.node(1), Worker: "n1/1", Of: f, Op: peer.ReadDocs{}})
		}, "S85", ""},
	} {
		t.Run(c_.name, func(t *testing.T) {
			r := newRigIn(t, c, &followingSubject)
			world.MakeFollowed(r.w)
			c_.tell(r, r.w.View().Followings()[0])
			broken := ""
			if v := r.o.Violation(); v != nil {
				broken = v.ID
			}
			left := ""
			if v := r.o.Unsettled(); v != nil {
				left = v.ID
			}
			if broken != c_.breaks || c_.breaks == "" && left != c_.left {
				t.Errorf("breaks %q, leaves %q", broken, left)
			}
		})
	}
}

// state writes a document as a run does, with members more.
func state(f *world.Following, id, body, more string) {
	e := docs.Edit{Document: docs.Document{ID: id, Body: []byte(body[:len(body)-1] + "," + more + "}")}}
	if latest := f.DB().Latest(id); !latest.Deleted {
		e.Rev = latest.Rev
	}
	f.DB().Write([]docs.Edit{e})
}

// marksOf are the members that tell the state of a document in the mirror.
func marksOf(r *rig, f *world.Following, id string) string {
	text, err := json.Marshal(readFollowed(r.o.document(f.Mirror(), id).Body).marks)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text[1 : len(text)-1])
}
