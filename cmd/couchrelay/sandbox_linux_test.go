package main

import (
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/descriptors"
)

// TestSandboxLeavesFiles: connections to a sandbox take descriptors of the process, and leave some to the store.
func TestSandboxLeavesFiles(t *testing.T) {
	t.Parallel()
	b, err := openSandbox(0, descriptors.New(16), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	cut := 0
	for range 12 {
		c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(b.url, "http://"), "/"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		if n, _ := c.Read(make([]byte, 1)); n == 0 {
			cut++
		}
	}
	if cut != 4 {
		t.Errorf("%d of 12 connections are cut, where 8 may be open", cut)
	}
}

// TestSandboxWithoutPort: a service whose sandbox gets no port does not say before that it serves.
func TestSandboxWithoutPort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	var printed, problems strings.Builder
	program := thisProgramWith("serve", "--store", t.TempDir(), "--port", "0", "--sandbox", port)
	program.Stdout, program.Stderr = &printed, &problems
	err = program.Run()
	if err == nil || printed.Len() > 0 || !strings.Contains(problems.String(), "sandbox: listen") {
		t.Errorf("%v, printed %q, and said %q", err, &printed, &problems)
	}
}
