package sweep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Options say how an experiment is played. None of them changes its results.
type Options struct {
	Workers  int                   // runs at once; 0 for one on each core
	Restart  bool                  // begin anew, whatever earlier processes have left
	Replace  bool                  // results that are there; what an interrupted process has left is gone on with
	Progress func(done, total int) // is told of each run that has ended; may be nil
	Play     Play                  // plays a run; nil for a run in package lab
}

// Stopped is the error of an experiment that was interrupted.
type Stopped struct {
	Done, Total int
	Kept        bool // what is done, in a file
	Restart     bool // the command began anew, and would do so again
	Cause       error
}

func (s *Stopped) Error() string {
	text := fmt.Sprintf("stopped after %d of %d runs (%s)", s.Done, s.Total, s.Cause)
	switch {
	case s.Kept && s.Restart:
		text += "; the same command without --restart goes on from there"
	case s.Kept:
		text += "; the same command goes on from there"
	}
	return text
}

// Unwrap is the reason.
func (s *Stopped) Unwrap() error { return s.Cause }

// Files are those in which the results are, given the name of the first.
func Files(out string) (results, runs, summaries string) {
	base := strings.TrimSuffix(out, ".jsonl")
	return out, base + ".csv", base + ".summary.csv"
}

// Run plays the plan and writes the results into the files of out. Until they are complete, they are in a file
// beside it; Run goes on with one that another process has left.
func (p *Plan) Run(ctx context.Context, out string, o Options) (*Results, error) {
	this, err := program()
	if err != nil {
		return nil, err
	}
	return p.resume(ctx, out, this, o)
}

func (p *Plan) resume(ctx context.Context, out, program string, o Options) (*Results, error) {
	j, err := openJournal(out, p, program, o)
	if err != nil {
		return nil, err
	}
	r, err := p.keep(ctx, j, o)
	if err == nil {
		err = r.save(out)
	}
	if err == nil {
		err = remove(partial(out), lockName(out))
	}
	return r, errors.Join(err, j.close())
}

// Try plays the plan without writing anything.
func (p *Plan) Try(ctx context.Context, o Options) (*Results, error) {
	return p.keep(ctx, &journal{}, o)
}

// keep plays what the journal does not have.
func (p *Plan) keep(ctx context.Context, j *journal, o Options) (*Results, error) {
	play := o.Play
	if play == nil {
		play = measure
	}
	tasks := p.tasks(j.done())
	total := len(p.Points) * p.Header.Seeds()
	tell := func() {
		if o.Progress != nil {
			o.Progress(len(j.runs), total)
		}
	}
	tell()
	err := p.playAll(ctx, play, tasks, o.Workers, func(r Run) error {
		defer tell()
		return j.add(r)
	})
	if err != nil && ctx.Err() != nil {
		return nil, &Stopped{len(j.runs), total, j.file != nil, o.Restart, err}
	}
	if err != nil {
		return nil, err
	}
	r := &Results{Header: p.Header, Runs: j.runs}
	r.finish()
	return r, nil
}

// save writes all files. Each is complete or not there.
func (r *Results) save(out string) error {
	results, runs, summaries := Files(out)
	for _, f := range []struct {
		path  string
		write func(io.Writer) error
	}{{runs, r.WriteCSV}, {summaries, r.WriteSummaryCSV}, {results, r.Write}} {
		if err := replace(f.path, f.write); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file beside the one that is there, and puts it in its place.
func replace(path string, write func(io.Writer) error) error {
	file, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	buffer := bufio.NewWriter(file)
	err = errors.Join(write(buffer), buffer.Flush(), file.Sync(), file.Close())
	if err != nil {
		return errors.Join(err, remove(path+".new"))
	}
	return os.Rename(path+".new", path)
}
