package couch

import (
	"errors"
	"net"
	"syscall"
)

func init() { setPriority = setLinuxPriority }

func setLinuxPriority(tcp *net.TCPConn, priority int) error {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PRIORITY, priority)
	})
	return errors.Join(err, failed)
}
