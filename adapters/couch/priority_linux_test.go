package couch

import (
	"net"
	"syscall"
	"testing"

	"couchrelay/core/spec"
)

// TestPriority: the option reaches the connection.
func TestPriority(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, want := range []int{0, 3, 6} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		tcp := c.(*net.TCPConn)
		if err := setOptions(tcp, spec.SocketOptions{Priority: want}); err != nil {
			t.Error(err)
		}
		raw, err := tcp.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		got, failed := -1, error(nil)
		err = raw.Control(func(fd uintptr) {
			got, failed = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PRIORITY)
		})
		if err != nil || failed != nil || got != want {
			t.Errorf("priority %d is %d: %v, %v", want, got, err, failed)
		}
		c.Close()
	}
}
