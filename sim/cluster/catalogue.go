package cluster

import (
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/peers"
)

// Trouble is a fault, or something that users do.
type Trouble struct {
	Name, Family string
	Where        string // what it meets: an operation of the store, a request; "nemesis" comes by itself
	What         string
}

// Catalogue has every name that Config.Rates and Config.Actions may have, by families.
var Catalogue = []Trouble{
	{string(fakefdb.StaleReadVersion), "store", "read version", "a version from before the last commits, while one of them is not acknowledged yet"},
	{string(fakefdb.TagThrottled), "store", "read version", "throttled by tag (1213)"},
	{string(fakefdb.BatchThrottled), "store", "read version", "batch priority is throttled (1051)"},
	{string(fakefdb.TooOldEarly), "store", "read", "the transaction is too old, before its time (1007)"},
	{string(fakefdb.FutureVersion), "store", "read", "the storage server is behind (1009)"},
	{string(fakefdb.ProcessBehind), "store", "read", "the storage server is too far behind (1037)"},
	{string(fakefdb.ReadTimedOut), "store", "read", "no answer in time (1031)"},
	{string(fakefdb.DatabaseLocked), "store", "read", "the database is locked (1038)"},
	{string(fakefdb.SlowCommit), "store", "commit", "takes up to four seconds instead of milliseconds"},
	{string(fakefdb.Conflict), "store", "commit", "a conflict without a cause (1020)"},
	{string(fakefdb.ProxyMemory), "store", "commit", "the proxy's memory is used up (1042)"},
	{string(fakefdb.CommitTooOld), "store", "commit", "the transaction is too old, before its time (1007)"},
	{string(fakefdb.UnknownLanded), "store", "commit", "the result is unknown (1021), and the commit was tried"},
	{string(fakefdb.UnknownDropped), "store", "commit", "the result is unknown (1021), and nothing happened"},
	{string(fakefdb.TimedOutLate), "store", "commit", "no answer in time (1031), and the commit is tried up to a minute later"},
	{string(fakefdb.TimedOutNever), "store", "commit", "no answer in time (1031), and nothing happens"},
	{string(fakefdb.ClusterLate), "store", "commit", "the cluster changes its version (1039), and the commit is tried up to a minute later"},
	{string(fakefdb.ClusterNever), "store", "commit", "the cluster changes its version (1039), and nothing happens"},
	{string(fakefdb.WatchLost), "store", "watch", "never ends by itself"},
	{string(fakefdb.WatchFailed), "store", "watch", "ends with an error (1101)"},
	{string(fakefdb.WatchSpurious), "store", "watch", "ends without a change"},
	{string(fakefdb.WatchDelayed), "store", "watch", "ends up to 20 seconds late"},
	{StoreDown, "store", "nemesis", "nothing gets through to the store for a while"},

	{NodeCrash, "nodes", "nemesis", "killed between any two events, and restarted after a while"},
	{NodePause, "nodes", "nemesis", "stands still for up to three activity timeouts: a zombie"},
	{NodeSuspend, "nodes", "nemesis", "stands still with its steady clock, as a machine that is suspended"},
	{NodeStall, "nodes", "nemesis", "stands still in the middle of its next transaction, or between the commit and the answer"},
	{NodeDrain, "nodes", "nemesis", "stops in order, and is started again"},
	{NodeStorm, "nodes", "nemesis", "all are killed at once"},
	{NodeSkew, "nodes", "nemesis", "its wall clock is off by up to two minutes from now on"},
	{NodeJump, "nodes", "nemesis", "its wall clock jumps by up to an hour for a while"},
	{NodeOtherSpeed, "nodes", "nemesis", "restarted with other settings, as during an upgrade"},
	{NodeMaxJobs, "nodes", "nemesis", "max_jobs changes while it runs, down to 0 too"},
	{NodeTimeout, "nodes", "nemesis", "the activity timeout changes while it runs"},
	{NodeMaintenance, "nodes", "nemesis", "hands its jobs back, and takes none for a while"},

	{peers.Refused, "network", "request", "no connection"},
	{peers.NoSuchHost, "network", "request", "the name has no address for a moment"},
	{peers.BadTLS, "network", "request", "the TLS handshake fails"},
	{peers.ResetBefore, "network", "request", "the connection breaks before the request arrives"},
	{peers.ResetAfter, "network", "request", "the connection breaks after the request took effect"},
	{peers.LostBefore, "network", "request", "the request never arrives, and nothing comes back"},
	{peers.LostAfter, "network", "request", "it took effect, and nothing comes back"},
	{peers.Slow, "network", "request", "seconds instead of milliseconds"},
	{NetPartition, "network", "nemesis", "a node does not reach a server"},
	{NetIsolated, "network", "nemesis", "a node does not reach the store, for a while or until others begin to give it up"},
	{NetSwizzle, "network", "nemesis", "connections are cut one by one and come back in another order"},

	{peers.Unauthorized, "servers", "answer", "401"},
	{peers.Forbidden, "servers", "answer", "403"},
	{peers.Timeout408, "servers", "answer", "408"},
	{peers.TooLarge, "servers", "answer to a bulk write", "413"},
	{peers.Teapot, "servers", "answer", "418, a status that nobody expects"},
	{peers.Throttled, "servers", "answer", "429"},
	{peers.RetryAfter, "servers", "answer", "429 with Retry-After"},
	{peers.ServerError, "servers", "answer", "500"},
	{peers.Unavailable, "servers", "answer", "503"},
	{peers.ErrorAfter, "servers", "answer to a write", "500, though it took effect"},
	{peers.HTML, "servers", "answer", "a proxy's page instead of JSON"},
	{peers.Truncated, "servers", "answer to a read", "a part, then the connection breaks"},
	{ServerDown, "servers", "nemesis", "a server refuses everything for a while"},
	{ServerSlow, "servers", "nemesis", "a server takes seconds for every answer for a while"},
	{ServerThrottles, "servers", "nemesis", "a server answers 429 to everything for a while"},
	{ServerLocksOut, "servers", "nemesis", "a server answers 401 to everything for a while"},
	{ServerBreaks, "servers", "nemesis", "all connections that wait for a server break"},
	{ServerRestarts, "servers", "nemesis", "a server starts again without what was written to its targets and not made durable"},

	{peers.Repeats, "databases", "_changes", "rows come twice"},
	{peers.LosesPending, "databases", "_changes", "the answer does not say how many changes follow"},
	{peers.RevMissing, "databases", "_bulk_get, open_revs", "a revision is not found for a moment"},
	{peers.LeavesOut, "databases", "_bulk_get", "answers for some documents only"},
	{peers.WritesPart, "databases", "_bulk_docs", "fails half-way"},
	{peers.StubMissing, "databases", "write of a document", "the target wants an attachment that was sent as a stub"},
	{peers.Conflict409, "databases", "write of a document", "meets another write"},
	{peers.NotSynced, "databases", "_ensure_full_commit", "fails"},
	{DBRecreated, "databases", "nemesis", "deleted and made again, with other documents"},
	{DBDeleted, "databases", "nemesis", "deleted, and made again after a while"},
	{DBRestored, "databases", "nemesis", "put back to an earlier state, as from a backup"},
	{FilterEdit, "databases", "nemesis", "the filter function is another one"},

	{EditDoc, "users", "a source", "a document is written"},
	{DeleteDoc, "users", "a source", "a document is deleted"},
	{ConflictDoc, "users", "a source", "a document gets one or two more leaves"},
	{BurstDocs, "users", "a source", "many documents are written at once"},
	{HugeDoc, "users", "a source", "a document of up to 300 kB is written"},
	{DeepConflict, "users", "a source", "a document gets up to 50 more leaves"},
	{AddJob, "users", "a frontend", "a replication document is written"},
	{AddDuplicate, "users", "a frontend", "a document for a replication that there is already"},
	{ChangeJob, "users", "a frontend", "a document gets another target"},
	{TouchJob, "users", "a frontend", "a document changes, its replication does not"},
	{RemoveJob, "users", "a frontend", "a replication document is deleted"},
	{StormJobs, "users", "a frontend", "many documents at once, most of them deleted at once"},
	{Request, "users", "a frontend", "POST /_replicate"},
	{CancelRequest, "users", "a frontend", "what POST /_replicate started is canceled"},
	{RecreateTenant, "users", "a frontend", "a replicator database is deleted and made again"},
	{ChangeSharing, "users", "an operator", "another policy, priority_coeff and shares are put in force"},
}
