// Package audit records who changed what: a line for each request that changes something or was refused it, and for
// each refused login. A line never has a body, a secret or a query.
package audit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"couchrelay/adapters/web"
)

// Event is the name of the lines, for logs that treat them otherwise.
const Event = "audit"

// Log writes the lines to the service's log and, if there is one, to a file of their own. It is safe for concurrent
// use.
type Log struct {
	logger *slog.Logger

	mu      sync.Mutex // guards the fields below
	file    file
	lines   *slog.Logger // into the file
	failing bool         // the last line could not be written
	torn    bool         // the file ends within a line, as one that a full disk took a part of
}

// file is what lines are written to; os.File is one.
type file interface {
	io.WriteCloser
	SetWriteDeadline(time.Time) error
}

// Bounds of a line's wait for the program that reads a pipe: each request waits with its line.
const (
	patience   = time.Second
	impatience = 10 * time.Millisecond // while lines cannot be written
)

// New returns a Log without a file.
func New(logger *slog.Logger) *Log { return &Log{logger: logger} }

// Open has lines written to the file of this path from now on, too, as JSON objects; to none if the path is empty. A
// file that was moved away since is let go. If the file cannot be opened, everything stays as it is.
func (l *Log) Open(path string) error {
	var file *os.File
	if path != "" {
		var err error
		if file, err = open(path); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.close()
	if file != nil {
		l.file, l.lines, l.torn = file, slog.New(slog.NewJSONHandler(writer{l}, nil)), endsWithinLine(path)
	}
	return err
}

// Check returns why Open would refuse a path.
func Check(path string) error {
	if path == "" {
		return nil
	}
	file, err := open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// open opens a file for lines at its end; the file may be one that only other programs can read. It does not wait for a
// program that reads a pipe: the service, or the next change of its configuration, would wait with it.
func open(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ENXIO) {
		return nil, fmt.Errorf("[audit] file: %s is a pipe that no program reads, and must be a file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("[audit] file: %w", err)
	}
	return file, nil
}

// endsWithinLine reports whether a file's last line has no end. It is false of a file that this process cannot read.
func endsWithinLine(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	last := make([]byte, 1)
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	_, err = file.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.close()
}

// close closes the file. mu must be held.
func (l *Log) close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file, l.lines = nil, nil
	return err
}

// writer is the file of a Log, whose mu is held.
type writer struct{ l *Log }

// Write writes a line. The first of several that cannot be written is reported. What there is of one that was cut off
// gets an end first, or it would spoil the next one, too.
func (w writer) Write(line []byte) (int, error) {
	if w.l.torn {
		line = append([]byte{'\n'}, line...)
	}
	wait := patience
	if w.l.failing {
		wait = impatience
	}
	_ = w.l.file.SetWriteDeadline(time.Now().Add(wait)) // a regular file takes none, and needs none
	n, err := w.l.file.Write(line)
	if n > 0 {
		w.l.torn = line[n-1] != '\n'
	}
	if err != nil && !w.l.failing {
		w.l.logger.Error("audit_failed", "error", err, "detail", "lines are in this log only, until it works again")
	}
	w.l.failing = err != nil
	return n, err
}

// Record writes the line of a request that is over.
func (l *Log) Record(q *web.Request, took time.Duration) {
	attrs := describe(q, took)
	l.logger.Info("audit", attrs...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines != nil {
		l.lines.Info("audit", attrs...)
	}
}

// names are those of parts of paths; others keep their own.
var names = map[string]string{"db": "database", "docid": "doc"}

// describe returns what a line tells.
func describe(q *web.Request, took time.Duration) []any {
	attrs := []any{
		slog.String("user", cut(q.User.Name)), slog.String("roles", cut(strings.Join(q.User.Roles, ","))),
	}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, cut(value)))
		}
	}
	add("via", q.User.Via)
	if q.Claimed != q.User.Name {
		add("login", q.Claimed)
	}
	attrs = append(attrs, slog.String("method", cut(q.Method)), slog.String("route", q.Pattern))
	for name, value := range q.Params() {
		if known := names[name]; known != "" {
			name = known
		}
		add(name, value)
	}
	for _, note := range q.Notes() {
		switch list, is := note.Value.Any().([]string); {
		case is:
			add(note.Key, strings.Join(list, " "))
		case note.Value.Kind() == slog.KindInt64:
			attrs = append(attrs, note)
		default:
			add(note.Key, note.Value.String())
		}
	}
	attrs = append(attrs, slog.Int("status", q.Status()), slog.String("from", address(q.RemoteAddr)))
	if q.TLS != nil && len(q.TLS.PeerCertificates) > 0 {
		add("certificate", q.TLS.PeerCertificates[0].Subject.String())
	}
	return append(attrs, slog.String("request", q.ID), slog.String("took", took.String()))
}

// address returns a client's address without the port.
func address(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// maxText bounds a value of a line in bytes.
const maxText = 256

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}
