package main

import (
	"net"
	"strconv"
	"strings"
	"testing"
)

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
