package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestUpgradeWithoutConfiguration: an upgrade succeeds on a machine whose admin has removed the configuration file,
// which Debian does not bring back.
func TestUpgradeWithoutConfiguration(t *testing.T) {
	if _, err := os.Stat("/etc/couchrelay/couchrelay.ini"); err == nil {
		t.Skip("SKIPPED: couchrelay is installed here")
	}
	bin := t.TempDir()
	for name, script := range map[string]string{"getent": "exit 0", "chgrp": `test -e "$2"`, "systemctl": "exit 0",
		"deb-systemd-helper": "exit 0", "deb-systemd-invoke": "exit 0"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("/bin/sh", "scripts/postinstall.sh", "configure", "1.0")
	c.Env = []string{"PATH=" + bin + ":/usr/bin:/bin"}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
