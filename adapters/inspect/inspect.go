// Package inspect has a whole store checked, and repaired if that is wanted, while the service works on it.
//
// The embedded store is read as of one moment. FoundationDB is read in pages, each in a transaction of its own; then
// sums over several pages are judged only if nothing has changed meanwhile.
package inspect

import (
	"context"
	"fmt"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/core/check"
	"couchrelay/core/check/whole"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Options say what is checked, and how.
type Options struct {
	DB   kv.Database // with values as they are stored
	Root tuple.Subspace
	// Open returns what a value was before it was sealed; nil leaves sealed values alone.
	Open   func(key, value []byte) ([]byte, error)
	Beside []check.Section // rows of adapters
	Repair bool
	// Tell is told of each finding. Its error ends the check.
	Tell func(Told) error
}

// Told is a finding, and whether it was repaired.
type Told struct {
	check.Finding
	Repaired bool `json:"repaired"`
}

// Summary is the result of a check.
type Summary struct {
	check.Summary
	Repaired int64 `json:"repaired"`
	// AtOnce reports whether all was read as of one moment, or nothing has changed meanwhile. Otherwise sums that
	// differ could not be judged.
	AtOnce  bool    `json:"at_once"`
	Seconds float64 `json:"seconds"`
	// Sound reports whether nothing wrong is left, as far as it could be judged.
	Sound bool `json:"sound"`
}

// Moments is a store that can be read as of one moment.
type Moments interface {
	Moment() (*embedded.Moment, error)
}

// maxPasses bounds how often a store is checked again after repairs: a repair can bring other findings to light.
const maxPasses = 5

// Run checks a store. With Repair it looks again after it has repaired something, until nothing can be repaired; the
// findings of the last look count.
func Run(ctx context.Context, o Options) (s Summary, err error) {
	began := time.Now()
	repaired := int64(0)
	for range maxPasses {
		p := pass{Options: o}
		if err := p.run(ctx); err != nil {
			return s, err
		}
		repaired += p.repaired
		s = Summary{Summary: p.summary, Repaired: repaired, AtOnce: p.still, Seconds: time.Since(began).Seconds()}
		s.Sound = s.Findings == 0
		if p.repaired == 0 {
			break
		}
	}
	return s, nil
}

// pass is one look at the whole store.
type pass struct {
	Options
	read     func(ctx context.Context, f func(kv.Reader) error) error
	summary  check.Summary
	held     []check.Finding // doubtful ones
	still    bool            // nothing has changed during the pass
	repaired int64
	repairs  int64 // of sums, by all before the pass and by this one
}

// maxHeld bounds how many doubtful findings are kept until it is known whether they count.
const maxHeld = 10_000

func (p *pass) run(ctx context.Context) error {
	p.read = p.transaction
	moments, atOnce := p.DB.(Moments)
	if atOnce {
		moment, err := moments.Moment()
		if err != nil {
			return err
		}
		defer moment.Close()
		p.read = func(_ context.Context, f func(kv.Reader) error) error { return f(moment) }
	}
	before, err := p.mark(ctx)
	if err != nil {
		return err
	}
	err = p.read(ctx, func(r kv.Reader) (err error) { p.repairs, err = check.Repairs(r, p.Root); return err })
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	c := whole.New(p.Root, p.Open, atOnce, p.Beside...)
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var found []check.Finding
		err := p.read(ctx, func(r kv.Reader) error {
			more, last, err := c.Step(r)
			found, done = append(found, more...), last // a transaction may fail after a step, which is not repeated
			return err
		})
		if err != nil {
			return fmt.Errorf("read the store: %w", err)
		}
		for i := range found {
			if err := p.tell(ctx, &found[i]); err != nil {
				return err
			}
		}
	}
	after, err := p.mark(ctx)
	p.summary, p.still = c.Summary, atOnce || before == after && before != ""
	if err != nil || !p.still || p.repaired > 0 {
		return err // after repairs another pass follows
	}
	return p.release(ctx)
}

// mark returns the mark of the store; see whole.Mark.
func (p *pass) mark(ctx context.Context) (mark string, err error) {
	err = p.read(ctx, func(r kv.Reader) (err error) { mark, err = whole.Mark(r, p.Root); return err })
	if err != nil {
		return "", fmt.Errorf("read the store: %w", err)
	}
	return mark, nil
}

// release tells of findings that turned out to be none of a change.
func (p *pass) release(ctx context.Context) error {
	p.summary.Unsure -= int64(len(p.held))
	for i := range p.held {
		p.held[i].Doubtful = false
		p.summary.Add(&p.held[i])
		if err := p.tell(ctx, &p.held[i]); err != nil {
			return err
		}
	}
	return nil
}

// transaction reads a page.
func (p *pass) transaction(ctx context.Context, f func(kv.Reader) error) error {
	_, err := kv.RunWith(ctx, p.DB, background, func(tx kv.Tx) (struct{}, error) {
		return struct{}{}, f(tx.Snapshot())
	})
	return err
}

var background = kv.Options{Priority: kv.PriorityBatch, Tag: "check"}

// mend repairs a finding.
func (p *pass) mend(ctx context.Context, f *check.Finding) (bool, error) {
	mended, err := kv.RunWith(ctx, p.DB, background,
		func(tx kv.Tx) (bool, error) { return check.Mended(tx, f, p.repairs) })
	if mended && err == nil && f.OfSum() {
		p.repairs++
	}
	return mended, err
}

// tell repairs a finding, if that is wanted, and passes it on. A doubtful one is kept.
func (p *pass) tell(ctx context.Context, f *check.Finding) error {
	if f.Doubtful {
		if len(p.held) < maxHeld {
			p.held = append(p.held, *f)
		}
		return nil
	}
	told := Told{Finding: *f}
	if p.Repair && f.Mends() {
		mended, err := p.mend(ctx, f)
		if err != nil {
			return fmt.Errorf("repair %s: %w", f.Key, err)
		}
		if told.Repaired = mended; mended {
			p.repaired++
		}
	}
	return p.Tell(told)
}
