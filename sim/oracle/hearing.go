package oracle

import (
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

// topic is a kind of fact, with the checkers that hear of it, in the order of subjects.
type topic[F any] []func(F)

// add has a checker hear of a topic.
func (t *topic[F]) add(hear func(F)) { *t = append(*t, hear) }

func (t topic[F]) tell(f F) {
	for _, hear := range t {
		hear(f)
	}
}

// hearing has the topics that checkers can hear. Where nothing else is said a topic is the fact of that name
// in package world, and its contents are known already when it is told.
type hearing struct {
	stepped topic[world.Stepped] // before the commits of the event are told
	ticked  topic[world.Ticked]

	// landed is a commit before the shadows follow it, jobChanged each job that it changes, jobMoved the same
	// of jobs that were there before and still are, and followed the commit again.
	landed     topic[landing]
	jobChanged topic[jobChange]
	jobMoved   topic[jobChange]
	followed   topic[landing]
	hearsTransactions

	nodeUp      topic[*process]
	nodeStepped topic[nodeStep] // before the runs are known to be stopped that it stops
	answered    topic[world.Answered]
	askFailed   topic[world.AskFailed]
	awaits      topic[world.Awaits]
	armed       topic[world.Armed]

	runStarted   topic[*run] // before it is one of those under way
	runEnded     topic[*run] // when it is no more
	runConfirmed topic[*run]
	runCalls     topic[call]
	runCancels   topic[cancel]
	runReplied   topic[reply]
	runTells     topic[telling] // of its progress
	runSaidEnd   topic[ending]
	runStepped   topic[runStep]

	logWritten topic[world.LogWritten]
	altered    topic[world.Altered]

	hearsLimiters

	hearsUsers

	hearsRest
	// placing is a job that is about to be made, while nothing else happens.
	placing topic[placing]
}

// hearsLimiters has the topics of when requests leave, and of what servers say to that.
type hearsLimiters struct {
	wished   topic[world.Wished]
	welcomed topic[world.Welcomed]
	withheld topic[world.Withheld]
	sends    topic[world.Sends]
}

// hearsTransactions has the topics of how transactions go.
type hearsTransactions struct {
	repeated topic[world.Repeated]
	misread  topic[world.Misread]
}

// hearsRest has the topics of the end of a trial.
type hearsRest struct {
	// unsettled asks for the work that a world that comes to rest has left; nil when there is none.
	unsettled []func() *Violation
	busy      int // the index of the one that had work left when it was last asked
	// atRest is told once, when nothing moves any more.
	atRest topic[struct{}]
	// emptied is told once, some time after all jobs were removed.
	emptied topic[struct{}]
}

// hearsUsers has the topics of what users do and are told.
type hearsUsers struct {
	followCalls  topic[world.FollowCalls]
	writeRefused topic[world.WriteRefused]
	hearsReplicated
	requestAnswered topic[world.RequestAnswered]
	requestAccepted topic[world.RequestAccepted]
	requestCanceled topic[world.RequestCanceled]
	ordered         topic[world.Ordered]
	obeyed          topic[world.Obeyed]
	holdAsked       topic[world.HoldAsked]
	holdMade        topic[world.HoldMade]
	holdLifted      topic[world.HoldLifted]
	hearsWaiters
	hearsLooks
}

// hearsLooks has the topics of what users ask for before they are told, and of what they look at.
type hearsLooks struct {
	writeBegins     topic[world.WriteBegins]
	documentForked  topic[world.DocumentForked]
	dropBegins      topic[world.DropBegins]
	databaseDropped topic[world.DatabaseDropped]
	requestBegins   topic[world.RequestBegins]
	cancelBegins    topic[world.CancelBegins]
	looked          topic[world.Looked]
}

// hearsReplicated has the topics of documents that are replicated into the service.
type hearsReplicated struct {
	documentWritten   topic[world.DocumentWritten]
	documentRepeated  topic[world.DocumentRepeated]
	replicatedRefused topic[world.ReplicatedRefused]
}

// hearsWaiters has the topics of users who wait, and of what may mislead them.
type hearsWaiters struct {
	waiterLooks  topic[world.WaiterLooks]
	waiterWaits  topic[world.WaiterWaits]
	waiterWoken  topic[world.WaiterWoken]
	waiterLearns topic[world.WaiterLearns]
	waiterLeaves topic[world.WaiterLeaves]
	faultHit     topic[world.FaultHit]
}

// jobChange is a job that a commit changed. It was made anew when it was added, be it in the place of one of
// its id.
type jobChange struct {
	id            string
	before, after *shadow
	landing
	anew bool
}

// nodeStep is a step of a node's machine, before its effects are performed.
type nodeStep struct {
	p       *process
	ev      node.Event
	effects []node.Effect
	partial bool // see seesPart
}

// call is a request of a run that is about to leave.
type call struct {
	*run
	id uint64
	op peer.Op
	by replication.Event // nil in a test that does not care
}

// cancel is a request that a run gives up.
type cancel struct {
	*run
	world.RunCancels
}

// reply is an answer that has arrived.
type reply struct {
	*run
	op peer.Op
	peer.Reply
}

// telling is a report of a run on its progress, after the answer to a request or without one.
type telling struct {
	*run
	asked peer.Op
	info  replication.Info
}

// ending is the last word of a run.
type ending struct {
	*run
	asked peer.Op
	ev    replication.Event
	end   replication.End
	tally replication.Tally
}

// completed reports whether the run had done all.
func (e ending) completed() bool { return e.end.Cause == replication.Completed }

// runStep is a step of a run that goes on.
type runStep struct {
	*run
	asked   peer.Op
	ev      replication.Event
	effects []replication.Effect
}

// placing is a job that is about to be made for an account.
type placing struct{ jobID, account string }

// See is told of every fact, in order.
func (c *chronicle) See(f world.Fact) {
	switch f := f.(type) {
	case world.Stepped:
		c.on.stepped.tell(f)
		if len(c.landings) > 0 {
			c.follow()
		}
	case world.Ticked:
		c.on.ticked.tell(f)
	case world.FaultHit:
		c.on.faultHit.tell(f)
	case world.Landed:
		c.landings = append(c.landings, landing{f, c.touched(f)})
	case world.Repeated:
		c.on.repeated.tell(f)
	case world.Misread:
		c.on.misread.tell(f)
	case world.LogWritten:
		c.on.logWritten.tell(f)
	case world.Refused:
		c.denied[f.DB.String()+" "+f.ID+" "+f.Rev] = true
	case world.Altered:
		c.on.altered.tell(f)
	case world.Wished:
		c.on.wished.tell(f)
	case world.Welcomed:
		c.on.welcomed.tell(f)
	case world.Withheld:
		c.on.withheld.tell(f)
	case world.Sends:
		c.on.sends.tell(f)
	default:
		c.seeRun(f)
		c.seeNode(f)
		c.seeUser(f)
	}
}

func (c *chronicle) seeNode(f world.Fact) {
	switch f := f.(type) {
	case world.NodeChanged:
		if f.State == world.NodeUp {
			c.boot(f.Node)
		}
	case world.NodeStepped:
		c.stepped(nodeStep{p: c.process(f.Node), ev: f.Event, effects: f.Effects})
	case world.Answered:
		c.on.answered.tell(f)
	case world.AskFailed:
		c.on.askFailed.tell(f)
	case world.Awaits:
		c.on.awaits.tell(f)
	case world.Armed:
		c.on.armed.tell(f)
	}
}

func (c *chronicle) seeRun(f world.Fact) {
	switch f := f.(type) {
	case world.RunStarted:
		c.started(f.Run)
	case world.RunEnded:
		c.ended(f.Run)
	case world.RunConfirmed:
		c.on.runConfirmed.tell(c.of[f.Run])
	case world.RunCalls:
		c.senders.note(f, c.logs)
		c.of[f.Run].noteList(f)
		c.on.runCalls.tell(call{c.of[f.Run], f.ID, f.Op, f.By})
	case world.RunCancels:
		c.on.runCancels.tell(cancel{c.of[f.Run], f})
	case world.RunReplied:
		if r := c.of[f.Run]; r != nil { // else the answer comes too late for anything
			c.opened(r, f.Op, f.Reply)
			c.on.runReplied.tell(reply{r, f.Op, f.Reply})
		}
	case world.RunProgressed:
		c.on.runTells.tell(telling{c.of[f.Run], f.Asked, f.Info})
	case world.RunSaidEnd:
		c.on.runSaidEnd.tell(ending{c.of[f.Run], f.Asked, f.Event, f.End, f.Tally})
	case world.RunStepped:
		c.on.runStepped.tell(runStep{c.of[f.Run], f.Asked, f.Event, f.Effects})
	}
}

func (c *chronicle) seeUser(f world.Fact) {
	switch f := f.(type) {
	case world.DocumentWritten:
		c.docs[f.Doc.Tenant().Name()+" "+f.Doc.ID()] = &docTruth{j: f.Doc, token: f.Token, present: f.Present}
		c.on.documentWritten.tell(f)
	case world.DocumentRepeated:
		c.on.documentRepeated.tell(f)
	case world.FunctionAsked:
		c.forbidden.note(f)
	case world.ReplicatedRefused:
		c.on.replicatedRefused.tell(f)
	case world.FollowCalls:
		c.on.followCalls.tell(f)
	case world.WriteRefused:
		c.on.writeRefused.tell(f)
	case world.DatabaseDropped:
		c.dropDatabase(f.Tenant)
		c.on.databaseDropped.tell(f)
	case world.RequestAnswered:
		c.on.requestAnswered.tell(f)
	case world.RequestAccepted:
		c.on.requestAccepted.tell(f)
	case world.RequestCanceled:
		c.on.requestCanceled.tell(f)
	case world.Ordered:
		c.on.ordered.tell(f)
	case world.Obeyed:
		c.on.obeyed.tell(f)
	case world.HoldAsked:
		c.on.holdAsked.tell(f)
	case world.HoldMade:
		c.on.holdMade.tell(f)
	case world.HoldLifted:
		c.on.holdLifted.tell(f)
	case world.WaiterLooks:
		c.on.waiterLooks.tell(f)
	case world.WaiterWaits:
		c.on.waiterWaits.tell(f)
	case world.WaiterWoken:
		c.on.waiterWoken.tell(f)
	case world.WaiterLearns:
		c.on.waiterLearns.tell(f)
	case world.WaiterLeaves:
		c.on.waiterLeaves.tell(f)
	case world.SharingAsked:
		c.sharing.changing, c.sharing.asked = true, c.w.Now()
	case world.SharingInForce:
		c.sharing.change(f.Sharing, c.w.Now())
	default:
		c.seeLook(f)
	}
}

func (c *chronicle) seeLook(f world.Fact) {
	switch f := f.(type) {
	case world.WriteBegins:
		c.on.writeBegins.tell(f)
	case world.DocumentForked:
		c.on.documentForked.tell(f)
	case world.DropBegins:
		c.on.dropBegins.tell(f)
	case world.RequestBegins:
		c.on.requestBegins.tell(f)
	case world.CancelBegins:
		c.on.cancelBegins.tell(f)
	case world.Looked:
		c.on.looked.tell(f)
	}
}
