package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// result is a line of the file of results.
type result struct {
	Key       string   `json:"key"`
	Package   string   `json:"package"`
	Function  string   `json:"function"`
	Operator  string   `json:"operator"`
	File      string   `json:"file"`
	Line      int      `json:"line"`
	Old       []string `json:"old"`
	New       []string `json:"new"`
	Unit      outcome  `json:"unit"`
	Seeds     outcome  `json:"seeds"`
	Scenarios outcome  `json:"scenarios"`
}

func newResult(m *mutant) *result {
	return &result{Key: m.key(), Package: m.file.path, Function: m.function, Operator: m.operator, File: m.file.name,
		Line: m.line, Old: m.old, New: m.new}
}

func (r *result) killed() bool {
	return r.Unit.Verdict == killed || r.Seeds.Verdict == killed || r.Scenarios.Verdict == killed
}

func (r *result) cpu() float64 { return r.Unit.CPU + r.Seeds.CPU + r.Scenarios.CPU }

func (r *result) String() string {
	for _, o := range []outcome{r.Unit, r.Seeds, r.Scenarios} {
		if o.Verdict == killed {
			return "killed by " + o.By
		}
	}
	switch {
	case r.Unit.Verdict == uncompiled:
		return uncompiled
	case r.Seeds.Verdict == changed:
		return "plays seeds otherwise"
	}
	return survived
}

func (r *result) text() string { return describe(r.Package, r.Function, r.Operator, r.Old, r.New) }

// ledger keeps results in a file: one JSON object on a line, a later line for a mutant instead of an earlier one.
type ledger struct {
	mutex   sync.Mutex
	file    *os.File
	results map[string]*result
}

// openLedger reads what there is. A last line that was cut off when a process ended is left out.
func openLedger(path string) (*ledger, error) {
	l := &ledger{results: map[string]*result{}}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for scanner := bufio.NewScanner(bytes.NewReader(whole)); scanner.Scan(); {
		r := &result{}
		if err := json.Unmarshal(scanner.Bytes(), r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		l.results[r.Key] = r
	}
	if l.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	return l, errors.Join(l.file.Truncate(int64(len(whole))), seekEnd(l.file))
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, 2)
	return err
}

// find returns a copy of what is known of a mutant.
func (l *ledger) find(m *mutant) *result {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if known := l.results[m.key()]; known != nil {
		r := *known
		r.File, r.Line = m.file.name, m.line
		return &r
	}
	return newResult(m)
}

func (l *ledger) write(r *result) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	kept := *r // r may change
	l.results[r.Key] = &kept
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}
