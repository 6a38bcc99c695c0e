package peers

import (
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// Traits are how a server differs from others.
type Traits struct {
	// Numeric servers have plain numbers as sequences, and name leaves of a document as PouchDB does; others have texts
	// with an epoch, as clusters do, and name the winner first.
	Numeric bool
	// NoBulkGet servers do not know _bulk_get.
	NoBulkGet bool
	// NoPending servers do not tell how many changes follow.
	NoPending bool
	// Forgets servers lose what was not made durable when they restart.
	Forgets bool
	// LaxLocals servers write a _local document whatever revision the request names, as CouchDB 3 does.
	LaxLocals bool
	// NoLongPoll servers answer long polls at once.
	NoLongPoll bool
	// MaxWrite is the number of documents that one _bulk_docs may have; 0 is any.
	MaxWrite int
	// MaxDoc is the length of the longest document that the server takes from replications, in bytes; 0 is
	// any. One of ProxyLimit is that of a proxy before the server, which takes no long questions and
	// logs either.
	MaxDoc int
	// CutsFeeds servers break off every answer with changes after a few rows.
	CutsFeeds bool
	// CutsRevs servers break off answers with several revisions of a document before the last one.
	CutsRevs bool
	// FailsInBulk servers never write some documents in bulk. They report an error of their own for these.
	FailsInBulk bool
	// EditsAlone servers refuse the edits of several documents as a whole, as if one of them were too large.
	EditsAlone bool
	// Trickles servers send the rows of a normal feed a few a second.
	Trickles bool
	// AnswerLimit is the time after which a long poll is cut, by a proxy say; 0 is never.
	AnswerLimit time.Duration
	// RefusesLogs is the status with which databases of users refuse to store logs; 0 if they store them.
	RefusesLogs int
	// Inline is what the server makes of attachments in bulk.
	Inline Inline
	// Gzip is what it makes of compressed requests.
	Gzip Gzip
	// Rewords servers end answers with a sequence that is worded in another way each time, as clusters do.
	Rewords bool
	// DropsPolls servers break off the long polls of a database that is deleted; others answer that it is gone.
	DropsPolls bool
	// Starts is what clients are told as the instance_start_time of a database.
	Starts Starts
}

// Starts is what a server tells as the instance_start_time of its databases.
type Starts uint8

// What servers tell: a time of each database, their own start as PouchDB's server, or "0" as CouchDB 2 does.
const (
	StartsOfDatabases Starts = iota
	StartOfServer
	NoStarts
)

// TellsApart reports whether a database that is deleted and made again has another instance_start_time.
func (t Traits) TellsApart() bool { return t.Starts == StartsOfDatabases }

// Clustered reports whether the server is a cluster, where the instance_start_time of a database is when it
// was made.
func (t Traits) Clustered() bool { return !t.Numeric && !t.Forgets }

func (t Traits) tooLarge(d *docs.Document) bool { return t.MaxDoc > 0 && len(d.Body) > t.MaxDoc }

// ProxyLimit is the MaxDoc of proxies, which answer with a page of theirs, without CouchDB's word for the error.
const ProxyLimit = 200_000

// What a proxy with ProxyLimit lets through: questions about so many documents, and logs of so many bytes, which have
// ten checkpoints or so.
const (
	proxyAsks = 3
	proxyLog  = 4000
)

// refusesSize is the answer to a request that is too large.
func (t Traits) refusesSize() peer.Reply {
	if t.MaxDoc == ProxyLimit {
		return peer.Reply{Failure: answer(413, "", "answered HTML: Request Entity Too Large")}
	}
	return peer.Reply{Failure: answer(413, "too_large", "the request entity is too large")}
}
