package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// bounds are what a program may use. Processor time does not depend on what else the machine does.
type bounds struct {
	cpu    time.Duration
	wall   time.Duration // for what waits for ever
	memory int           // of addresses, in KiB
}

// anything is enough for every build.
var anything = bounds{cpu: time.Hour, wall: time.Hour, memory: 64 << 20}

// program is something to run, and what became of it.
type program struct {
	dir  string
	env  []string
	args []string

	cpu      time.Duration
	output   []byte
	failed   bool // its status was not 0, or it was ended
	overtime bool // it was ended
}

// run runs the program on one processor, with more memory and less time than usual for its garbage, but not so much
// that a busy machine, which is late to collect it, comes near the bounds. The error is about the command, not about
// the program's failure.
func (p *program) run(ctx context.Context, b bounds) error {
	limited, cancel := context.WithTimeout(ctx, b.wall)
	defer cancel()
	script := fmt.Sprintf(`ulimit -v %d && ulimit -t %d && exec "$0" "$@"`, b.memory, int(b.cpu.Seconds())+1)
	command := exec.CommandContext(limited, "sh", append([]string{"-c", script}, p.args...)...)
	command.Dir = p.dir
	command.Env = append(append(os.Environ(), "GOMAXPROCS=1", "GOGC=400", "GOMEMLIMIT=1GiB"), p.env...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	command.WaitDelay = time.Second
	err := command.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if command.ProcessState == nil {
		return err
	}
	p.cpu = command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	p.output = output.Bytes()
	p.failed = err != nil
	p.overtime = limited.Err() != nil || p.cpu >= b.cpu
	return nil
}
