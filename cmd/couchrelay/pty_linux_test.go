package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/term"
)

// pty is a terminal, of which the test has the other end: it types, and sees what is drawn.
type pty struct {
	t             *testing.T
	master, slave *os.File
	mu            sync.Mutex
	drawn         bytes.Buffer
}

func ioctl(t *testing.T, f *os.File, request uintptr, value unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(value)); errno != 0 {
		t.Fatal(errno)
	}
}

func newPTY(t *testing.T, width, height int) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("SKIPPED: this machine has no terminals: ", err)
	}
	var unlocked, number int32
	ioctl(t, master, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	ioctl(t, master, syscall.TIOCGPTN, unsafe.Pointer(&number))
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pty{t: t, master: master, slave: slave}
	p.resize(width, height)
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.drawn.Write(buffer[:n])
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() { _ = slave.Close(); _ = master.Close() })
	return p
}

func (p *pty) resize(width, height int) {
	p.t.Helper()
	size := [4]uint16{uint16(height), uint16(width)}
	ioctl(p.t, p.master, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

// start runs a command with this terminal, in a session of its own.
func (p *pty) start(c *exec.Cmd) {
	p.t.Helper()
	c.Stdin, c.Stdout, c.Stderr = p.slave, p.slave, p.slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
}

func (p *pty) types(keys string) {
	p.t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// forget forgets what was drawn.
func (p *pty) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drawn.Reset()
}

func (p *pty) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drawn.String()
}

// sees waits until all texts have been drawn, the last picture at once.
func (p *pty) sees(texts ...string) string {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		pictures := strings.Split(p.text(), "\x1b[H")
		for _, picture := range pictures {
			has := true
			for _, text := range texts {
				has = has && strings.Contains(picture, text)
			}
			if has {
				return picture
			}
		}
		if time.Now().After(end) {
			p.t.Fatalf("%q is not drawn:\n%q", texts, pictures[len(pictures)-1])
		}
	}
}

func (p *pty) state() *term.State {
	p.t.Helper()
	s, err := term.GetState(int(p.slave.Fd()))
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}
