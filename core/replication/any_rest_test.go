package replication

import (
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// happensAtLast is an event that few orders have: a run is stopped, the source alone is put back to a backup, a
// document has a conflict, an operator has the job start over, or a database is made again.
func (o *order) happensAtLast(id, job string) {
	source := o.dbs[peer.Source]
	switch o.IntN(5) {
	case 0:
		o.isStopped(job)
	case 1:
		if len(o.backups) > 0 && !o.readOnly {
			n := o.IntN(len(o.backups))
			o.dbs[peer.Source] = o.backups[n][peer.Source].backup()
			o.why, o.former = "the source was put back", nil
			o.say("the source alone is put back to %d", n)
		}
	case 2:
		if len(source.leafs[id]) == 0 {
			o.edits(id)
		}
		o.made++
		path := source.path(id, source.leafs[id][o.IntN(len(source.leafs[id]))])
		rev := fmt.Sprintf("%d-%c", 1+o.made, 'd'+rune(o.IntN(3)))
		source.write(id, append([]string{rev}, path[min(len(path), o.IntN(3)):]...)...)
		o.say("%s has the leaves %v", id, source.leafs[id])
	case 3:
		o.plan.Reset, o.why = true, "it is to start over"
		o.say("all is to be copied anew")
	case 4:
		o.isMadeAgain(peer.Side(o.IntN(2)))
	}
}

// isStopped has a run stop after a while. What the store was told before that it may do or not, if the run does not
// wait.
func (o *order) isStopped(job string) {
	if o.as(job); o.IntN(4) == 0 {
		o.made++
		o.demand = instant.Time(o.made)
	}
	o.now = o.now.Add(time.Duration(o.IntN(3)) * time.Hour)
	o.plan.BatchSize = []int{2, 7, 40}[o.IntN(3)]
	o.plan.CheckpointInterval = []time.Duration{time.Nanosecond, 5 * time.Second}[o.IntN(2)]
	o.plan.Continuous, o.calls = o.IntN(2) == 0, nil
	o.begin()
	for n := o.IntN(80); n > 0 && o.end == nil; n-- {
		o.proceed(o.IntN)
	}
	if o.end == nil {
		o.step(Stop{})
	}
	for o.end == nil {
		o.proceed(o.IntN)
	}
	for _, ask := range o.asks {
		if told, is := ask.(Refused); is && o.IntN(2) == 0 {
			o.stores(told)
		}
	}
	o.steps, o.plan.Continuous = 0, false
	from := o.feedStart()
	o.say("job %s ends with %v, from %s", job, o.end, from)
	o.say("it has %d listed, state %d, saved %v", len(o.list), o.changes, o.saved)
	if from != "nowhere" {
		o.ended()
	}
}

// isMadeAgain deletes a database and makes it again. The source has its documents again.
func (o *order) isMadeAgain(side peer.Side) {
	d, was := newDatabase(), o.dbs[peer.Source]
	o.made++
	d.start = fmt.Sprint("made", o.made)
	if side == peer.Source {
		for _, row := range was.changes(0) {
			for _, rev := range row.Revs {
				d.write(row.ID, was.path(row.ID, rev)...)
			}
		}
	}
	o.dbs[side], o.why, o.former = d, "a database was made again", nil
	o.say("the %s is made again", side)
}

// ended demands that the only job goes on behind its last checkpoint, unless there is a reason: it has not ended in
// order, with a checkpoint, or something has happened to the databases and the list since.
func (o *order) ended() {
	if from := o.feedStart(); len(o.names) == 1 && o.why == "" && from != string(o.covers) {
		o.t.Errorf("a run begins at %s, behind a checkpoint at %s", from, o.covers)
	} else if from == "0" && o.plan.SinceSeq != "" {
		o.t.Errorf("a run begins before %s", o.plan.SinceSeq)
	}
	o.covers = o.end.Info.CheckpointedSeq
	o.why = ""
	if c := o.end.Cause; c != Completed && c != Stopped || !o.plan.UseCheckpoints || o.fault != nil || o.readOnly ||
		o.end.Info.CheckpointedSeq == peer.Zero {
		o.why = "it has no checkpoint"
	}
}
