package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"couchrelay/adapters/archive"
)

// TestSecondSignal: a second signal ends a command that waits for somebody to take its output, as on a pipe to a host
// that is gone: the command does not see the first one before the output goes on.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			_, _ = w.Write([]byte(`{"vendor":{"name":"couchrelay"}}`))
			return
		}
		a, err := archive.NewWriter(w, archive.Head{})
		for i := 0; err == nil && r.Context().Err() == nil; i++ {
			err = a.Row([]byte{1, byte(i >> 16), byte(i >> 8), byte(i)}, make([]byte, 1<<10))
		}
	}))
	defer server.Close()
	c := thisProgramWith("backup", "-", "--server", server.URL)
	out, err := c.StdoutPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	dead := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer dead.Stop()
	const getPipeSize = 1032 // F_GETPIPE_SZ
	size, _, _ := syscall.Syscall(syscall.SYS_FCNTL, out.(*os.File).Fd(), getPipeSize, 0)
	for full := int32(0); full < int32(size); time.Sleep(time.Millisecond) {
		ioctl(t, out.(*os.File), syscall.TIOCINQ, unsafe.Pointer(&full))
	}
	ended := make(chan error)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case err := <-ended:
			if c.ProcessState.String() != "signal: interrupt" {
				t.Errorf("it ends with %v", err)
			}
			return
		case <-time.After(10 * time.Millisecond): // the first one is the command's
			_ = c.Process.Signal(os.Interrupt)
		}
	}
}
