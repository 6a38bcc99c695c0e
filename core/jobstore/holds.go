package jobstore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/prng"
	"couchrelay/core/spec"
)

// Hold is a rule by which no job of a replicator database, or none that touches a server, runs until
// it is lifted. It is one row, whatever the number of its jobs: a job that matches is parked when its turn comes,
// and nodes stop the runs that match.
type Hold struct {
	Database string `json:"database,omitempty"` // exactly one of Database and Server is set
	// Server is the host of a source or target, and a port if only that one is meant: "db.example.com",
	// "db.example.com:6984" or "[::1]:5984". Lower case.
	Server string       `json:"server,omitempty"`
	Reason string       `json:"reason,omitempty"`
	By     string       `json:"by,omitempty"` // the user that made it, empty if the request had none
	At     instant.Time `json:"at"`
}

// ID names the hold: there is at most one for each database and server.
func (e *Hold) ID() string {
	if e.Database != "" {
		return "database:" + e.Database
	}
	return "server:" + e.Server
}

// Validate reports what is wrong with a hold that a user asks for, and writes its server in lower case.
func (e *Hold) Validate() error {
	switch {
	case (e.Database == "") == (e.Server == ""):
		return fmt.Errorf("a hold names a `database` or a `server`, and not both")
	case e.Database != "" && !IsReplicatorDB(e.Database):
		return fmt.Errorf("`database` must be _replicator or a name that ends with /_replicator")
	case len(e.Reason) > maxHoldReason:
		return fmt.Errorf("`reason` must have at most %d bytes", maxHoldReason)
	case len(e.Database)+len(e.Server) > maxLabel: // of which one is empty; it is in keys with the ids of jobs
		return fmt.Errorf("`database` or `server` must have at most %d bytes", maxLabel)
	case e.Server == "":
		return nil
	}
	u, err := spec.ParseURL("http://" + e.Server)
	if err != nil || u.HasUserinfo || u.Path != "/" || strings.HasSuffix(e.Server, "/") {
		return fmt.Errorf("`server` must be a host name or address, with or without a port, as in db.example.com:6984")
	}
	e.Server = serverOf(u, u.Port)
	return nil
}

const maxHoldReason = 1000

// Matches reports whether the hold stops a job.
func (e *Hold) Matches(r *Record) bool {
	if e.Database != "" {
		return r.Database == e.Database
	}
	return e.touches(r.Source) || e.touches(r.Target)
}

// On reports whether the hold is on a server, "host:port", or on all ports of its host.
func (e *Hold) On(server string) bool { return e.Server != "" && e.touches("http://"+server+"/") }

// touches reports whether an endpoint is on the server.
func (e *Hold) touches(endpoint string) bool {
	with, without := Servers(endpoint)
	return e.Server == with || e.Server == without
}

// Servers names the server of an endpoint's URL with its port, which the scheme tells if the URL does not, and
// without. Both are empty for a text that is no URL.
func Servers(endpoint string) (withPort, host string) {
	u, _ := spec.ParseURL(endpoint)
	port := map[string]int{"http": 80, "https": 443}[strings.ToLower(u.Scheme)]
	return serverOf(u, cmp.Or(u.Port, port)), serverOf(u, 0)
}

func serverOf(u spec.URL, port int) string {
	host := strings.ToLower(u.Host)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != 0 {
		host += ":" + strconv.Itoa(port)
	}
	return host
}

// MakeHold puts a hold in force, and reports whether there was none of its id yet. From this commit on no job that
// matches is accepted; the nodes are called, so that they stop the runs that match.
func (o Operator) MakeHold(e Hold) (made bool, err error) {
	s, tx := o.Store, o.Tx
	e.By, e.At = o.By, o.Now
	key := s.Keys.Held.Pack(e.ID())
	old, err := tx.Get(key)
	if err != nil || old != nil {
		return false, err
	}
	row, err := json.Encode(e)
	if err != nil {
		panic("jobstore: " + err.Error()) // plain numbers and strings
	}
	tx.Set(key, row)
	lifted := s.Keys.Lifted.Pack(e.ID())
	if _, err := tx.Get(lifted); err != nil { // so that two of them conflict
		return false, err
	}
	tx.Clear(lifted) // jobs that have not come back yet stay where they are
	return true, s.Jobs.Keys.CallAll(tx)
}

// LiftHold ends a hold, and reports whether there was one. Its jobs come back by and by; see Promote.
func (o Operator) LiftHold(id string) (lifted bool, err error) {
	s, tx := o.Store, o.Tx
	key := s.Keys.Held.Pack(id)
	row, err := tx.Get(key)
	if err != nil || row == nil {
		return false, err
	}
	tx.Clear(key)
	tx.Set(s.Keys.Lifted.Pack(id), nil)
	return true, nil
}

// Hold reads the hold with an id; nil if there is none.
func (k Keys) Hold(r kv.Reader, id string) (*Hold, error) {
	row, err := r.Get(k.Held.Pack(id))
	if err != nil || row == nil {
		return nil, err
	}
	return k.decodeHold(k.Held.Pack(id), row)
}

// decodeHold reads the row of a hold. What the hold stops is in its key: so it is in force, and can be lifted, whatever
// can be read of its value. If each reader failed, nodes would accept no job at all.
func (k Keys) decodeHold(key, row []byte) (*Hold, error) {
	var id string
	err := k.Held.Scan(key, &id)
	kind, name, _ := strings.Cut(id, ":")
	if err != nil || kind != "database" && kind != "server" {
		return nil, fmt.Errorf("%w: hold %x", jobs.ErrCorrupt, key)
	}
	var e Hold
	if json.Decode(row, &e) != nil {
		e = Hold{Reason: "what is stored of this hold cannot be read: lift it, and make it again"}
	}
	if e.Database, e.Server = name, ""; kind == "server" {
		e.Database, e.Server = "", name
	}
	return &e, nil
}

// Holds reads the holds in force, in the order of their ids. Without a snapshot reader the transaction conflicts
// with each new hold.
func (k Keys) Holds(r kv.Reader) (list []Hold, err error) {
	rows, err := r.GetRange(k.Held.Range(), kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		e, err := k.decodeHold(row.Key, row.Value)
		if err != nil {
			return nil, err
		}
		list = append(list, *e)
	}
	return list, nil
}

// HeldJobs lists up to limit jobs that a hold has parked.
func (k Keys) HeldJobs(r kv.Reader, hold string, limit int) ([]string, error) {
	return k.Jobs.InLot(r, lotHeld+hold, limit)
}

// Holding finds the hold that stops a job. A node asks for each of its runs, and each comparison would parse URLs, so
// holds are not compared one by one.
type Holding map[string]int // holds by their ids, as places in a list of all

// HoldingOf is the Holding of a list.
func HoldingOf(holds []Hold) Holding {
	h := make(Holding, len(holds))
	for i := range holds {
		h[holds[i].ID()] = i
	}
	return h
}

// Stops returns the id of the first hold that stops a job; empty for none.
func (h Holding) Stops(r *Record) (first string) {
	if len(h) == 0 {
		return ""
	}
	names := []Hold{{Database: r.Database}}
	for _, endpoint := range []string{r.Source, r.Target} {
		with, without := Servers(endpoint)
		names = append(names, Hold{Server: with}, Hold{Server: without})
	}
	for i := range names {
		id := names[i].ID()
		if place, is := h[id]; is && (first == "" || place < h[first]) {
			first = id
		}
	}
	return first
}

// liftSpread is the time over which the jobs of a lifted hold become ready, so that a server that comes back from
// its maintenance does not get all of them at once.
const liftSpread = 60_000_000 // microseconds

// release brings up to limit jobs back into the queue that wait for a replication which is free by now, and those of
// lifted holds, each of these due at a moment of its own within liftSpread, which follows from its id so that every
// attempt chooses it alike. It returns how many.
func (l lots) release(now instant.Time, limit int, without []string) (released int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	most := limit + len(without) // rows whose last jobs cannot be read stay
	lifted, err := l.tx.GetRange(l.s.Keys.Lifted.Range(), kv.RangeOptions{Limit: most})
	if err != nil {
		return 0, err
	}
	for _, row := range lifted {
		if released == limit {
			break
		}
		n, err := l.releaseOf(row.Key, now, limit-released, without)
		if err != nil {
			return 0, err
		}
		released += n
	}
	return released, nil
}

// releaseOf does that for the lifted hold of a row, which it removes with the last of its jobs, or for a replication.
func (l lots) releaseOf(row []byte, now instant.Time, limit int, without []string) (released int, err error) {
	var hold string
	if err := l.s.Keys.Lifted.Scan(row, &hold); err != nil {
		return 0, fmt.Errorf("%w: %w", jobs.ErrCorrupt, err)
	}
	if repID, is := strings.CutPrefix(hold, lotBehind); is {
		return l.succeed(row, repID, without)
	}
	all, err := l.s.Keys.Jobs.InLot(l.tx, lotHeld+hold, limit+len(without))
	if err != nil {
		return 0, err
	}
	ids := slices.DeleteFunc(all, func(id string) bool { return slices.Contains(without, id) })
	if len(ids) < limit && len(ids) == len(all) {
		l.tx.Clear(row)
	}
	ids = ids[:min(len(ids), limit)]
	data := make([]kv.Range, len(ids))
	for i, id := range ids {
		data[i] = l.s.Keys.Jobs.Job.Sub(id).Range()
	}
	l.tx.Prefetch(nil, data)
	for _, id := range ids {
		j, rec, err := readJob(l.s, l.tx, id)
		if err == nil && j == nil {
			err = fmt.Errorf("%w: parked row of job %q without the job", jobs.ErrCorrupt, id)
		}
		if err != nil {
			return 0, jobs.OfJob(id, err)
		}
		source := prng.Fork(uint64(now), id)
		// Reached: a job comes back from a lifted hold
		if err := l.unpark(j, rec, now+instant.Time(source.Uint64n(liftSpread))); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}
