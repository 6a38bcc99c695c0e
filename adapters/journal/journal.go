// Package journal writes the service's log: one event a line, as text or JSON. Lines that repeat each other are
// folded: the first is written at once, and those of the next seconds as one, with their number.
package journal

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/benbjohnson/clock"
)

const (
	// window is how long after a line its repetitions are held back.
	window = 10 * time.Second
	// most bounds the lines that are remembered. Further ones are written, and their repetitions too.
	most = 1000
)

// Options of a log.
type Options struct {
	Level  slog.Leveler // the least severe, which may change at any time
	Format string       // text or json, as in the configuration
	Clock  clock.Clock
	// Unfolded is the event whose lines are never folded.
	Unfolded string
}

// New returns a logger that writes to w. Flush writes the lines that are held back.
func New(w io.Writer, o Options) (logger *slog.Logger, flush func()) {
	options := &slog.HandlerOptions{Level: o.Level, ReplaceAttr: inWords}
	var plain slog.Handler = slog.NewTextHandler(w, options)
	if o.Format == "json" {
		plain = slog.NewJSONHandler(w, options)
	}
	f := &fold{clock: o.Clock, unfolded: o.Unfolded, lines: map[[sha256.Size]byte]*line{}}
	return slog.New(handler{Handler: plain, fold: f}), func() { f.expire(time.Time{}) }
}

// inWords writes times that pass as text in JSON, too, which has them in nanoseconds otherwise, and errors without the
// stacks that some of them have.
func inWords(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	if err, is := a.Value.Any().(error); is {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}

// handler folds the lines of another one. The embedded one is what they are written to.
type handler struct {
	slog.Handler
	fold  *fold
	about string // the attributes and groups that all its lines have
}

// Handle writes a line, or counts it as a repetition.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == h.fold.unfolded {
		return h.Handler.Handle(ctx, r)
	}
	text := h.about + r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	if h.fold.repeats(h.Handler, sha256.Sum256([]byte(text)), r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler of lines that have these attributes, too.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	about := h.about
	for _, a := range attrs {
		about += a.String() + " "
	}
	return handler{h.Handler.WithAttrs(attrs), h.fold, about}
}

// WithGroup returns a handler of lines whose further attributes are in a group.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.fold, h.about + name + ". "}
}

// fold remembers the lines of the last seconds.
type fold struct {
	clock    clock.Clock
	unfolded string // event
	mu       sync.Mutex
	lines    map[[sha256.Size]byte]*line
	order    []*line // by their ends, which are all one window after their beginnings
	timed    bool    // a timer will expire the first
}

// line is one that was written, with its repetitions since.
type line struct {
	key   [sha256.Size]byte
	ends  time.Time
	to    slog.Handler
	last  slog.Record
	count int // of repetitions
}

// repeats reports whether the line is held back, since it was written within the window.
func (f *fold) repeats(to slog.Handler, key [sha256.Size]byte, r slog.Record) bool {
	now := f.clock.Now()
	f.expire(now)
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.lines[key]; l != nil {
		l.last = r.Clone()
		l.count++
		f.time(now)
		return true
	}
	if len(f.order) < most {
		l := &line{key: key, ends: now.Add(window), to: to}
		f.lines[key], f.order = l, append(f.order, l)
	}
	return false
}

// time makes sure that held lines are written though no other line comes.
func (f *fold) time(now time.Time) {
	if f.timed || len(f.order) == 0 {
		return
	}
	f.timed = true
	f.clock.AfterFunc(f.order[0].ends.Sub(now), func() {
		now := f.clock.Now()
		f.expire(now)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.timed = false
		f.time(now)
	})
}

// expire forgets the lines whose windows have ended, all when now is zero, and writes the repetitions of each as one
// line.
func (f *fold) expire(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.order) > 0 && (now.IsZero() || !f.order[0].ends.After(now)) {
		l := f.order[0]
		f.order = f.order[1:]
		if delete(f.lines, l.key); l.count > 0 {
			l.last.AddAttrs(slog.Int("repeated", l.count))
			_ = l.to.Handle(context.Background(), l.last) // there is nowhere to report an error of the log
		}
	}
}
