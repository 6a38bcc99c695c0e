package packaging

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// system is this machine's files below a directory, in a mount namespace of its own: what is written there is gone at
// the end.
type system struct {
	t    *testing.T
	root string
	pid  string // of the process that holds the namespace
}

// newSystem skips the test where there is no such thing.
func newSystem(t *testing.T) *system {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can install packages")
	}
	for _, tool := range []string{"dpkg", "unshare", "nsenter", "systemctl", "deb-systemd-helper"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("SKIPPED: packages are installed on Debian only: ", err)
		}
	}
	dir := t.TempDir()
	script := `set -e; mount -t tmpfs none "$0"; mkdir "$0/upper" "$0/work" "$0/root"
		mount -t overlay overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" "$0/root"
		mount --bind /proc "$0/root/proc"; echo mounted; exec cat`
	holder := exec.Command("unshare", "--mount", "sh", "-c", script, dir)
	input, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = input.Close(); _ = holder.Wait() })
	if line, _ := bufio.NewReader(output).ReadString('\n'); line != "mounted\n" {
		t.Skip("SKIPPED: this machine has no overlay file system")
	}
	return &system{t, filepath.Join(dir, "root"), fmt.Sprint(holder.Process.Pid)}
}

func (s *system) command(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--target", s.pid, "--mount", "chroot", s.root, name}, args...)...)
}

// run runs a command to its end, and returns what it prints.
func (s *system) run(name string, args ...string) string {
	s.t.Helper()
	out, err := s.command(name, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// put writes a file.
func (s *system) put(path string, text []byte) {
	s.t.Helper()
	c := s.command("sh", "-c", `cat > "$0"`, path)
	c.Stdin = strings.NewReader(string(text))
	if err := c.Run(); err != nil {
		s.t.Fatal(err)
	}
}

// has demands that a path is there, or that it is not.
func (s *system) has(path string, want bool) {
	s.t.Helper()
	if has := s.command("test", "-e", path).Run() == nil; has != want {
		s.t.Errorf("%s is there: %t", path, has)
	}
}

// inShare are some of the files below /usr/share, and of the directory share in archives.
var inShare = []string{
	"man/man1/couchrelay.1.gz", "man/man1/couchrelay-hold-add.1.gz", "man/man5/couchrelay.ini.5.gz",
	"bash-completion/completions/couchrelay", "zsh/vendor-completions/_couchrelay",
	"fish/vendor_completions.d/couchrelay.fish",
}

// builds makes the packages of a version for this machine, and returns the Debian one.
func builds(t *testing.T, version string) []byte {
	build := exec.Command("./dist.sh", "linux/"+runtime.GOARCH)
	dist := t.TempDir()
	build.Env = append(os.Environ(), "VERSION="+version, "DIST="+dist)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sums := exec.Command("sha256sum", "--check", "SHA256SUMS")
	sums.Dir = dist
	if out, err := sums.CombinedOutput(); err != nil || strings.Count(string(out), "OK") != 3 {
		t.Errorf("checksums: %v\n%s", err, out)
	}
	name := "couchrelay-" + version + "-linux-" + runtime.GOARCH
	list, err := exec.Command("tar", "-tzf", filepath.Join(dist, name+".tar.gz")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range inShare {
		if !strings.Contains(string(list), "\n"+name+"/share/"+file+"\n") {
			t.Errorf("%s is not in the archive:\n%s", file, list)
		}
	}
	deb, err := os.ReadFile(filepath.Join(dist, "couchrelay_"+version+"_"+runtime.GOARCH+".deb"))
	if err != nil {
		t.Fatal(err)
	}
	return deb
}

// serve runs the installed service as its unit does, until it says that it is ready, and stops it.
func (s *system) serve() {
	s.t.Helper()
	unit := s.run("cat", "/usr/lib/systemd/system/couchrelay.service")
	_, line, _ := strings.Cut(unit, "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	address := fmt.Sprintf("@couchrelay-test-%d", os.Getpid())
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		s.t.Fatal(err)
	}
	defer notify.Close()
	s.run("install", "-d", "-m", "0700", "-o", "couchrelay", "/var/lib/couchrelay") // which systemd does
	c := s.command("setpriv", append([]string{"--reuid=couchrelay", "--regid=couchrelay", "--clear-groups"},
		strings.Fields(line)...)...)
	c.Env = append(os.Environ(), "NOTIFY_SOCKET="+address)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	told := make([]byte, 100)
	_ = notify.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := notify.Read(told)
	if err != nil || string(told[:n]) != "READY=1" {
		s.t.Errorf("the service tells systemd %q, %v", told[:n], err)
	}
	answer, err := http.Get("http://127.0.0.1:5989/_up")
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Errorf("the service does not answer: %v", err)
	} else {
		_ = answer.Body.Close()
	}
	_ = c.Process.Signal(syscall.SIGTERM)
	if err := c.Wait(); err != nil {
		s.t.Errorf("the service ends with %v", err)
	}
}

// enabled is there while the unit is enabled.
const enabled = "/etc/systemd/system/multi-user.target.wants/couchrelay.service"

// standIn stands in for systemctl where systemd does not run: it notes what it is asked for, and makes links.
const standIn = `#!/bin/sh
echo "$@" >>/root/asked
case "$*" in
*preset*) exec /usr/bin/systemctl.real "$@" ;;
*is-enabled*) if [ -L ` + enabled + ` ]; then echo enabled; else echo disabled; exit 1; fi ;;
*is-active*) exit 3 ;;
esac
`

// supervise has systemd seem to run.
func (s *system) supervise() {
	s.t.Helper()
	s.run("rm", "-f", "/usr/sbin/policy-rc.d")
	s.run("mkdir", "-p", "/run/systemd/system")
	s.run("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
	s.put("/usr/bin/systemctl", []byte(standIn))
	s.run("chmod", "755", "/usr/bin/systemctl")
}

// dpkg runs dpkg, and demands what it has systemd do with the service, which ends up enabled or not.
func (s *system) dpkg(action, argument, does string, enables bool) {
	s.t.Helper()
	s.put("/root/asked", nil)
	s.run("dpkg", action, argument)
	if link := s.command("test", "-L", enabled).Run() == nil; link != enables {
		s.t.Errorf("dpkg %s leaves the service enabled: %t", action, link)
	}
	asked := s.run("cat", "/root/asked")
	for _, one := range []string{"start", "restart", "stop"} {
		has := regexp.MustCompile(`(?m)(^| )` + one + ` couchrelay.service$`).MatchString(asked)
		if has != (one == does) {
			s.t.Errorf("dpkg %s has systemd %s the service: %t\n%s", action, one, has, asked)
		}
	}
}

// TestDebianPackage installs the package, runs its service as its user, upgrades, removes and purges it. What its
// administrator has changed, and the store, stay.
func TestDebianPackage(t *testing.T) {
	s := newSystem(t)
	s.supervise()
	for i, version := range []string{"1.0.0", "1.1.0"} {
		deb := builds(t, version)
		s.put("/root/couchrelay.deb", deb)
		s.dpkg("--install", "/root/couchrelay.deb", []string{"start", "restart"}[i], true)
		if i == 0 {
			s.run("sed", "-i", "s/^port = 5980/port = 5989/", "/etc/couchrelay/couchrelay.ini")
		}
		if got := s.run("/usr/bin/couchrelay", "version"); got != "couchrelay "+version+"\n" {
			t.Errorf("installed is %q", got)
		}
		if got := s.run("stat", "-c", "%a %U:%G", "/etc/couchrelay/couchrelay.ini"); got != "640 root:couchrelay\n" {
			t.Errorf("the configuration, which may hold passwords, has the mode %s", got)
		}
		s.serve()
	}
	for _, name := range inShare {
		s.has("/usr/share/"+name, true)
	}
	for _, name := range []string{"ops/alerts.yml", "ops/dashboard.json", "ops/METRICS.md", "docs/configuration.md"} {
		s.has("/usr/share/doc/couchrelay/"+name, true)
	}
	if got := s.run("zcat", "/usr/share/man/man1/couchrelay-jobs.1.gz"); !strings.Contains(got, "couchrelay 1.1.0") {
		t.Errorf("the manual page is %.200s", got)
	}
	s.run("bash", "-c", ". /usr/share/bash-completion/completions/couchrelay && complete -p couchrelay")
	s.dpkg("--remove", "couchrelay", "stop", true) // for the next installation
	s.has("/usr/bin/couchrelay", false)
	s.has("/usr/share/"+inShare[0], false)
	s.has("/etc/couchrelay/couchrelay.ini", true)
	s.dpkg("--install", "/root/couchrelay.deb", "restart", true)
	s.run("rm", enabled) // as systemctl disable does
	s.dpkg("--install", "/root/couchrelay.deb", "", false)
	s.run("rm", "/var/lib/systemd/deb-systemd-helper-enabled/couchrelay.service.dsh-also") // older ones had none
	s.dpkg("--install", "/root/couchrelay.deb", "", false)
	s.dpkg("--remove", "couchrelay", "stop", false)
	s.dpkg("--install", "/root/couchrelay.deb", "", false)
	s.dpkg("--purge", "couchrelay", "stop", false)
	s.has("/etc/couchrelay/couchrelay.ini", false)
	s.dpkg("--install", "/root/couchrelay.deb", "start", true)
	s.dpkg("--purge", "couchrelay", "stop", false)
	s.has("/var/lib/couchrelay/store/secret.key", true)
}

// TestUnit: systemd knows each setting of the unit, and finds little that an intruder could use.
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIPPED: ", err)
	}
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager",
		"./couchrelay.service").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, _ = exec.Command("systemd-analyze", "verify", "--man=no", "./couchrelay.service").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "couchrelay.service") && !strings.Contains(line, "is not executable") {
			t.Error(line)
		}
	}
}
