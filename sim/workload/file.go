package workload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Formats of files, by their extension.
const (
	traceFile = ".jsonl"
	swfFile   = ".swf"
)

// IsFile reports whether a path names a workload: its extension is .jsonl or .swf.
func IsFile(path string) bool {
	ext := filepath.Ext(path)
	return ext == traceFile || ext == swfFile
}

// sidecarOf returns the path of the sidecar of an SWF file.
func sidecarOf(path string) string { return strings.TrimSuffix(path, swfFile) + ".csv" }

// ReadFile reads a workload from a file: JSON lines (.jsonl), or SWF (.swf) with its sidecar if there is one.
// gaps says that jobs may be missing in an SWF file without a sidecar.
func ReadFile(path string, gaps bool) (*Workload, error) {
	w, err := readFile(path, gaps)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", path, err)
	}
	return w, nil
}

func readFile(path string, gaps bool) (*Workload, error) {
	if !IsFile(path) {
		return nil, errors.New("the name must end in .jsonl or .swf")
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if filepath.Ext(path) == traceFile {
		return ReadTrace(in)
	}
	sidecar, err := os.Open(sidecarOf(path))
	if errors.Is(err, fs.ErrNotExist) {
		return ReadSWF(in, gaps)
	}
	if err != nil {
		return nil, err
	}
	defer sidecar.Close()
	return ReadSidecar(in, sidecar)
}

// WriteFile writes a workload to a file, in the format that its extension names; that of SWF gets a sidecar.
func (w *Workload) WriteFile(path string) error {
	if err := w.writeFile(path); err != nil {
		return fmt.Errorf("workload %s: %w", path, err)
	}
	return nil
}

func (w *Workload) writeFile(path string) error {
	if !IsFile(path) {
		return errors.New("the name must end in .jsonl or .swf")
	}
	if err := w.Check(); err != nil {
		return err
	}
	if filepath.Ext(path) == traceFile {
		return create(path, w.WriteTrace)
	}
	return create(path, func(out io.Writer) error {
		return create(sidecarOf(path), func(sidecar io.Writer) error { return w.WriteSWF(out, sidecar) })
	})
}

// create writes a file as a whole, or leaves what was there.
func create(path string, write func(io.Writer) error) error {
	out, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	err = write(out)
	if err == nil {
		err = out.Chmod(0o644)
	}
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	return err
}
