package couch

import (
	"net"
	"syscall"
	"testing"

	"couchrelay/core/spec"
)

// TestSocketOptions: the options reach the connection. Linux doubles the sizes of buffers.
func TestSocketOptions(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const socket, tcp = syscall.SOL_SOCKET, syscall.IPPROTO_TCP
	for name, c := range map[string]struct {
		set                 spec.SocketOptions
		level, option, want int
	}{
		"priority":     {spec.SocketOptions{Priority: 3}, socket, syscall.SO_PRIORITY, 3},
		"no priority":  {spec.SocketOptions{}, socket, syscall.SO_PRIORITY, 0},
		"keepalive":    {spec.SocketOptions{KeepAlive: true}, socket, syscall.SO_KEEPALIVE, 1},
		"no keepalive": {spec.SocketOptions{}, socket, syscall.SO_KEEPALIVE, 0},
		"nodelay":      {spec.SocketOptions{NoDelay: true}, tcp, syscall.TCP_NODELAY, 1},
		"delay":        {spec.SocketOptions{}, tcp, syscall.TCP_NODELAY, 0},
		"sndbuf":       {spec.SocketOptions{SendBuffer: 5000}, socket, syscall.SO_SNDBUF, 10_000},
		"recbuf":       {spec.SocketOptions{ReceiveBuffer: 6000}, socket, syscall.SO_RCVBUF, 12_000},
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := setOptions(conn.(*net.TCPConn), c.set); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		got, failed := -1, error(nil)
		err = raw.Control(func(fd uintptr) { got, failed = syscall.GetsockoptInt(int(fd), c.level, c.option) })
		if err != nil || failed != nil || got != c.want {
			t.Errorf("%s: %d, want %d: %v, %v", name, got, c.want, err, failed)
		}
		conn.Close()
	}
}
