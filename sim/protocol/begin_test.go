package protocol

import (
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// TestLogsBeside: a log that is asked for beside the description of its database counts only if it was
// written for the database that is described.
func TestLogsBeside(t *testing.T) {
	makes := spec.Replication{CreateTarget: true}
	read := func(since peer.Seq) peer.ReadChanges { return peer.ReadChanges{Since: since, Limit: 10} }
	// The source's log is asked for beside its description: it was written for one database, and found in
	// another.
	beside := func(c *talk, start, written string) {
		c.named()
		open := c.asks(peer.Open{Side: peer.Source})
		look := c.asks(peer.GetLocal{Side: peer.Source, ID: "base"})
		c.gets(look, peer.Local{Found: true, Rev: "0-2", Body: []byte(madeFor(written, logAt("a", 5, "0")))})
		opened := peer.Opened{UpdateSeq: `"9-x"`, InstanceStartTime: start}
		if start == "2" {
			opened.UpdateSeq = "9"
		}
		c.gets(open, opened)
		c.does(peer.Open{Side: peer.Target}, peer.Opened{UpdateSeq: `"9-x"`, InstanceStartTime: "2"})
		c.finds(peer.Target, logAt("a", 5, "0"))
	}
	check(t, []conversation{
		{"logs beside databases", spec.Replication{}, func(c *talk) {
			beside(c, "1", "1")
			c.asks(read(seq(5)))
		}, legal},
		{"a log beside its database that may be of another one", spec.Replication{}, func(c *talk) {
			beside(c, "1", "0")
			c.asks(read(seq(5)))
		}, Beginning},
		{"a log beside a database whose server numbers changes", spec.Replication{}, func(c *talk) {
			beside(c, "2", "2")
			c.asks(read(seq(5)))
		}, Beginning},
		{"a log that may be of another database, looked for again", spec.Replication{}, func(c *talk) {
			beside(c, "1", "0")
			c.finds(peer.Source, "")
			c.asks(read("0"))
		}, legal},
		{"a log that is not in doubt, looked for again", spec.Replication{}, func(c *talk) {
			beside(c, "1", "1")
			c.asks(peer.GetLocal{Side: peer.Source, ID: "base"})
		}, Beginning},
		{"an older log that was asked for once the database was open", spec.Replication{UseCheckpoints: true},
			func(c *talk) {
				c.named()
				open := c.asks(peer.Open{Side: peer.Source})
				c.does(peer.GetLocal{Side: peer.Source, ID: "base"}, peer.Local{})
				c.gets(open, peer.Opened{UpdateSeq: `"9-x"`, InstanceStartTime: "1"})
				for _, id := range []string{"v3", "v2"} {
					c.does(peer.GetLocal{Side: peer.Source, ID: id}, peer.Local{})
				}
				log := []byte(logAt("a", 5, "0"))
				c.does(peer.GetLocal{Side: peer.Source, ID: "v1"}, peer.Local{Found: true, Rev: "0-1", Body: log})
				c.asks(peer.PutLocal{Side: peer.Source, ID: "base", Body: log})
			}, legal},
		{"a log asked for again before its database is described", spec.Replication{}, func(c *talk) {
			c.named()
			c.asks(peer.Open{Side: peer.Source})
			c.fails(peer.GetLocal{Side: peer.Source, ID: "base"}, 503)
			c.pass(firstPause)
			c.asks(peer.GetLocal{Side: peer.Source, ID: "base"})
		}, Beginning},
		{"a log beside a target before it is made", makes, func(c *talk) {
			c.named()
			c.asks(peer.Open{Side: peer.Source})
			c.asks(peer.GetLocal{Side: peer.Target, ID: "base"})
		}, Beginning},
	})
}

// TestEmptyLogs: a side whose instance_start_time does not tell databases of one name apart gets a log before
// anything is read.
func TestEmptyLogs(t *testing.T) {
	saves := spec.Replication{UseCheckpoints: true}
	found := func(c *talk, seq peer.Seq) {
		c.named()
		c.does(peer.Open{Side: peer.Source}, peer.Opened{UpdateSeq: seq, InstanceStartTime: "1"})
		c.does(peer.Open{Side: peer.Target}, peer.Opened{UpdateSeq: `"9-x"`, InstanceStartTime: "2"})
		c.finds(peer.Source, "")
		c.finds(peer.Target, "")
	}
	empty := peer.PutLocal{Side: peer.Source, ID: "base", Body: []byte(`{"mark":"m","history":[]}`)}
	unmarked := empty
	unmarked.Body = []byte(`{"history":[]}`)
	read := peer.ReadChanges{Since: "0", Limit: 10}
	check(t, []conversation{
		{"none", saves, func(c *talk) { found(c, "9"); c.asks(read) }, Beginning},
		{"one", saves, func(c *talk) {
			found(c, "9")
			c.does(empty, peer.LocalWritten{Rev: "0-1"})
			c.asks(read)
		}, legal},
		{"one without a mark", saves, func(c *talk) { found(c, "9"); c.asks(unmarked) }, Logging},
		{"one that is refused", saves, func(c *talk) { found(c, "9"); c.fails(empty, 403); c.asks(read) }, legal},
		{"one with checkpoints", saves, func(c *talk) {
			found(c, "9")
			c.asks(peer.PutLocal{Side: peer.Source, ID: "base", Body: []byte(logAt("a", 5, "0"))})
		}, Logging},
		{"one for a cluster", saves, func(c *talk) { found(c, `"9-x"`); c.asks(empty) }, Logging},
	})
}
