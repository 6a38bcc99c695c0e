package jobstore

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"couchrelay/core/backoff"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

// Config holds the settings of the [replicator] section that the store needs.
type Config struct {
	Server repid.Server // its identity is a part of replication ids
	Parse  spec.Config
	// MaxHistory is the number of events kept of a job (max_history).
	MaxHistory int
	Backoff    backoff.Policy
	// MaxRefused is how many refused revisions are listed for a job.
	MaxRefused int64
	// TransientMaxAge is how long a finished job of a request is kept (transient_job_max_age_sec).
	TransientMaxAge time.Duration
	// DuplicatesWait has a document's job wait while another job has its replication (duplicates_wait); otherwise
	// it fails for good, as in CouchDB.
	DuplicatesWait bool
	// Sharing is in force while the store has no settings of its own; see Store.Share.
	Sharing Sharing
}

// DefaultConfig holds CouchDB's defaults.
func DefaultConfig(server repid.Server) Config {
	return Config{
		Server: server, Parse: spec.DefaultConfig(), MaxHistory: 20, Backoff: backoff.Default, MaxRefused: MaxRefused,
		TransientMaxAge: 24 * time.Hour, DuplicatesWait: true, Sharing: DefaultSharing(),
	}
}

// Keys says where the store keeps its rows; the table in the package comment tells what they hold.
type Keys struct {
	Jobs                         jobs.Keys
	Docs                         tuple.Subspace
	Schema, UUID, Secret         []byte
	Spec, Claim, Expire, Dropped tuple.Subspace
	Swept                        tuple.Subspace
	Held, Lifted                 tuple.Subspace
	Order, Virtual, Floor        []byte
	Refused, Retry               tuple.Subspace
	accountKeys
	indexKeys
}

// accountKeys says where the rows of accounts are.
type accountKeys struct{ Shares, Usage, Count, Tail, Weights tuple.Subspace }

// jobType is the type of replication jobs, of which there is only this one.
const jobType = "replication"

// KeysBelow are the keys of the store below root.
func KeysBelow(root tuple.Subspace) Keys {
	return Keys{
		Jobs: jobs.KeysBelow(root.Sub("jobs"), jobType), Docs: root.Sub("docs"),
		Schema: root.Pack("schema"), UUID: root.Pack("uuid"), Secret: root.Pack("secret"),
		Spec: root.Sub("spec"), Claim: root.Sub("claim"), Expire: root.Sub("expire"), Dropped: root.Sub("dropped"),
		Swept: root.Sub("swept"),
		Held:  root.Sub("hold"), Lifted: root.Sub("lifted"),
		Refused: root.Sub("refused"), Retry: root.Sub("retry"),
		Order: root.Pack("order"), Virtual: root.Pack("virtual"), Floor: root.Pack("floor"),
		accountKeys: accountKeys{
			Shares: root.Sub("shares"), Usage: root.Sub("usage"), Count: root.Sub("count"), Tail: root.Sub("tail"),
			Weights: root.Sub("weights"),
		},
		indexKeys: indexKeysBelow(root),
	}
}

// Store works on the jobs, replications and documents below one root. It holds no state but its
// configuration: everything is in the store.
type Store struct {
	Jobs   *jobs.Queue
	Docs   *docs.Store
	Keys   Keys
	Config Config
	// Functions runs validation functions. Without it no document is written where there are any.
	Functions Functions
}

// New is the store below root.
func New(root tuple.Subspace, c Config) *Store {
	keys := KeysBelow(root)
	queue := jobs.New(keys.Jobs)
	queue.Along = func(jobID string) kv.Range { return keys.Spec.Sub(jobID).Range() }
	queue.Moved = keys.moved
	databases := docs.New(keys.Docs)
	databases.DefaultSecurity = docs.AdminsOnly
	return &Store{Jobs: queue, Docs: databases, Keys: keys, Config: c}
}

// IsReplicatorDB reports whether a database's documents are replications: those of _replicator, and of any
// database whose name ends with /_replicator.
func IsReplicatorDB(name string) bool {
	return name == "_replicator" || strings.HasSuffix(name, "/_replicator")
}

// documentJobID is the id of the job of a document. It depends on the instance of the database, so the
// jobs of a database that was deleted and created again are others.
func documentJobID(instance tuple.UUID, docID string) string {
	return instancePrefix(instance) + docID
}

func instancePrefix(instance tuple.UUID) string { return hex.EncodeToString(instance[:]) + "|" }

// specChunk bounds one value of a stored replication.
const specChunk = 90_000

func (s *Store) setSpec(tx kv.Tx, jobID string, r *spec.Replication) error {
	raw, err := spec.Encode(r)
	if err != nil {
		return fmt.Errorf("job %q: %w", jobID, err)
	}
	s.clearSpec(tx, jobID)
	for n := int64(0); len(raw) > 0; n++ {
		size := min(len(raw), specChunk)
		tx.Set(s.Keys.Spec.Pack(jobID, n), raw[:size])
		raw = raw[size:]
	}
	return nil
}

func (s *Store) clearSpec(tx kv.Tx, jobID string) {
	tx.ClearRange(s.Keys.Spec.Sub(jobID).Range())
}

// Spec reads the replication of a job; nil when there is none.
func (s *Store) Spec(r kv.Reader, jobID string) (*spec.Replication, error) {
	rep, _, err := s.spec(r, jobID)
	return rep, err
}

// spec is Spec that says how many bytes were read.
func (s *Store) spec(r kv.Reader, jobID string) (rep *spec.Replication, size int, err error) {
	rows, err := r.GetRange(s.Keys.Spec.Sub(jobID).Range(), kv.RangeOptions{})
	if err != nil || len(rows) == 0 {
		return nil, 0, err
	}
	var raw []byte
	for i, row := range rows {
		if key := s.Keys.Spec.Pack(jobID, int64(i)); !bytes.Equal(row.Key, key) {
			return nil, 0, fmt.Errorf("%w: replication of job %q: %x is missing", jobs.ErrCorrupt, jobID, key)
		}
		raw = append(raw, row.Value...)
	}
	if rep, err = spec.Decode(raw); err != nil {
		return nil, 0, fmt.Errorf("%w: replication of job %q: %w", jobs.ErrCorrupt, jobID, err)
	}
	return rep, len(raw), nil
}

// put stores a new pending job and removes the job that had its id, if any.
func (s *Store) put(tx kv.Tx, jobID string, rec *Record, rep *spec.Replication, now instant.Time) error {
	if rep.Filter.Kind != spec.FunctionFilter { // otherwise it takes a request to the source to know
		id := repid.New(s.Config.Server, rep, "")
		rec.RepID, rec.BaseID = id.String(), id.Base
	}
	old, err := take(s, tx, jobID, rec.RepID)
	if err != nil {
		return err
	}
	if err := s.setSpec(tx, jobID, rep); err != nil {
		return err
	}
	rec.describe(rep)
	free, err := s.reserve(tx, jobID, rec)
	if err != nil {
		return err
	}
	rec.Awaited = old != nil && old.Awaited && old.RepID == rec.RepID
	s.Keys.inherit(tx, jobID, old, rec)
	rec.State, rec.Created, rec.LastUpdated = Pending, now, now
	rec.PausedByDocument = rep.Paused
	rec.note(s.Config.MaxHistory, Event{Type: "added", At: now})
	place, err := s.enter(tx, rec, now)
	if err != nil {
		return err
	}
	marks{s.Keys, tx, jobID}.introduce(rec)
	schedule := jobs.Schedule{Priority: rec.priority(place)}
	switch {
	case rec.paused():
		schedule.Lot = lotPaused
	case !free && s.Config.DuplicatesWait && !rec.Transient():
		schedule.Lot = lotBehind + rec.RepID
		if err := (lots{s, tx}).await(rec.RepID); err != nil {
			return err
		}
	}
	if schedule.Lot != "" {
		s.leave(tx, rec)
	}
	return s.Jobs.Add(tx, jobID, schedule, rec.encode())
}

// reserve claims the replication id of a new job, if it is known and free. The first job keeps a replication; the
// others wait, or are refused when they run (see Owned.Claim).
func (s *Store) reserve(tx kv.Tx, jobID string, rec *Record) (free bool, err error) {
	if rec.RepID == "" {
		return true, nil
	}
	other, err := s.claimedBy(tx, jobID, rec.RepID)
	if err == nil && other == nil {
		tx.Set(s.Keys.Claim.Pack(rec.RepID), []byte(jobID))
	}
	return other == nil, err
}

// remove deletes a job with all that belongs to it.
func (s *Store) remove(tx kv.Tx, jobID string) error {
	old, err := take(s, tx, jobID, "")
	if err == nil && old != nil && old.Refused != nil {
		s.Keys.clearRefused(tx, jobID)
	}
	return err
}

// take deletes a job with all that belongs to it but the list of refused documents, and returns its record; nil
// if there was no job. It gives up the right to a replication, unless that has the id keeps: a job that is made anew
// as the same replication stays ahead of those that wait for it.
func take(s *Store, tx kv.Tx, jobID, keeps string) (*Record, error) {
	j, rec, err := readJob(s, tx, jobID)
	if err != nil || j == nil {
		return nil, err
	}
	if rec.RepID != keeps {
		if err := (lots{s, tx}).dropClaim(jobID, rec); err != nil {
			return nil, err
		}
	}
	marks{s.Keys, tx, jobID}.forget(rec)
	if rec.Expires != 0 {
		tx.Clear(s.Keys.Expire.Pack(int64(rec.Expires), jobID))
	}
	if !rec.State.Terminal() && rec.Parking == (Parking{}) {
		s.leave(tx, rec)
	}
	s.clearSpec(tx, jobID)
	_, err = s.Jobs.Remove(tx, jobID)
	return rec, err
}
