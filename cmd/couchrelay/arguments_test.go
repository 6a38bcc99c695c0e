package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/adapters/config"
)

// TestRefusedArguments: what a command would have to pass over is refused before it does anything, with words that
// name it.
func TestRefusedArguments(t *testing.T) {
	t.Parallel()
	const databases = "replicate|http://127.0.0.1:1/a|http://127.0.0.1:1/b|"
	for line, want := range map[string]string{
		// A variable of a script that is not set.
		"jobs|--error|":                   "--error",
		"jobs|--state|":                   "--state",
		"jobs|--cursor=":                  "--cursor",
		"jobs|--server|":                  "--server",
		"docs|":                           "<database>",
		"docs|_replicator|":               "<doc>",
		"job|":                            "<id>",
		"failures|":                       "<id>",
		"hold|lift|":                      "<id>",
		"hold|add|--database|a|--reason|": "--reason",
		"hold|add|--reason|a":             "needs --database or --server-host",
		"hold|add|--database|a|--server-host|b|--reason|a": "can't be used together",
		databases + "--selector|":                          "--selector",
		databases + "--filter|":                            "--filter",
		databases + "--doc-ids|":                           "--doc-ids",
		"verify|http://a/a|http://b/b|--doc-ids|":          "--doc-ids",
		"serve|--config|":                                  "--config",
		"serve|--store|":                                   "--store",
		"serve|--bind|":                                    "--bind",
		// Values that no command can use.
		"jobs|--timeout|0s":                        "--timeout",
		"jobs|--timeout=-1s":                       "--timeout",
		databases + "--checkpoint-interval|0s":     "--checkpoint-interval",
		"failures|x|--limit|0":                     "--limit",
		"docs|--limit|0":                           "--limit",
		"demo|--docs=-1":                           "--docs",
		"serve|--name|a\nb":                        "--name",
		"serve|--name|" + strings.Repeat("n", 101): "--name",
		"serve|--record-limit=-1":                  "--record-limit",
		"serve|--record-limit|5":                   "needs --record",
		"serve|--record-limit|18446744073710":      "--record-limit",
		"serve|--sandbox|0":                        "--sandbox",
		"serve|--sandbox=-1":                       "--sandbox",
		"serve|--sandbox|65536":                    "--sandbox",
		// Flags that mean nothing beside others.
		"docs|_replicator|a|--state|failed": "one document",
		"check|--key-prefix|a":              "--store",
		"backup|file|--local-config|a":      "--store",
		"backup|-|--json":                   "--json",
		"man|jobs|--directory|a":            "--directory",
		"config|replicator|--markdown":      "--markdown",
	} {
		var c commands
		_, err := newParser(&c, func(int) {}).Parse(strings.Split(line, "|"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestStatusOfArguments: a mistake that only the run of a command finds has the status of one, too.
func TestStatusOfArguments(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"jobs|--server|ftp://a", "jobs|--server|http://a/?b=c", "config|replicator/max_job", "man|nope", "verify",
		"replicate|a|b", "replicate|http://a/a|http://b/b|--workers|0", "import|x",
		"replicate|http://a/a|http://b/b|--ca-file|main.go", "verify|http://a/a|http://b/b|--ca-file|main.go",
		"jobs|--credentials|" + filepath.Join(t.TempDir(), "none"),
		"serve|--store|main.go", "check|--store|main.go", "backup|-|--store|main.go",
		"restore|" + filepath.Join(t.TempDir(), "backup") + "|--store|fdb:x",
	} {
		var c commands
		ctx, err := newParser(&c, func(int) {}).Parse(strings.Split(line, "|"))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if err := ctx.Run(&window{to: &strings.Builder{}}); exitStatus(err) != badUsage {
			t.Errorf("%q ends with status %d: %v", line, exitStatus(err), err)
		}
	}
}

// TestRestoreIntoCluster: no directory is made that has the name of a cluster.
func TestRestoreIntoCluster(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("backup", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := (&restoreCommand{Store: "fdb:x", File: "backup"}).Run(&window{to: &strings.Builder{}})
	if err == nil || !strings.Contains(err.Error(), "fdbrestore") {
		t.Error(err)
	}
	if _, err := os.Stat("fdb:x"); err == nil {
		t.Error("there is a directory fdb:x")
	}
}

// TestFlagsOfServe: flags take what their keys take, and an address that cannot be looked up is named by its key.
func TestFlagsOfServe(t *testing.T) {
	t.Parallel()
	port := 70000
	for want, s := range map[string]serveCommand{
		"--port: [chttpd] port = 70000: must be a whole number from 0 to 65535": {Port: &port},
		"--key-prefix: [store] key_prefix":                                      {KeyPrefix: strings.Repeat("k", 101)},
	} {
		c := config.Default()
		if err := s.override(&c); exitStatus(err) != badUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for i := range 20 {
		c := config.Default()
		c.BindAddress = "256.0.0.1"
		if i%2 == 1 { // as before a request sets one that no later start can use
			c.Admins = map[string]string{"adm": "x"}
		}
		err := checkExposure(c)
		if err == nil || !strings.HasPrefix(err.Error(), "[chttpd] bind_address = 256.0.0.1") {
			t.Fatal(err)
		}
	}
	c := config.Default()
	c.Beside.Scrapes = config.Scrapes{Enable: true, BindAddress: "0.0.0.0", Port: 1}
	if err := checkExposure(c); err != nil {
		t.Errorf("metrics on all addresses: %v", err)
	}
	c.Beside.Scrapes.BindAddress = "256.0.0.1"
	if err := checkExposure(c); err == nil || !strings.HasPrefix(err.Error(), "[prometheus] bind_address = 256.0.0.1") {
		t.Error(err)
	}
}

// TestConfigOfNames: what holds for all names of a section is printed for one that nothing is set for.
func TestConfigOfNames(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"tls partner/ca_file", "follow a", "admins/adm", "replicator.shares/user:a"} {
		if out, _ := printed(t, configCommand{Key: key}); !strings.Contains(out, "; It takes") {
			t.Errorf("%s: %s", key, out)
		}
	}
	for key, want := range map[string]string{
		"replicator/max_job": "no such key; the nearest is max_jobs", "nope": "no such section",
		"tls a/nope": "no such",
	} {
		err := (&configCommand{Key: key}).print(&strings.Builder{}, &strings.Builder{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestMistakesLeaveOutputAlone: a mistake on the command line writes nothing into what may be a backup.
func TestMistakesLeaveOutputAlone(t *testing.T) {
	t.Parallel()
	var c commands
	var out, problems strings.Builder
	status := 0
	parser := newParser(&c, func(s int) { status = s })
	parser.Stdout, parser.Stderr = &out, &problems
	_, err := parser.Parse([]string{"backup", "-", "--stroe", "a"})
	refuse(parser, err)
	if out.Len() > 0 || status != badUsage || !strings.Contains(problems.String(), "unknown flag --stroe") ||
		!strings.Contains(problems.String(), "Usage: couchrelay backup") {
		t.Errorf("ends with %d, prints %q and tells %s", status, out.String(), problems.String())
	}
}
