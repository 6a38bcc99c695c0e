package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// journal keeps the runs that are done while others are not. It is a file of results whose runs come as they end,
// and whose first line names the program. A line is one write: a kill costs the last line at most.
type journal struct {
	path string
	lock interface{ Close() error }
	file *os.File
	runs []Run // that it has
}

// partial and lockName are names of files beside that of the results.
func partial(out string) string  { return out + ".partial" }
func lockName(out string) string { return out + ".lock" }

// openJournal begins a journal, or goes on with one of the same program and experiment.
func openJournal(out string, p *Plan, program string, o Options) (*journal, error) {
	lock, err := vfs.Default.Lock(lockName(out))
	if _, nowhere := errors.AsType[*fs.PathError](err); nowhere {
		return nil, fmt.Errorf("%s: cannot be written (%w)", out, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: another process writes it (%w)", out, err)
	}
	j := &journal{path: partial(out), lock: lock}
	if err := j.open(out, p, program, o); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

func (j *journal) open(out string, p *Plan, program string, o Options) error {
	if err := p.unlessThere(out, o.Restart || o.Replace); err != nil {
		return err
	}
	flags := os.O_RDWR | os.O_CREATE
	if o.Restart {
		flags |= os.O_TRUNC
	}
	var err error
	if j.file, err = os.OpenFile(j.path, flags, 0o644); err != nil {
		return err
	}
	text, err := os.ReadFile(j.path)
	if err != nil {
		return err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // a line without its end was being written
	if err := j.file.Truncate(int64(len(text))); err != nil {
		return err
	}
	if _, err := j.file.Seek(int64(len(text)), 0); err != nil {
		return err
	}
	if len(text) == 0 {
		return j.write(line{Program: program, Header: &p.Header})
	}
	return j.read(text, p, program)
}

// unlessThere returns an error if there are results already, and nothing that could be gone on with. A trace is
// never written over.
func (p *Plan) unlessThere(out string, replace bool) error {
	results, runs, summaries := Files(out)
	for _, path := range []string{results, runs, summaries} {
		here, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, input := range p.Header.Inputs {
			trace, err := os.Stat(filepath.Join(filepath.Dir(p.Header.File), input.File))
			if err == nil && os.SameFile(here, trace) {
				return fmt.Errorf("%s: is a trace that the experiment reads; name another file with -o", path)
			}
		}
		if _, err := os.Stat(partial(out)); errors.Is(err, fs.ErrNotExist) && !replace {
			return fmt.Errorf("%s: is there already; name another file with -o, or replace it with --restart", path)
		}
	}
	return nil
}

// read takes over what the journal has.
func (j *journal) read(text []byte, p *Plan, program string) error {
	n, seen := 0, map[[2]uint64]bool{} // points and seeds
	for raw := range bytes.Lines(text) {
		n++
		var l line
		err := json.Unmarshal(raw, &l)
		switch {
		case n == 1 && (err != nil || l.Header == nil):
			return fmt.Errorf("%s: is not what an interrupted sweep has left; remove it", j.path)
		case n == 1 && l.Header.Hash != p.Header.Hash:
			return fmt.Errorf("%s: is of another experiment: %s; end it as it was begun, name another file "+
				"with -o, or begin anew with --restart",
				j.path, strings.Join(p.Header.Changes(l.Header), "; "))
		case n == 1 && l.Program != program:
			return fmt.Errorf("%s: was begun by another build of couchsim, which may decide otherwise; end it with "+
				"that one, or begin anew with --restart", j.path)
		case n == 1:
			continue
		}
		if err != nil || l.Run == nil || !p.has(*l.Run) || seen[[2]uint64{uint64(l.Run.Point), l.Run.Seed}] {
			return fmt.Errorf("%s: line %d is damaged; begin anew with --restart", j.path, n)
		}
		seen[[2]uint64{uint64(l.Run.Point), l.Run.Seed}] = true
		j.runs = append(j.runs, *l.Run)
	}
	return nil
}

func (p *Plan) has(r Run) bool {
	return r.Point >= 1 && r.Point <= len(p.Points) && r.Seed >= p.Header.First && r.Seed <= p.Header.Last
}

func (j *journal) write(l line) error {
	text, err := encode(l)
	if err == nil {
		_, err = j.file.Write(text)
	}
	return err
}

// add keeps a run, in memory alone if there is no file.
func (j *journal) add(r Run) error {
	if j.file == nil {
		j.runs = append(j.runs, r)
		return nil
	}
	if err := j.write(line{Run: &r}); err != nil {
		return err
	}
	j.runs = append(j.runs, r)
	return nil
}

// done reports whether the journal has a run.
func (j *journal) done() func(point int, seed uint64) bool {
	type key struct {
		point int
		seed  uint64
	}
	have := map[key]bool{}
	for _, r := range j.runs {
		have[key{r.Point - 1, r.Seed}] = true
	}
	return func(point int, seed uint64) bool { return have[key{point, seed}] }
}

// close leaves the journal to a later process.
func (j *journal) close() error {
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	return errors.Join(err, j.lock.Close())
}
