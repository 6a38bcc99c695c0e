package eventlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maxText bounds the text of an effect in a log, in characters. The digest covers what is cut.
const maxText = 500

// Writer writes a log, line by line without a buffer, so the log of a killed process lacks at most its last
// line. It never fails its caller: if the file cannot be written it logs that once (recording_stopped) and
// records nothing more. A nil Writer records nothing.
//
// The goroutine that drives the host calls all methods but Close, which any goroutine may call.
type Writer struct {
	out     io.WriteCloser
	logger  *slog.Logger
	program string      // of the header
	stopped atomic.Bool // nothing more is written, and out is closed; set under mu

	mu     sync.Mutex // guards the fields below
	left   int64      // bytes that may still be written
	sum    uint32     // the checksum of all lines so far
	buffer []byte     // the line being written

	// Only the goroutine that drives the host uses these.
	scratch []byte                                  // of digest, used again
	plans   map[uint64]func(string) replication.IDs // Plan.IDs of the runs that have filter functions
}

// ErrLimit is the reason for which recording stops at the log's limit.
var ErrLimit = errors.New("the log has reached its limit")

// Create creates a log of at most limit bytes; 0 stands for no limit. The file must not exist, so that no log
// is overwritten by mistake.
func Create(path, program string, limit int64, logger *slog.Logger) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return NewWriter(file, program, limit, logger), nil
}

// NewWriter returns a Writer to out, which it closes at the end. A limit of 0 or less stands for none.
func NewWriter(out io.WriteCloser, program string, limit int64, logger *slog.Logger) *Writer {
	if limit <= 0 {
		limit = 1 << 62
	}
	return &Writer{
		out: out, logger: logger, program: program, left: limit,
		plans: map[uint64]func(string) replication.IDs{},
	}
}

// NodeBegins records the configuration of a node. It is the first call.
func (w *Writer) NodeBegins(cfg node.Config, now instant.Time) {
	if w != nil {
		w.write(line{Header: &header{Format: format, Version: Version, Program: w.program,
			Began: now, Node: cfg}})
	}
}

// NodeStepped is host.Observer's: it records an event of the node and its effects.
func (w *Writer) NodeStepped(c node.Clock, ev node.Event, effects []node.Effect) {
	if w == nil || w.stopped.Load() {
		return
	}
	s := step{Steady: c.Steady, Wall: c.Wall}
	s.putEvent(redacted(ev))
	for _, e := range effects {
		if kill, is := e.(node.KillRun); is {
			delete(w.plans, kill.Run)
		}
	}
	s.Effects, s.Digest, w.scratch = described(effects, w.scratch)
	w.write(line{Step: &s})
}

// RunBegins is host.Observer's: it records the plan of a run.
func (w *Writer) RunBegins(run uint64, p replication.Plan) {
	if w == nil || w.stopped.Load() {
		return
	}
	rec := plan{Run: run, Options: p.Options, Created: p.Created, Resumed: p.Resumed,
		ResumedID: p.ResumedID, Delay: int64(p.Delay), Seed: p.Seed,
		Reset: p.Reset, Listed: p.Listed, MaxListed: p.MaxListed, List: p.List, ListSaved: p.ListSaved,
		Crashes: p.Crashes}
	if p.Filter == nil {
		rec.IDs = p.IDs("")
	} else {
		w.plans[run] = p.IDs
	}
	w.write(line{Plan: &rec})
}

// RunStepped is host.Observer's: it records an event of a run and its effects.
func (w *Writer) RunStepped(run uint64, now instant.Time, ev replication.Event,
	effects []replication.Effect) {
	if w == nil || w.stopped.Load() {
		return
	}
	s := step{Run: run, Steady: now}
	if reply, is := ev.(replication.Reply); is {
		if f, is := reply.Result.(peer.Filter); is && w.plans[run] != nil {
			ids := w.plans[run](f.Code)
			s.IDs = &ids
		}
	}
	s.putEvent(redacted(ev))
	s.Effects, s.Digest, w.scratch = described(effects, w.scratch)
	if ends(effects) {
		delete(w.plans, run)
	}
	w.write(line{Step: &s})
}

// described returns the texts and the digest of effects, as a log has them. It takes and returns scratch
// memory.
func described[E fmt.Stringer](effects []E, scratch []byte) ([]string, uint64, []byte) {
	list := make([]E, len(effects))
	texts := make([]string, len(effects))
	for i, e := range effects {
		list[i] = redacted(e).(E)
		texts[i] = fmt.Sprintf("%.*s", maxText, valid(e.String()))
	}
	sum, scratch := digest(list, scratch)
	return texts, sum, scratch
}

// ends reports whether a run's effects end it.
func ends(effects []replication.Effect) bool {
	for _, e := range effects {
		if _, is := e.(replication.End); is {
			return true
		}
	}
	return false
}

// Close writes the end of the log and closes it. More calls do nothing.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	w.write(line{End: "closed"})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped.Swap(true) {
		return nil
	}
	return w.out.Close()
}

// write writes a line. If it cannot, it ends the recording.
func (w *Writer) write(l line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped.Load() {
		return
	}
	raw, err := json.Marshal(l)
	if err == nil {
		w.sum = crc32.Update(w.sum, castagnoli, raw)
		w.buffer = fmt.Appendf(w.buffer[:0], "%08x %s\n", w.sum, raw)
		if w.left -= int64(len(w.buffer)); w.left < 0 {
			err = ErrLimit
		} else {
			_, err = w.out.Write(w.buffer)
		}
	}
	if err != nil {
		w.stopped.Store(true)
		w.logger.Error("recording_stopped", "error", err)
		_ = w.out.Close() // the log can be replayed up to its last whole line
	}
}
