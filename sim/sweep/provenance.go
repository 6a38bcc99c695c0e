package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// Format is the version of files of results. Files of another one are refused.
const Format = 1

// Header says where results come from. It has all that is needed to compute them again, and nothing else, so that
// the same experiment gives the same bytes.
type Header struct {
	Format  int    `json:"format"`
	Build   Build  `json:"build"`
	Command string `json:"command"`
	// File is the experiment as it was given, and Experiment its text. Traces are looked up where the file is.
	File       string   `json:"file"`
	Experiment string   `json:"experiment"`
	Variants   []string `json:"variants,omitempty"` // of a comparison: a=1, b=2
	Inputs     []Input  `json:"inputs,omitempty"`
	First      uint64   `json:"first_seed"`
	Last       uint64   `json:"last_seed"`
	Points     int      `json:"points"`
	Axes       []string `json:"axes"`
	Metrics    []Metric `json:"metrics"`
	Hash       string   `json:"hash"` // SHA-256 of the rest
}

// CheckInputs returns an error if a trace is not the one that was played.
func (h *Header) CheckInputs() error {
	for _, was := range h.Inputs {
		path := filepath.Join(filepath.Dir(h.File), was.File)
		switch sum, err := digest(path); {
		case err != nil:
			return err
		case sum != was.SHA256:
			return fmt.Errorf("%s: is not the trace that was played, which has SHA-256 %s", path, was.SHA256)
		}
	}
	return nil
}

// Build is a version of couchrelay.
type Build struct {
	Version  string `json:"version,omitempty"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // there were changes that are not in the commit
	Go       string `json:"go"`
	Arch     string `json:"arch"` // processors differ in the last digits of sums of products
}

// Input is a trace, with the SHA-256 of its content.
type Input struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// Metric says what is measured.
type Metric struct {
	Name    string `json:"name"`
	Unit    string `json:"unit,omitempty"`
	Better  string `json:"better,omitempty"` // less or more
	Formula string `json:"formula,omitempty"`
}

// Seeds returns the number of seeds.
func (h *Header) Seeds() int { return int(h.Last - h.First + 1) }

// seal computes the hash.
func (h *Header) seal() error {
	h.Hash = ""
	text, err := json.Marshal(h)
	sum := sha256.Sum256(text)
	h.Hash = hex.EncodeToString(sum[:])
	return err
}

// ThisBuild is the version of the program that runs, as far as it knows: go run and go test leave commits out.
func ThisBuild() Build {
	b := Build{Go: runtime.Version(), Arch: runtime.GOARCH}
	info, known := debug.ReadBuildInfo()
	if !known {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the version for people.
func (b Build) String() string {
	s := "couchrelay"
	if b.Version != "" {
		s += " " + b.Version
	}
	if b.Commit != "" {
		s += ", commit " + b.Commit[:min(12, len(b.Commit))]
	}
	if b.Modified {
		s += " with changes"
	}
	return s + ", " + b.Go + " on " + b.Arch
}

// program identifies the executable, so that a sweep is not continued by another one.
func program() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return digest(path)
}

// digest is the SHA-256 of a file.
func digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	_, err = io.Copy(h, file)
	return hex.EncodeToString(h.Sum(nil)), err
}

// Changes lists in words how a header differs from another one; none if they are the same.
func (h *Header) Changes(was *Header) []string {
	var list []string
	note := func(what string, is, was any) {
		if fmt.Sprint(is) != fmt.Sprint(was) {
			list = append(list, fmt.Sprintf("%s is %v, and was %v", what, is, was))
		}
	}
	note("the program", h.Build, was.Build)
	note("the command", h.Command, was.Command)
	note("the experiment's file", h.File, was.File)
	if h.Experiment != was.Experiment {
		list = append(list, "the text of the experiment is another one")
	}
	note("the variants", strings.Join(h.Variants, "; "), strings.Join(was.Variants, "; "))
	note("the traces", h.Inputs, was.Inputs)
	note("the seeds", fmt.Sprint(h.First, "..", h.Last), fmt.Sprint(was.First, "..", was.Last))
	note("the metrics", len(h.Metrics), len(was.Metrics))
	if len(list) == 0 && h.Hash != was.Hash {
		list = append(list, "what metrics mean is another")
	}
	return list
}
