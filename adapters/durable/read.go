package durable

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// patience is how long the program that writes a pipe may be silent. Tests shorten it.
var patience = 30 * time.Second

// ReadFile reads a file as os.ReadFile does, but has a bound on the wait for a pipe: it refuses a pipe that no program
// writes, and one whose program is silent for 30 seconds. Callers read files while they hold locks.
func ReadFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	_ = file.SetReadDeadline(time.Now().Add(patience)) // a regular file takes none, and needs none
	text, err := io.ReadAll(file)
	if err == nil && len(text) == 0 && info.Mode()&os.ModeNamedPipe != 0 {
		err = fmt.Errorf("%s is a pipe that no program writes, and must be a file", path)
	}
	return text, err
}
