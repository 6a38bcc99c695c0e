package jobstore

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
)

// Errors of Discard.
var (
	ErrNoJob    = errors.New("there is no such job")
	ErrReadable = errors.New("all of the job can be read: delete its document, or cancel its request")
)

// Discard removes a job that nothing else can remove, since a row of it cannot be read. What is left over of it is for
// a repair of the store (see Sections); its document is without a job then, until it is written again.
func Discard(tx kv.Tx, s *Store, jobID string) error {
	j, _, err := readJob(s, tx, jobID)
	if err == nil && j == nil {
		return ErrNoJob
	}
	if _, unreadable := errors.AsType[*jobs.UnreadableError](jobs.OfJob(jobID, err)); unreadable {
		return errors.Join(jobs.Discard(tx, s.Jobs, jobID), lots{s, tx}.passOn(jobID))
	}
	if err != nil {
		return err
	}
	_, err = s.Spec(tx, jobID)
	if _, unreadable := errors.AsType[*jobs.UnreadableError](jobs.OfJob(jobID, err)); unreadable {
		return s.remove(tx, jobID)
	}
	return cmp.Or(err, ErrReadable)
}

// maxHeirs bounds the jobs among which those are looked for that wait for a job that is gone.
const maxHeirs = 10_000

// passOn gives up the right to a replication that a job has, if others wait for it. Its record would have said which
// replication that is.
func (l lots) passOn(jobID string) error {
	parked := l.s.Keys.Jobs.Parked
	waiting := kv.Range{Begin: parked.Pack(lotBehind), End: parked.Pack(lotBehind + "\xff")}
	rows, err := l.tx.GetRange(waiting, kv.RangeOptions{Limit: maxHeirs})
	if err != nil {
		return err
	}
	var repIDs []string
	var claims [][]byte
	for _, row := range rows {
		var lot, id string
		if err := parked.Scan(row.Key, &lot, &id); err != nil {
			return fmt.Errorf("%w: %w", jobs.ErrCorrupt, err)
		}
		repID := strings.TrimPrefix(lot, lotBehind)
		if len(repIDs) == 0 || repIDs[len(repIDs)-1] != repID {
			repIDs, claims = append(repIDs, repID), append(claims, l.s.Keys.Claim.Pack(repID))
		}
	}
	owners, err := l.tx.GetAll(claims)
	if err != nil {
		return err
	}
	for i, repID := range repIDs {
		if string(owners[i]) != jobID {
			continue
		}
		if err := l.handOver(repID); err != nil {
			return err
		}
	}
	return nil
}
