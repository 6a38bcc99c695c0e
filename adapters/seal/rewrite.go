package seal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"couchrelay/core/kv"
)

// pass is how far the store is rewritten: every sealed row below At has the form that Key asks for, or was written
// since by a process that used another key. The passes of one key go on until one finds nothing to do. All processes
// of a fleet work on the same pass: each transaction of it reads and writes its row.
type pass struct {
	Key   string `json:"key"` // that seals; empty if values are to be plain
	At    []byte `json:"at"`
	Moved int64  `json:"moved"` // rows that this pass rewrote
	Total int64  `json:"total"` // rows that all passes of this key rewrote
	Done  bool   `json:"done"`
}

const (
	stepRows  = 100     // that one transaction looks at
	stepBytes = 512_000 // that one transaction rewrites, if that is more than a row
	// stepShare is the part of the time that rewriting may take: after a step that took d it rests for stepShare * d,
	// within minRest and maxRest.
	stepShare = 4
	minRest   = 10 * time.Millisecond
	maxRest   = time.Second
	// retryRest is the pause after a step that failed.
	retryRest = 10 * time.Second
	// affirmEvery is the time between two looks whether the first key is still registered.
	affirmEvery = time.Minute
)

func (k *Keeper) passRow() []byte { return k.space.Pack("pass") }

// target is the key that all rows are to be sealed with, empty if they are to be plain.
func (k *Keeper) target() string {
	id, seals := k.db.Ring.First()
	if !seals {
		return ""
	}
	return id.String()
}

// pass reads the pass for a target; a new one if the last was for another.
func (k *Keeper) pass(r kv.Reader, target string) (p pass, err error) {
	raw, err := r.Get(k.passRow())
	if err != nil {
		return p, err
	}
	if raw != nil && json.Unmarshal(raw, &p) == nil && p.Key == target {
		return p, nil
	}
	// A store that never had a key has nothing to open.
	return pass{Key: target, At: k.db.rows.Root, Done: raw == nil && target == ""}, nil
}

func (k *Keeper) put(tx kv.Tx, p pass) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	tx.Set(k.passRow(), raw)
	return nil
}

// again has the rewriting begin from the start.
func (k *Keeper) again(ctx context.Context) error {
	err := kv.Do(ctx, k.below, func(tx kv.Tx) error {
		p, err := k.pass(tx, k.target())
		if err != nil {
			return err
		}
		p.At, p.Moved, p.Done = k.db.rows.Root, 0, false
		return k.put(tx, p)
	})
	if err == nil {
		k.kick()
	}
	return err
}

// Run rewrites what is not sealed with the first key, in the background and at a bounded rate, until ctx ends. Now and
// then it affirms that key.
func (k *Keeper) Run(ctx context.Context) {
	affirm := time.NewTicker(affirmEvery)
	defer affirm.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-affirm.C:
			if err := k.Affirm(ctx); err != nil && ctx.Err() == nil {
				k.Logger.Debug("secrets_affirm", "error", err)
			}
			continue
		case <-k.wake:
		}
		for k.pace(ctx) {
		}
	}
}

// pace takes one step and rests. It reports whether there is more to do.
func (k *Keeper) pace(ctx context.Context) bool {
	began := time.Now()
	done, err := k.Step(ctx)
	rest := min(max(stepShare*time.Since(began), minRest), maxRest)
	if err != nil && ctx.Err() == nil {
		k.Logger.Warn("secrets_rewrite", "error", err, "detail", "trying again")
		rest = retryRest
	}
	if done {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(rest):
		return true
	}
}

// Step rewrites some rows, and reports whether none are left.
func (k *Keeper) Step(ctx context.Context) (done bool, err error) {
	target := k.target()
	stepped := false
	background := kv.Options{Priority: kv.PriorityBatch, Tag: "seal"}
	p, err := kv.RunWith(ctx, k.below, background, func(tx kv.Tx) (pass, error) {
		p, err := k.pass(tx, target)
		if stepped = err == nil && !p.Done; !stepped {
			return p, err
		}
		if err := k.rewrite(tx, &p); err != nil {
			return p, err
		}
		return p, k.put(tx, p)
	})
	if err == nil && stepped && p.Done && p.Total > 0 {
		k.Logger.Info("secrets_rewritten", "key", target, "rows", p.Total)
	}
	return err == nil && p.Done, err
}

// rewrite brings the next rows into the form that the pass asks for.
func (k *Keeper) rewrite(tx kv.Tx, p *pass) error {
	all := kv.PrefixRange(k.db.rows.Root)
	rows, err := tx.Snapshot().GetRange(kv.Range{Begin: p.At, End: all.End}, kv.RangeOptions{Limit: stepRows})
	if err != nil {
		return err
	}
	size, lost := 0, lostKey{}
	defer func() { lost.tell(k.Logger) }()
	for _, row := range rows {
		if size > stepBytes {
			return nil
		}
		p.At = kv.KeyAfter(row.Key)
		if !k.db.rows.Sealed(row.Key) || k.hasForm(row.Value, p.Key) {
			continue
		}
		value, err := tx.Get(row.Key) // it conflicts with writers of the row
		if err != nil {
			return err
		}
		plain, err := k.db.Ring.open(k.db.rows.name(row.Key), value)
		if errors.Is(err, ErrForged) { // it never opens, and must not keep the others as they are
			k.Logger.Warn("secrets_rewrite", "row", fmt.Sprintf("%q", row.Key), "error", err,
				"detail", "it stays as it is: see couchrelay check")
			continue
		}
		if errors.Is(err, ErrUnknownKey) { // it does not open until its key is back
			lost.rows, lost.err = lost.rows+1, err
			continue
		}
		if err != nil {
			return fmt.Errorf("row %q: %w", row.Key, err)
		}
		tx.Set(row.Key, k.db.Ring.seal(k.db.rows.name(row.Key), plain))
		size += len(row.Key) + len(value)
		p.Moved++
		p.Total++
	}
	if len(rows) == stepRows {
		return nil
	}
	p.Done = p.Moved == 0 // else look again: other processes may still have written with another key
	p.At, p.Moved = k.db.rows.Root, 0
	return nil
}

// lostKey is the rows of a step that were sealed with a key that is not at hand. There may be many of them.
type lostKey struct {
	rows int
	err  error // of the last one
}

// tell tells operators of them.
func (l *lostKey) tell(logger *slog.Logger) {
	if l.rows > 0 {
		logger.Warn("secrets_rewrite", "rows", l.rows, "error", l.err, "detail", "they stay as they are")
	}
}

// hasForm reports whether a value is sealed with the key, or plain if that is empty.
func (k *Keeper) hasForm(value []byte, key string) bool {
	id, is := sealedWith(value)
	if key == "" {
		return !is
	}
	return is && id.String() == key
}

// Census is how the rows are stored that may hold credentials.
type Census struct {
	Plain int64
	By    map[ID]int64 // sealed, by key
}

// count looks at all rows, in many transactions.
func (k *Keeper) count(ctx context.Context) (Census, error) {
	c := Census{By: map[ID]int64{}}
	at := k.db.rows.Root
	all := kv.PrefixRange(at)
	for {
		rows, err := kv.Run(ctx, k.below, func(tx kv.Tx) ([]kv.KeyValue, error) {
			return tx.Snapshot().GetRange(kv.Range{Begin: at, End: all.End}, kv.RangeOptions{Limit: stepRows})
		})
		if err != nil {
			return c, err
		}
		for _, row := range rows {
			at = kv.KeyAfter(row.Key)
			if !k.db.rows.Sealed(row.Key) {
				continue
			}
			if id, is := sealedWith(row.Value); is {
				c.By[id]++
			} else {
				c.Plain++
			}
		}
		if len(rows) < stepRows {
			return c, nil
		}
	}
}

// Status tells which keys there are and how many rows need each.
type Status struct {
	File string      `json:"file,omitempty"`
	Keys []KeyStatus `json:"keys"`
	// Plain is the number of rows that are stored in clear, Rewritten how many were sealed with the first key since it
	// became that, Done whether no more are to be.
	Plain     int64 `json:"rows_in_clear"`
	Rewritten int64 `json:"rows_rewritten"`
	Done      bool  `json:"done"`
}

// KeyStatus is a key that the file has or the store needs.
type KeyStatus struct {
	ID     string `json:"id"`
	Seals  bool   `json:"seals"`
	InFile bool   `json:"in_file"`
	Needed bool   `json:"needed"` // a process without it does not start
	Rows   int64  `json:"rows"`   // that are sealed with it
}

// Status counts the rows by key.
func (k *Keeper) Status(ctx context.Context) (s Status, err error) {
	needed, err := k.registered(ctx)
	if err != nil {
		return s, err
	}
	census, err := k.count(ctx)
	if err != nil {
		return s, err
	}
	p, err := kv.Run(ctx, k.below, func(tx kv.Tx) (pass, error) { return k.pass(tx.Snapshot(), k.target()) })
	if err != nil {
		return s, err
	}
	s = Status{File: k.File, Keys: []KeyStatus{}, Plain: census.Plain, Rewritten: p.Total, Done: p.Done}
	for _, id := range k.db.Ring.ids() {
		_, is := needed[id]
		s.Keys = append(s.Keys, KeyStatus{ID: id.String(), InFile: true, Seals: id.String() == k.target(), Needed: is,
			Rows: census.By[id]})
		delete(needed, id)
	}
	for id, rows := range census.By { // of a key that is lost
		if _, is := needed[id]; !is && !slices.Contains(k.db.Ring.ids(), id) {
			s.Keys = append(s.Keys, KeyStatus{ID: id.String(), Rows: rows})
		}
	}
	for id := range needed {
		s.Keys = append(s.Keys, KeyStatus{ID: id.String(), Needed: true, Rows: census.By[id]})
	}
	return s, nil
}
